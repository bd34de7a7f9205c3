"""What goes wrong at night, one by one; each is gone at the end of its block."""

import os
import re
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field

from tests.alerts.night import BATCH_SIZE, Night
from tests.alerts.runbook import linked
from tests.neighbour import wait_until
from tests.system.hold import Hold
from tests.world import MINUTE

TOO_LARGE = 2_000_000  # bytes: the client refuses more than one million


@dataclass(frozen=True)
class Trouble:
    """A fault that is in place, and what the person called has to find and to do."""

    cause: tuple[str, ...]
    """Patterns that the runbook's commands must have printed; (?!…) for what must be missing."""
    over: str
    """What they print when it is over."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """The words that the person fills in."""
    mend: Callable[[], object] = lambda: None
    """What the runbook asks for outside this product."""


Fault = Callable[[Night], AbstractContextManager[Trouble]]


@contextmanager
def worker_dead(night: Night) -> Iterator[Trouble]:
    night.worker.process.kill()
    yield Trouble(cause=(r"(?s)\A(?!.*celery@)",), over="Cycles are being done")


@contextmanager
def database_away(night: Night) -> Iterator[Trouble]:
    night.postgres.stop()
    try:
        yield Trouble(
            cause=("PostgreSQL cannot be reached",), over="Ready", mend=night.postgres.start
        )
    finally:
        if not night.postgres.running:
            night.postgres.start()


@contextmanager
def table_locked(night: Night) -> Iterator[Trouble]:
    lock = "LOCK TABLE calendar.appointments IN ACCESS EXCLUSIVE MODE"
    with night.foreign_session(lock) as session:
        pid = str(session.info.backend_pid)
        as_there = linked("ops/runbooks/appointment-timeout.md#old-transaction").steps["Do"]
        yield Trouble(
            cause=("Ready", rf"{pid} .*monthly-report.*calendar\.appointments"),
            over="Ready",
            mend=lambda: night.run(*as_there, PID=pid),
        )


@contextmanager
def beat_stopped(night: Night) -> Iterator[Trouble]:
    night.beat.process.stop()
    yield Trouble(
        cause=("celery@.*OK", r"(?s)\A(?!.*celerybeat@)", "completed"),
        over="Cycles are being done",
    )


@contextmanager
def child_frozen_in_a_cycle(night: Night) -> Iterator[Trouble]:
    night.world.appointment()
    hold = Hold(night.world)
    hold.wait_reached()
    active = night.run("celery -A tasks inspect active")
    [pid] = re.findall(r"'calendar.appointment_timeout'.*'worker_pid': (\d+)", active)
    os.kill(int(pid), signal.SIGSTOP)
    hold.release()
    yield Trouble(
        cause=("under way", rf"calendar\.appointment_timeout.*{pid}"),
        over="completed",
        variables={"WORKER_PID": pid},
    )


@contextmanager
def more_due_than_a_cycle_takes(night: Night) -> Iterator[Trouble]:
    for _ in range(230):
        night.world.appointment()
    yield Trouble(
        cause=(r"Overdue, not yet expired +│ \d{3}", f"completed.*Expired {BATCH_SIZE},"),
        over=r"Overdue, not yet expired +│ \d{1,2} ",
    )


@contextmanager
def deployment_half_way(night: Night) -> Iterator[Trouble]:
    night.world.execute("UPDATE calendar.schema_level SET oldest_program = 99")

    def finish() -> None:
        night.world.execute("UPDATE calendar.schema_level SET oldest_program = 1")

    try:
        yield Trouble(cause=("schema is too new for this program",), over="completed", mend=finish)
    finally:
        finish()


@contextmanager
def slot_and_event_in_a_wrong_state(night: Night) -> Iterator[Trouble]:
    made = night.world.appointment(slot_status="Available", event_status="Cancelled", reminders=())
    identifier = str(made.appointment)
    yield Trouble(
        cause=(identifier, "It cannot expire: slot: found Available, wanted Booked"),
        over="It is Expired",
        variables={"APPOINTMENT_ID": identifier},
    )


@contextmanager
def slot_locked(night: Night) -> Iterator[Trouble]:
    made = night.world.appointment(expires_in=MINUTE)
    lock = f"SELECT FROM calendar.availability_slots WHERE id = '{made.slot}' FOR UPDATE"
    with night.foreign_session(lock) as session:
        night.world.execute(
            "UPDATE calendar.appointments SET pending_expires_at = now() WHERE id = :id",
            id=made.appointment,
        )
        pid, identifier = str(session.info.backend_pid), str(made.appointment)
        yield Trouble(
            cause=(
                identifier,
                rf"the slot by backend {pid} \(monthly-report\).*idle in transaction",
            ),
            over="It is Expired",
            variables={"APPOINTMENT_ID": identifier, "PID": pid},
        )


@contextmanager
def transaction_idle(night: Night) -> Iterator[Trouble]:
    with night.foreign_session("SELECT txid_current()") as session:
        pid = str(session.info.backend_pid)
        yield Trouble(
            cause=(rf"{pid} .*monthly-report.*idle in transaction",),
            over=r"Oldest open transaction +│ 0\.",
            variables={"PID": pid},
        )


@contextmanager
def brake_forgotten(night: Night) -> Iterator[Trouble]:
    """Pulled an hour ago by these rules' time, which is a minute."""
    night.run("python -m app pause --reason 'bad import'")
    night.world.execute("UPDATE calendar.brake SET pulled_at = pulled_at - interval '1 minute'")
    identifier = night.world.appointment().appointment
    try:
        yield Trouble(
            cause=(
                r"\ANo appointment expires: .*bad import",
                rf"(?s)The next cycle would.*{identifier}",
            ),
            over=r"(?s)\A(?!.*brake)",
        )
    finally:
        night.world.execute("DELETE FROM calendar.brake")


