"""The tasks of a foreign app: `crm/tasks.py` there."""

import os
import time
from pathlib import Path

from celery import shared_task

PLACE = Path(os.environ["CRM_PLACE"])


def note(line: str) -> None:
    with (PLACE / "diary").open("a") as diary:
        diary.write(f"{line}\n")


@shared_task(name="crm.mail", acks_late=True)
def mail(number: int) -> None:
    """A short one."""
    note(f"mail {number}")


@shared_task(name="crm.import", acks_late=True)
def long_import(number: int) -> None:
    """One that takes as long as the test likes."""
    note(f"import {number} begins")
    while not (PLACE / "released").exists():
        time.sleep(0.05)
    note(f"import {number} ends")
