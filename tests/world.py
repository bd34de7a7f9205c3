"""The tests' words: make appointments in any state, and see everything that is there."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import Engine, text

from app import facts
from app.expire import run_cycle
from app.report import CycleOptions, CycleReport

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)


@dataclass(frozen=True)
class Made:
    """The ids of one appointment and of what hangs on it."""

    appointment: UUID
    slot: UUID
    event: UUID
    investor: UUID
    agent: UUID
    tenant: UUID


class World:
    """One database, in the test's words."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def now(self) -> datetime:
        """The one clock's time."""
        found: datetime = self.one("SELECT clock_timestamp() AS now")["now"]
        return found

    def appointment(
        self,
        *,
        expires_in: timedelta | None = -MINUTE,
        starts_in: timedelta = 48 * HOUR,
        lead_minutes: int = 60,
        status: str = "Pending",
        slot_status: str = "Booked",
        event_status: str = "Scheduled",
        origin: str = "Appointment",
        reminders: tuple[str, ...] = ("Pending", "Pending", "Sent"),
        slot: UUID | None = None,
    ) -> Made:
        """Insert one as it is asked for, lawful or not; times are relative to now."""
        made = Made(uuid4(), slot or uuid4(), uuid4(), uuid4(), uuid4(), uuid4())
        now = datetime.now(UTC)
        values = {
            **{name: getattr(made, name) for name in made.__annotations__},
            "status": status,
            "slot_status": slot_status,
            "event_status": event_status,
            "origin": origin,
            "lead": lead_minutes,
            "start": now + starts_in,
            "created": now - 25 * HOUR,
            "deadline": None if expires_in is None else now + expires_in,
            "reminders": list(reminders),
        }
        with self.engine.begin() as connection:
            if slot is None:
                connection.execute(text(_SLOT), values)
            connection.execute(text(_EVENT), values)
            connection.execute(text(_REMINDERS), values)
            connection.execute(text(_APPOINTMENT), values)
        return made

    def run(self, run_id: str | None = None, **options: Any) -> CycleReport:
        """One cycle, as the task runs it."""
        tell = options.pop("tell", facts.nobody)
        trace = options.pop("trace", facts.untraced)
        stopping = options.pop("stopping", lambda: False)
        return run_cycle(
            self.engine,
            CycleOptions(**options),
            run_id or str(uuid4()),
            tell=tell,
            trace=trace,
            stopping=stopping,
        )

    def execute(self, sql: str, **values: Any) -> int:
        """Run one statement in a transaction of its own."""
        with self.engine.begin() as connection:
            return connection.execute(text(sql), values).rowcount

    def all(self, sql: str, **values: Any) -> list[dict[str, Any]]:
        """Every row."""
        with self.engine.begin() as connection:
            return [dict(row) for row in connection.execute(text(sql), values).mappings()]

    def one(self, sql: str, **values: Any) -> dict[str, Any]:
        """The only row."""
        [row] = self.all(sql, **values)
        return row

    def status(self, made: Made) -> str:
        """The appointment's status."""
        return str(
            self.one(
                "SELECT status FROM calendar.appointments WHERE id = :id", id=made.appointment
            )["status"]
        )

    def state(self, made: Made) -> dict[str, list[dict[str, Any]]]:
        """Every column of everything that hangs together, to compare before and after."""
        return {
            "appointment": self.all(
                "SELECT * FROM calendar.appointments WHERE id = :id", id=made.appointment
            ),
            "slot": self.all(
                "SELECT * FROM calendar.availability_slots WHERE id = :id", id=made.slot
            ),
            "event": self.all(
                "SELECT * FROM calendar.calendar_events WHERE id = :id", id=made.event
            ),
            "reminders": self.all(
                """SELECT * FROM calendar.event_reminders
                WHERE calendar_event_id = :id ORDER BY id""",
                id=made.event,
            ),
            "messages": self.messages(made),
        }

    def messages(self, made: Made | None = None) -> list[dict[str, Any]]:
        """The outbox, or one appointment's part of it."""
        return self.all(
            """SELECT * FROM calendar.outbox_messages
            WHERE CAST(:id AS text) IS NULL OR payload ->> 'AppointmentId' = :id ORDER BY id""",
            id=str(made.appointment) if made else None,
        )

    def failures(self) -> dict[UUID, dict[str, Any]]:
        """The kept failures by appointment."""
        rows = self.all("SELECT * FROM calendar.expiry_failures")
        return {row["appointment_id"]: row for row in rows}


_SLOT = """
INSERT INTO calendar.availability_slots
    (id, tenant_id, agent_id, status, start_at, end_at, min_lead_time_minutes)
VALUES (:slot, :tenant, :agent, :slot_status, :start, CAST(:start AS timestamptz) + '1 hour', :lead)
"""
_EVENT = """
INSERT INTO calendar.calendar_events (id, tenant_id, origin, status, start_at, end_at)
VALUES (:event, :tenant, :origin, :event_status, :start, CAST(:start AS timestamptz) + '1 hour')
"""
_REMINDERS = """
INSERT INTO calendar.event_reminders (calendar_event_id, status, remind_at)
SELECT :event, status, now() FROM unnest(CAST(:reminders AS text[])) AS status
"""
_APPOINTMENT = """
INSERT INTO calendar.appointments
    (id, tenant_id, slot_id, calendar_event_id, investor_id, agent_id, status, created_at,
     pending_expires_at)
VALUES (:appointment, :tenant, :slot, :event, :investor, :agent, :status, :created, :deadline)
"""