@contextmanager
def kafka_down(night: Night) -> Iterator[Trouble]:
    night.kafka.stop()
    night.world.appointment()
    try:
        yield Trouble(
            cause=("failed.*Kafka did not acknowledge", r"calendar\.outbox_publisher"),
            over=r"Messages unsent +│ 0 ",
            mend=night.kafka.start,
        )
    finally:
        if not night.kafka.running:
            night.kafka.start()


@contextmanager
def message_too_large(night: Night) -> Iterator[Trouble]:
    """Two of them: one can be mended, one never goes."""
    ids = [
        str(row["message_id"])
        for row in night.world.all(
            """INSERT INTO calendar.outbox_messages (topic, key, payload)
            SELECT 'pin.calendar.appointment-cancelled.v1', key, to_json(repeat('x', :size))
            FROM unnest(ARRAY['a', 'b']) AS key RETURNING message_id""",
            size=TOO_LARGE,
        )
    ]
    wait_until(lambda: all(one in night.run("python -m app outbox list") for one in ids), "refused")

    def mend() -> None:
        night.world.execute(
            "UPDATE calendar.outbox_messages SET payload = '{}' WHERE message_id = :id", id=ids[1]
        )

    yield Trouble(
        cause=tuple(rf"{one}.*set aside.*MSG_SIZE_TOO_LARGE" for one in ids),
        over="No message is refused",
        variables={"MESSAGE_ID": ids[0]},
        mend=mend,
    )


FAULTS: Mapping[Fault, str] = {
    worker_dead: "AppointmentTimeoutNoWorker",
    database_away: "AppointmentTimeoutDatabaseUnreachable",
    table_locked: "AppointmentTimeoutDatabaseUnreachable",
    beat_stopped: "AppointmentTimeoutBeatSilent",
    child_frozen_in_a_cycle: "AppointmentTimeoutNoSuccessfulCycle",
    more_due_than_a_cycle_takes: "AppointmentTimeoutBacklog",
    deployment_half_way: "AppointmentTimeoutErrors",
    slot_and_event_in_a_wrong_state: "AppointmentTimeoutPoisonItem",
    slot_locked: "AppointmentTimeoutLocked",
    transaction_idle: "AppointmentTimeoutOldTransaction",
    brake_forgotten: "AppointmentTimeoutBrakeOn",
    kafka_down: "OutboxBacklog",
    message_too_large: "OutboxMessageSetAside",
}
"""The alert that calls for each."""
