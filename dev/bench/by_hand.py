"""The baseline: the job as a team would write it by hand, with the ORM, a transaction per item."""

import time
from datetime import datetime, timedelta
from uuid import UUID, uuid4

from sqlalchemy import JSON, Engine, ForeignKey, func, select
from sqlalchemy.dialects.postgresql import JSONB, TIMESTAMP
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship

from app.domain.booking import CANCEL_REASONS
from app.domain.outbox import APPOINTMENT_CANCELLED, EVENT_STATUS_CHANGED, Reason


class Base(DeclarativeBase):
    """The schema's tables, as far as the job needs them."""

    __table_args__ = {"schema": "calendar"}  # noqa: RUF012 - SQLAlchemy's own way
    type_annotation_map = {datetime: TIMESTAMP(timezone=True)}  # noqa: RUF012


class Slot(Base):
    """A slot."""

    __tablename__ = "availability_slots"
    id: Mapped[UUID] = mapped_column(primary_key=True)
    status: Mapped[str]
    start_at: Mapped[datetime]
    min_lead_time_minutes: Mapped[int]
    updated_at: Mapped[datetime]
    version: Mapped[int] = mapped_column()
    __mapper_args__ = {"version_id_col": version}  # noqa: RUF012


class Event(Base):
    """A calendar event with its reminders."""

    __tablename__ = "calendar_events"
    id: Mapped[UUID] = mapped_column(primary_key=True)
    status: Mapped[str]
    cancel_reason: Mapped[str | None]
    updated_at: Mapped[datetime]
    version: Mapped[int] = mapped_column()
    reminders: Mapped[list["Reminder"]] = relationship()
    __mapper_args__ = {"version_id_col": version}  # noqa: RUF012


class Reminder(Base):
    """A reminder."""

    __tablename__ = "event_reminders"
    id: Mapped[UUID] = mapped_column(primary_key=True)
    calendar_event_id: Mapped[UUID] = mapped_column(ForeignKey(Event.id))
    status: Mapped[str]
    updated_at: Mapped[datetime]


class Appointment(Base):
    """An appointment with its slot and event."""

    __tablename__ = "appointments"
    id: Mapped[UUID] = mapped_column(primary_key=True)
    tenant_id: Mapped[UUID]
    slot_id: Mapped[UUID] = mapped_column(ForeignKey(Slot.id))
    calendar_event_id: Mapped[UUID] = mapped_column(ForeignKey(Event.id))
    investor_id: Mapped[UUID]
    agent_id: Mapped[UUID]
    status: Mapped[str]
    updated_at: Mapped[datetime]
    pending_expires_at: Mapped[datetime | None]
    version: Mapped[int] = mapped_column()
    slot: Mapped[Slot] = relationship()
    event: Mapped[Event] = relationship()
    __mapper_args__ = {"version_id_col": version}  # noqa: RUF012


class Message(Base):
    """An outbox message."""

    __tablename__ = "outbox_messages"
    id: Mapped[int] = mapped_column(primary_key=True)
    message_id: Mapped[UUID]
    topic: Mapped[str]
    key: Mapped[str]
    payload: Mapped[dict[str, object]] = mapped_column(JSON)
    headers: Mapped[dict[str, str]] = mapped_column(JSONB)


def run(engine: Engine, items: int) -> float:
    """One cycle by hand; items a second."""
    began = time.monotonic()
    with Session(engine) as session:
        as_of: datetime = session.scalars(select(func.now())).one()
        due = session.scalars(
            select(Appointment.id)
            .where(Appointment.status == "Pending", Appointment.pending_expires_at < as_of)
            .order_by(Appointment.pending_expires_at)
            .limit(items)
        ).all()
    for appointment_id in due:
        with Session(engine) as session, session.begin():
            _expire(session, appointment_id, as_of)
    return items / (time.monotonic() - began)


def _expire(session: Session, appointment_id: UUID, as_of: datetime) -> None:
    lock = {"skip_locked": True}
    appointment = session.get(Appointment, appointment_id, with_for_update=lock)
    if appointment is None or appointment.status != "Pending":
        return
    slot = session.get(Slot, appointment.slot_id, with_for_update=lock)
    event = session.get(Event, appointment.calendar_event_id, with_for_update=lock)
    if slot is None or event is None:
        return
    appointment.status, appointment.updated_at = "Expired", as_of
    usable = as_of <= slot.start_at - timedelta(minutes=slot.min_lead_time_minutes)
    slot.status, slot.updated_at = "Available" if usable else "Expired", as_of
    event.status, event.updated_at = "Cancelled", as_of
    event.cancel_reason = CANCEL_REASONS[Reason.EXPIRED]
    for reminder in event.reminders:
        if reminder.status == "Pending":
            reminder.status, reminder.updated_at = "Skipped", as_of
    for topic, key, more in (
        (APPOINTMENT_CANCELLED, appointment.id, {"Reason": "Expired"}),
        (EVENT_STATUS_CHANGED, event.id, {"Status": "Cancelled"}),
    ):
        session.add(_message(topic, key, appointment, {**more, "OccurredAt": as_of.isoformat()}))


def _message(topic: str, key: UUID, appointment: Appointment, more: dict[str, str]) -> Message:
    correlation = str(uuid4())
    parties = {
        "AppointmentId": appointment.id,
        "SlotId": appointment.slot_id,
        "CalendarEventId": appointment.calendar_event_id,
        "TenantId": appointment.tenant_id,
        "InvestorId": appointment.investor_id,
        "AgentId": appointment.agent_id,
    }
    payload = {name: str(value) for name, value in parties.items()}
    document = {"ContractVersion": 1, **payload, **more, "CorrelationId": correlation}
    trace = f"00-{uuid4().hex}-{uuid4().hex[:16]}-00"
    return Message(
        message_id=uuid4(),
        topic=topic,
        key=str(key),
        payload=document,
        headers={"correlation-id": correlation, "traceparent": trace},
    )
