"""The environment variables: each one's own fault, and those that contradict each other."""

import os
from collections.abc import Iterator
from difflib import get_close_matches
from typing import TypeVar

from app.doctor.complaint import Complaint, NotExamined
from app.environment import SettingsError, SettingsGroup
from app.settings import (
    GROUPS,
    AppointmentTimeoutSettings,
    OutboxSettings,
    table,
)

_OURS_ALONE = ("APPOINTMENT_TIMEOUT_", "OUTBOX_PUBLISHER_", "OUTBOX_RETENTION_", "JOB_RUNS_")
"""Nobody else names variables so."""

G = TypeVar("G", bound=SettingsGroup)


def complaints() -> Iterator[Complaint]:
    """What is wrong with the environment itself."""
    for group in GROUPS:
        for variable, sentence in group.faults():
            yield Complaint(sentence, f"Set {variable}: {_meaning(variable)}.")
    yield from _strangers()
    try:
        timeout, outbox = AppointmentTimeoutSettings.load(), OutboxSettings.load()
    except SettingsError:  # each of its faults has been told
        return
    yield from _pace(timeout, outbox)
    yield from _brake(timeout)


def of(group: type[G]) -> G:
    """This group, for a patient that cannot be looked at without it."""
    try:
        return group.load()
    except SettingsError as error:
        raise NotExamined(str(error)) from None


def _meaning(variable: str) -> str:
    usual = variable.replace("_OTLP_TRACES_", "_OTLP_")  # another name of the same thing
    [(default, meaning)] = [(d, text) for name, d, text in table() if name == usual]
    return meaning if default is None else f"{meaning} (default {default})"


def _strangers() -> Iterator[Complaint]:
    known = [name for name, _default, _meaning in table()]
    for name in sorted(os.environ):
        if name.startswith(_OURS_ALONE) and name not in known:
            like = get_close_matches(name, known, 1)
            yield Complaint(
                f"{name} is set, and nothing reads it.",
                f"Rename it to {like[0]}, or remove it." if like else "Remove it.",
                serious=False,
            )


def _pace(timeout: AppointmentTimeoutSettings, outbox: OutboxSettings) -> Iterator[Complaint]:
    interval = timeout.appointment_timeout_interval_seconds
    budget = timeout.appointment_timeout_max_duration_seconds
    drain = outbox.outbox_publisher_interval_seconds
    if budget >= interval:
        yield Complaint(
            f"A cycle may take {budget:g} s and a tick comes every {interval:g} s: while cycles"
            " are long, ticks are skipped (S1).",
            f"Set APPOINTMENT_TIMEOUT_MAX_DURATION_SECONDS below {interval:g}.",
            serious=False,
        )
    if drain > interval:
        yield Complaint(
            f"The outbox drains every {drain:g} s only, less often than cycles come"
            f" ({interval:g} s): messages of declines and cancellations wait that long.",
            f"Set OUTBOX_PUBLISHER_INTERVAL_SECONDS to {interval:g} or less; 10 is usual.",
            serious=False,
        )


def _brake(timeout: AppointmentTimeoutSettings) -> Iterator[Complaint]:
    overdue = timeout.appointment_timeout_pause_above_overdue
    seconds = timeout.appointment_timeout_pause_above_seconds
    late = (
        timeout.appointment_timeout_interval_seconds
        + timeout.appointment_timeout_max_duration_seconds
    )
    if overdue == 0:
        yield Complaint(
            "The brake pulls itself when a single appointment is overdue: nothing ever expires.",
            "Set APPOINTMENT_TIMEOUT_PAUSE_ABOVE_OVERDUE to what only an accident reaches, or"
            " unset it.",
        )
    if seconds is not None and seconds <= late:
        yield Complaint(
            f"The brake pulls itself when an appointment is overdue for {seconds:g} s, and an"
            f" interval and a cycle together may take {late:g} s: ordinary days pull it.",
            f"Set APPOINTMENT_TIMEOUT_PAUSE_ABOVE_SECONDS well above {late:g}, or unset it.",
        )
