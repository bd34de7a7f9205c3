"""What holds of all rows at any moment, whoever did what (C3, D4, section 5): no history needed."""

from collections import Counter

from tests.interleaving.model import EXPIRED_REASON
from tests.interleaving.rows import Row, Rows

ACTIVE = {"Pending", "Confirmed"}
ENDED = {"Expired", "Declined", "Cancelled"}
REASONS = {
    "Expired": {"Expired"},
    "Declined": {"Declined"},
    "Cancelled": {"CancelledByInvestor", "CancelledByAgent"},
}


def broken(rows: Rows) -> list[str]:
    """Every rule that these rows break, by appointment or slot."""
    found = []
    for appointment in rows.appointments.values():
        check = _whole if appointment["status"] in ENDED else _untouched
        found += [f"appointment {appointment['id']}: {text}" for text in check(rows, appointment)]
    active = Counter(a["slot_id"] for a in rows.appointments.values() if a["status"] in ACTIVE)
    for slot in rows.slots.values():
        if active[slot["id"]] != (slot["status"] == "Booked"):
            found.append(f"slot {slot['id']}: {slot['status']}, active: {active[slot['id']]}")
    known = {str(appointment_id) for appointment_id in rows.appointments}
    strays = [row["key"] for row in rows.messages if row["AppointmentId"] not in known]
    return found + [f"message {key} about nobody" for key in strays]


def _whole(rows: Rows, appointment: Row) -> list[str]:
    """C3: an ended appointment has its whole cascade, of the same moment, and one pair."""
    event = rows.events[appointment["calendar_event_id"]]
    messages = rows.about(appointment["id"])
    reasons = [row["Reason"] for row in messages if "Reason" in row]
    reminders = rows.of_event(event["id"])
    wanted = {
        "version raised": appointment["version"] > 1 and event["version"] == 2,
        "event cancelled": event["status"] == "Cancelled",
        "event's reason": (appointment["status"] == "Expired")
        == (event["cancel_reason"] == EXPIRED_REASON),
        "same moment": event["updated_at"] == appointment["updated_at"],
        "no pending reminder": all(row["status"] != "Pending" for row in reminders),
        "one pair": [row["topic"].split(".")[2] for row in messages]
        == ["appointment-cancelled", "event-status-changed"],
        "its reason": len(reasons) == 1 and reasons[0] in REASONS[appointment["status"]],
        "its moment": all(row["OccurredAt"] == appointment["updated_at"] for row in messages),
        "CancelledBy": (appointment["cancelled_by"] is not None)
        == (appointment["status"] == "Cancelled"),
    }
    return [f"{appointment['status']} without: {rule}" for rule, kept in wanted.items() if not kept]


def _untouched(rows: Rows, appointment: Row) -> list[str]:
    """An active one has a scheduled event, and nothing was said about it."""
    event = rows.events[appointment["calendar_event_id"]]
    wanted = {
        "scheduled event": (event["status"], event["version"]) == ("Scheduled", 1),
        "silence": not rows.about(appointment["id"]),
    }
    return [f"{appointment['status']} without: {rule}" for rule, kept in wanted.items() if not kept]
