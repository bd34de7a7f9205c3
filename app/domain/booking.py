"""Booking: the four that change together (appointment, slot, event, reminders).

The whole cascade stands here, once, for every way an appointment can end before it takes place.
"""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from app.domain import outbox
from app.domain.appointment import Appointment, AppointmentStatus, pending_expires_at
from app.domain.event import CalendarEvent
from app.domain.law import Refusal
from app.domain.outbox import OutboxMessage, Reason
from app.domain.reminder import EventReminder
from app.domain.slot import Slot

CANCEL_REASONS = {
    Reason.EXPIRED: "Запись не подтверждена агентом в срок",
    Reason.DECLINED: "Запись отклонена агентом",
    Reason.CANCELLED_BY_INVESTOR: "Запись отменена инвестором",
    Reason.CANCELLED_BY_AGENT: "Запись отменена агентом",
}
"""What the calendar event says about its end; the first is the customer's wording (C3.3)."""


def book(
    slot: Slot, *, appointment_id: UUID, event_id: UUID, investor_id: UUID, as_of: datetime
) -> tuple[Appointment, Slot]:
    """An investor takes a slot: Pending until the agent decides, Confirmed on auto-confirm."""
    booked = slot.book(as_of)
    deadline = pending_expires_at(as_of, slot)
    appointment = Appointment(
        id=appointment_id,
        tenant_id=slot.tenant_id,
        slot_id=slot.id,
        calendar_event_id=event_id,
        investor_id=investor_id,
        agent_id=slot.agent_id,
        status=AppointmentStatus.PENDING if deadline else AppointmentStatus.CONFIRMED,
        updated_at=as_of,
        version=1,
        pending_expires_at=deadline,
    )
    return appointment, booked


@dataclass(frozen=True, slots=True, kw_only=True)
class Booking:
    """An appointment with all that follows it; a part that does not exist is None.

    `reminders` are the event's pending ones: no other reminder is ever touched (C3.4).
    `rival_holds_slot` tells that another active appointment stands on the same slot.
    """

    appointment: Appointment
    slot: Slot | None
    event: CalendarEvent | None
    reminders: tuple[EventReminder, ...] = ()
    rival_holds_slot: bool = False

    def expire(
        self, as_of: datetime, correlation_id: str, traceparent: str | None = None
    ) -> "Ending":
        """No decision in time: the cascade of C3 as one act, or a refusal that changes nothing."""
        ended = self.appointment.expire(as_of)
        return self._end(ended, Reason.EXPIRED, as_of, correlation_id, traceparent)

    def decline(self, as_of: datetime, correlation_id: str) -> "Ending":
        """The agent declines: the same cascade under another reason."""
        return self._end(self.appointment.decline(as_of), Reason.DECLINED, as_of, correlation_id)

    def cancel(self, as_of: datetime, cancelled_by: UUID, correlation_id: str) -> "Ending":
        """Investor or agent cancels: the same cascade; anybody else is refused."""
        reasons = {
            self.appointment.investor_id: Reason.CANCELLED_BY_INVESTOR,
            self.appointment.agent_id: Reason.CANCELLED_BY_AGENT,
        }
        if cancelled_by not in reasons:
            raise Refusal(
                "appointment",
                self.appointment.id,
                found="a stranger",
                wanted="its investor or agent",
            )
        ended = self.appointment.cancel(as_of, cancelled_by)
        return self._end(ended, reasons[cancelled_by], as_of, correlation_id)

    def _end(
        self,
        ended: Appointment,
        reason: Reason,
        as_of: datetime,
        correlation_id: str,
        traceparent: str | None = None,
    ) -> "Ending":
        if self.slot is None:
            raise Refusal("slot", ended.slot_id, found="nothing", wanted="the slot")
        if self.event is None:
            raise Refusal("event", ended.calendar_event_id, found="nothing", wanted="the event")
        if self.rival_holds_slot:
            raise Refusal(
                "slot", self.slot.id, found="another active appointment", wanted="this one alone"
            )
        slot = self.slot.release(as_of)
        event = self.event.cancel(as_of, CANCEL_REASONS[reason])
        return Ending(
            appointment=ended,
            slot=slot,
            event=event,
            reminders=tuple(reminder.skip(as_of) for reminder in self.reminders),
            messages=_messages(ended, event, reason, correlation_id, traceparent),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """What the law made of a booking: its state afterwards and the pair of messages (C3.6)."""

    appointment: Appointment
    slot: Slot
    event: CalendarEvent
    reminders: tuple[EventReminder, ...]
    messages: tuple[OutboxMessage, OutboxMessage]


def _messages(
    appointment: Appointment,
    event: CalendarEvent,
    reason: Reason,
    correlation_id: str,
    traceparent: str | None,
) -> tuple[OutboxMessage, OutboxMessage]:
    parties: dict[str, object] = {
        "AppointmentId": str(appointment.id),
        "SlotId": str(appointment.slot_id),
        "CalendarEventId": str(appointment.calendar_event_id),
        "TenantId": str(appointment.tenant_id),
        "InvestorId": str(appointment.investor_id),
        "AgentId": str(appointment.agent_id),
    }
    occurred = {"OccurredAt": outbox.timestamp(appointment.updated_at)}
    return (
        outbox.compose(
            outbox.APPOINTMENT_CANCELLED,
            appointment.id,
            appointment.version,
            {**parties, "Reason": str(reason), **occurred},
            correlation_id,
            traceparent,
        ),
        outbox.compose(
            outbox.EVENT_STATUS_CHANGED,
            event.id,
            event.version,
            {**parties, "Status": str(event.status), **occurred},
            correlation_id,
            traceparent,
        ),
    )
