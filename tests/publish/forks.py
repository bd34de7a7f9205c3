"""Publishers in forked processes: `python -m tests.publish.forks TOPIC`.

The parent sends, forks children the way a prefork pool does, and goes on sending beside them.
"""

import multiprocessing
import os
import sys
import time

from app import kafka
from app.settings import KafkaSettings

CHILDREN, EACH = 2, 20


def send(name: str) -> int:
    """As one drain does it; how many were acknowledged."""
    sender = kafka.sender(KafkaSettings.load())
    records = [
        kafka.Record(sys.argv[1], f"{name} {number}".encode(), b"{}", {}) for number in range(EACH)
    ]
    verdicts = sender.send(records, time.monotonic() + 30)
    return [verdict.answer for verdict in verdicts].count(kafka.Answer.ACKNOWLEDGED)


def child(number: int) -> None:
    """Twice, then an end that runs every exit hook and collects every object."""
    done = send(f"child {number} first") + send(f"child {number} again")
    kafka.close_all()
    print(os.getpid(), done, flush=True)  # noqa: T201


def main() -> None:
    print(os.getpid(), send("parent first"), flush=True)  # noqa: T201
    fork = multiprocessing.get_context("fork")
    children = [fork.Process(target=child, args=(number,)) for number in range(CHILDREN)]
    for process in children:
        process.start()
    print(os.getpid(), send("parent beside"), flush=True)  # noqa: T201
    for process in children:
        process.join(40)
    if os.fork() == 0:  # an ordinary end, with the interpreter's whole tidying up
        print(os.getpid(), send("last child"), flush=True)  # noqa: T201
        sys.exit()
    _, status = os.wait()
    kafka.close_all()
    sys.exit(status or max(abs(process.exitcode or 0) for process in children))


if __name__ == "__main__":
    main()
