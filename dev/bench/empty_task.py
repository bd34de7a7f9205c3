"""An empty task beside the product's own: `celery -A tasks worker -I dev.bench.empty_task`.

A cycle's own time is noted, so that what Celery and the door add can be told from it.
"""

import os
import time
from pathlib import Path
from typing import Any

from celery import Task

from app import expire
from dev.bench.ticks import EMPTY
from tasks import celery
from tasks.doors import Standing

_spent = Path(os.environ["BENCH_SPENT"])
_run_cycle = expire.run_cycle


@celery.task(name=EMPTY, base=Standing, bind=True)
def empty(_self: "Task[[], None]") -> None:
    """Nothing."""


def _noted(*arguments: Any, **options: Any) -> Any:
    began = time.perf_counter()
    try:
        return _run_cycle(*arguments, **options)
    finally:
        with _spent.open("a") as file:
            file.write(f"{time.perf_counter() - began}\n")


expire.run_cycle = _noted
