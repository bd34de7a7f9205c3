"""A world in which every operation has been at work, by the law alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import Engine, text

from app import audit, operations
from app.audit import AuditOptions
from app.domain.appointment import Appointment
from app.store import bookings, outbox
from app.store.audit import Check
from tests.world import HOUR, World

DAY = 24 * HOUR


@dataclass(frozen=True)
class Found:
    """One finding, as tests compare it."""

    severity: str
    rule: str
    check: str
    id: str
    found: str


class LawfulWorld(World):
    """Appointments by name, each in the state that its operation left behind."""

    def __init__(self, engine: Engine, names: Mapping[str, Appointment] | None = None) -> None:
        super().__init__(engine)
        self.names = names or {}

    def fill(self) -> "LawfulWorld":
        """Every operation once, a cycle, and everything published."""
        expired, late = self.book(ago=25 * HOUR), self.book(ago=5 * HOUR, starts_in=HOUR / 2)
        self.names = {
            "expired": expired,
            "late": late,
            "pending": self.book(),
            "confirmed": self.book(),
            "auto": self.book(auto_confirm=True),
            "declined": self.book(),
            "by_investor": self.book(),
            "by_agent": self.book(),
            "rebooked": self.book(),
            "ancient": self.book(ago=31 * DAY, starts_in=-20 * DAY),
        }
        assert self.run().expired == 3
        self.decide()
        self.publish()
        self.forget("ancient")
        return self

    def decide(self) -> None:
        """The agent's and the investor's own operations."""
        now, engine, of = self.now(), self.engine, self.names
        for name in ("confirmed", "by_agent"):
            operations.confirm(engine, of[name].id, now)
        for name in ("declined", "rebooked"):
            operations.decline(engine, of[name].id, now)
        operations.cancel(engine, of["by_investor"].id, of["by_investor"].investor_id, now)
        operations.cancel(engine, of["by_agent"].id, of["by_agent"].agent_id, now)
        operations.book(engine, of["rebooked"].slot_id, uuid4(), self.now())

    def book(
        self,
        *,
        ago: timedelta = HOUR,
        starts_in: timedelta = 3 * DAY,
        auto_confirm: bool = False,
    ) -> Appointment:
        """One appointment, as an investor made it so long ago."""
        now, slot_id = self.now(), uuid4()
        with self.engine.begin() as connection:
            bookings.offer_slot(
                connection,
                slot_id,
                tenant_id=uuid4(),
                agent_id=uuid4(),
                start_at=now + starts_in,
                end_at=now + starts_in + HOUR,
                min_lead_time_minutes=60,
                auto_confirm=auto_confirm,
            )
        return operations.book(self.engine, slot_id, uuid4(), now - ago)

    def publish(self) -> None:
        """Mark all messages as acknowledged, as a drain does."""
        with self.engine.begin() as connection:
            ids = connection.execute(
                text("SELECT id FROM calendar.outbox_messages WHERE published_at IS NULL")
            ).scalars()
            outbox.mark_published(connection, list(ids))

    def forget(self, name: str) -> None:
        """An ending of long ago: retention has removed its messages."""
        self.plant(
            """UPDATE calendar.appointments SET updated_at = now() - interval '30 days'
            WHERE id = :a""",
            "DELETE FROM calendar.outbox_messages WHERE payload ->> 'AppointmentId' = :a_text",
            **self.ids(name),
        )

    def ids(self, name: str) -> dict[str, Any]:
        """A named appointment's ids, as planted statements use them."""
        made = self.names[name]
        return {
            "a": made.id,
            "s": made.slot_id,
            "e": made.calendar_event_id,
            "a_text": str(made.id),
        }

    def plant(self, *statements: str, **values: Any) -> None:
        """Do what the database would refuse: no trigger and no foreign key is asked."""
        with self.engine.begin() as connection:
            connection.execute(text("SET LOCAL session_replication_role = replica"))
            for statement in statements:
                connection.execute(text(statement), values)

    def messages_of(self, name: str) -> dict[str, UUID]:
        """The ids of a named appointment's messages, by topic."""
        return self.messages_of_id(self.names[name].id)

    def messages_of_id(self, appointment_id: UUID) -> dict[str, UUID]:
        """The same for one that has no name."""
        rows = self.all(
            """SELECT topic, message_id FROM calendar.outbox_messages
            WHERE payload ->> 'AppointmentId' = :a""",
            a=str(appointment_id),
        )
        return {row["topic"]: row["message_id"] for row in rows}

    def audit(
        self, checks: Sequence[Check] = audit.CHECKS, options: AuditOptions | None = None
    ) -> list[Found]:
        """All that the audit finds; a check that could not judge fails the test."""
        found = []
        with self.engine.connect() as connection:
            for result in audit.run(connection, checks, (options or AuditOptions()).values):
                assert result.error is None, (result.check.name, result.error)
                check = result.check
                found += [
                    Found(check.severity, check.rule, check.name, finding.id, finding.found)
                    for finding in result.findings
                ]
        return found
