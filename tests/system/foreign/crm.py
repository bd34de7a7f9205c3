"""A foreign Celery app, on disk and in processes: with our tasks as its page has it, or without."""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from celery import Celery

from tests.system.celery_process import CELERY, CeleryProcess, celery

HERE = Path(__file__).parent
PAGE = HERE.parents[2] / "docs" / "foreign-app.md"
OUR_QUEUES = "calendar.appointment_timeout,calendar.outbox_publisher"
ALONE = """
import os
from celery import Celery
app = Celery("crm", broker=os.environ["CRM_BROKER_URL"], include=["crm.tasks"])
"""


def included() -> str:
    """The page's own code."""
    [code] = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    return str(code)


class Crm:
    """A team's app, its workers, and what these have done.

    `more` are further lines of its `celery_app.py`. Everything stops with `close`.
    """

    def __init__(self, place: Path, broker_url: str, code: str, more: str = "") -> None:
        self.place = place
        package = place / "crm"
        package.mkdir(parents=True)
        (package / "__init__.py").touch()
        (package / "celery_app.py").write_text(f"{code}\n{more}\n")
        shutil.copy(HERE / "crm_tasks.py", package / "tasks.py")
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": os.environ.get("HOME", "/"),
            "PYTHONPATH": str(place),
            "CRM_BROKER_URL": broker_url,
            "CRM_PLACE": str(place),
        }
        self.sender = Celery("crm", broker=broker_url, set_as_current=False)
        self._running = ExitStack()

    def start(
        self, command: str, *options: str, environment: Mapping[str, str] | None = None
    ) -> CeleryProcess:
        """Start one of its processes; `environment` is what it knows of ours."""
        return self._running.enter_context(
            celery(
                command,
                *("--loglevel", "INFO", *(["--without-mingle"] if command == "worker" else [])),
                *options,
                environment={**(environment or {}), **self.environment},
                directory=self.place,
                app="crm.celery_app",
            )
        )

    def refused(self, *options: str, environment: Mapping[str, str]) -> str:
        """The last words of a worker that does not start."""
        done = subprocess.run(
            [CELERY, "-A", "crm.celery_app", "worker", *options],
            env={**environment, **self.environment},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 1
        return done.stderr.splitlines()[-1]

    def send(self, task: str, number: int, queue: str = "celery") -> None:
        """Send one of its own tasks."""
        self.sender.send_task(task, args=[number], queue=queue)

    def diary(self) -> list[str]:
        """What its tasks have done, line by line."""
        diary = self.place / "diary"
        return diary.read_text().splitlines() if diary.exists() else []

    def release(self) -> None:
        """Let the long tasks end."""
        (self.place / "released").touch()

    def close(self) -> None:
        """Stop its processes."""
        self.release()
        self._running.close()
        self.sender.close()
