"""Programs that no wheel brings: a laptop may lack them, CI never does."""

import os

import pytest

from dev.servers.binaries import on_path


def needed(program: str, package: str) -> str:
    """Where it is; the test is skipped where it is missing, but in CI, which installs it, fails."""
    found = on_path(program)
    if found is None:
        reason = f"{program} is not on the PATH (Debian's package {package} has it)"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return found
