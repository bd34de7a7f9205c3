"""`python -m dev.bench`: measure figure after figure, and print the table."""

import sys

from dev.processes import end_on_signals


def main() -> None:
    """Run what the command line asks for."""
    end_on_signals()
    from dev.bench import run  # noqa: PLC0415 - slow to import, and Ctrl-C may come meanwhile

    sys.exit(run.run(sys.argv[1:]))


if __name__ == "__main__":
    main()
