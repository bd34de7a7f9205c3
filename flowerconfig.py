"""Flower's own options, which it reads from the directory that it is started in; and its log.

What its list of tasks has room for: the figures of a success, the reason of a failure. The task's
own page and the API have the whole result.
"""

from ast import literal_eval
from typing import Any

from app.environment import SettingsError
from app.settings import TelemetrySettings
from app.telemetry import logs

try:
    logs.configure(TelemetrySettings.load().log_format)
except SettingsError as error:
    raise SystemExit(str(error)) from None

tasks_columns = "name,state,result,received,runtime,worker,uuid"

OURS = {"calendar.appointment_timeout", "calendar.outbox_publisher", "calendar.retention"}
WORDS = {
    "ExpiredCount": "expired",
    "SlotsReleasedCount": "freed",
    "SlotsExpiredCount": "lapsed",
    "SkippedLockedCount": "locked",
    "PublishedCount": "published",
    "RefusedCount": "refused",
    "SetAsideCount": "set aside",
    "OutboxMessagesRemoved": "messages removed",
    "JobRunsRemoved": "records removed",
    "DurationMs": "ms",
}
"""The figures of our tasks, short enough for a column."""


def format_task(task: Any) -> Any:
    """A copy of a task as Flower shows it; of other tasks than ours nothing is changed."""
    if task.state == "FAILURE":
        task.result = task.exception
    elif task.state == "SUCCESS" and task.name in OURS:
        figures = literal_eval(task.result)
        told = ", ".join(f"{value} {WORDS.get(name, name)}" for name, value in figures.items())
        task.result = f"{told} = {task.result}"
    return task
