"""The pair of messages that an ending must bring (section 6), as `rows` reads it back."""

from datetime import datetime

from tests.interleaving.rows import Row

PARTIES = {
    "AppointmentId": "id",
    "SlotId": "slot_id",
    "CalendarEventId": "calendar_event_id",
    "TenantId": "tenant_id",
    "InvestorId": "investor_id",
    "AgentId": "agent_id",
}


def pair(appointment: Row, reason: str, as_of: datetime, correlation: str) -> list[Row]:
    """First the appointment's, then the event's."""
    both: Row = {
        **{name: str(appointment[column]) for name, column in PARTIES.items()},
        "ContractVersion": 1,
        "OccurredAt": as_of,
        "CorrelationId": correlation,
        "correlation": correlation,
        "published": False,
    }
    return [
        {
            **both,
            "topic": "pin.calendar.appointment-cancelled.v1",
            "key": str(appointment["id"]),
            "Reason": reason,
        },
        {
            **both,
            "topic": "pin.calendar.event-status-changed.v1",
            "key": str(appointment["calendar_event_id"]),
            "Status": "Cancelled",
        },
    ]
