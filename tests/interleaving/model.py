"""The specification's own sentences in plain Python, on rows: what must be there after each act.

Written from sections 2 to 6 on purpose without the product's law, so that the two can disagree.
"""

from datetime import datetime, timedelta
from uuid import UUID

from tests.interleaving.pair import pair
from tests.interleaving.rows import Row, Rows, by_appointment, by_content

EXPIRED_REASON = "Запись не подтверждена агентом в срок"
_WORDS = {
    "Expired": EXPIRED_REASON,
    "Declined": "Запись отклонена агентом",
    "CancelledByInvestor": "Запись отменена инвестором",
    "CancelledByAgent": "Запись отменена агентом",
}


class Refused(Exception):
    """What the specification forbids."""


class Model:
    """The rows as they must be: every act changes them, or is Refused and changes nothing."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows

    def overdue(self, as_of: datetime) -> list[Row]:
        """C1, C2: whose time is over, oldest deadline first."""
        return sorted(
            (row for row in self.rows.appointments.values() if _is_overdue(row, as_of)),
            key=lambda row: (row["pending_expires_at"], row["id"]),
        )

    def lawful(self, appointment: Row) -> bool:
        """C4: whether its parts are as a cascade needs them."""
        slot = self.rows.slots.get(appointment["slot_id"])
        event = self.rows.events.get(appointment["calendar_event_id"])
        if slot is None or event is None:
            return False
        found = (slot["status"], event["status"], event["origin"])
        return found == ("Booked", "Scheduled", "Appointment")

    def expire(self, appointment_id: UUID, as_of: datetime, run_id: str) -> None:
        """C3: the cascade, or a refusal."""
        row = self._appointment(appointment_id)
        if not _is_overdue(row, as_of) or not self.lawful(row):
            raise Refused
        self._end(row, "Expired", "Expired", as_of, run_id)

    def fail(self, appointment_id: UUID) -> None:
        """C4: what failed is kept, and how often."""
        kept = self.rows.failures.setdefault(appointment_id, {"id": appointment_id, "attempts": 0})
        kept["attempts"] += 1

    def confirm(self, appointment_id: UUID, as_of: datetime) -> None:
        """Pending -> Confirmed; nothing else."""
        row = self._appointment(appointment_id)
        if row["status"] != "Pending":
            raise Refused
        self._move(row, "Confirmed", as_of)

    def decline(self, appointment_id: UUID, as_of: datetime, correlation_id: str) -> None:
        """Pending -> Declined, with the cascade."""
        row = self._appointment(appointment_id)
        if row["status"] != "Pending" or not self.lawful(row):
            raise Refused
        self._end(row, "Declined", "Declined", as_of, correlation_id)

    def cancel(
        self, appointment_id: UUID, cancelled_by: UUID, as_of: datetime, correlation_id: str
    ) -> None:
        """Pending or Confirmed -> Cancelled by one of the two, with the cascade."""
        row = self._appointment(appointment_id)
        reasons = {row["investor_id"]: "CancelledByInvestor", row["agent_id"]: "CancelledByAgent"}
        active = row["status"] in {"Pending", "Confirmed"}
        if not active or cancelled_by not in reasons or not self.lawful(row):
            raise Refused
        row["cancelled_by"] = cancelled_by
        self._end(row, "Cancelled", reasons[cancelled_by], as_of, correlation_id)

    def may_book(self, slot_id: UUID, as_of: datetime) -> bool:
        """Available, lead time not begun, and time left to decide (D1)."""
        slot = self.rows.slots[slot_id]
        until = _bookable_until(slot)
        return slot["status"] == "Available" and (
            as_of <= until if slot["auto_confirm"] else as_of < until
        )

    def book(
        self, slot_id: UUID, ids: tuple[UUID, UUID], investor_id: UUID, as_of: datetime
    ) -> None:
        """Available -> Booked, with a new appointment and event under these ids (D1)."""
        if not self.may_book(slot_id, as_of):
            raise Refused
        slot = self.rows.slots[slot_id]
        self._move(slot, "Booked", as_of)
        appointment_id, event_id = ids
        fresh = {"updated_at": as_of, "version": 1, "tenant_id": slot["tenant_id"]}
        deadline = min(as_of + timedelta(hours=24), _bookable_until(slot))
        self.rows.events[event_id] = {
            **fresh,
            **{name: slot[name] for name in ("start_at", "end_at")},
            "id": event_id,
            "origin": "Appointment",
            "status": "Scheduled",
            "cancel_reason": None,
        }
        self.rows.appointments[appointment_id] = {
            **fresh,
            "id": appointment_id,
            "slot_id": slot_id,
            "calendar_event_id": event_id,
            "investor_id": investor_id,
            "agent_id": slot["agent_id"],
            "created_at": as_of,
            "status": "Confirmed" if slot["auto_confirm"] else "Pending",
            "pending_expires_at": None if slot["auto_confirm"] else deadline,
            "cancelled_by": None,
        }
        for before in (24, 1):
            self._remind(event_id, slot["start_at"] - timedelta(hours=before), as_of)

    def remind(self, event_id: UUID, remind_at: datetime, as_of: datetime) -> None:
        """D4: one more Pending reminder, but never on a Cancelled event."""
        if self.rows.events[event_id]["status"] == "Cancelled":
            raise Refused
        self._remind(event_id, remind_at, as_of)

    def move_deadline(self, appointment_id: UUID, to: datetime, as_of: datetime) -> None:
        """By an outside writer, while it is Pending."""
        row = self._appointment(appointment_id)
        if row["status"] != "Pending":
            raise Refused
        self._move(row, "Pending", as_of)
        row["pending_expires_at"] = to

    def delete(self, appointment_id: UUID) -> None:
        """By an outside writer, while it is Pending; its parts stay as they are."""
        if self._appointment(appointment_id)["status"] != "Pending":
            raise Refused
        del self.rows.appointments[appointment_id]
        self.rows.failures.pop(appointment_id, None)

    def _appointment(self, appointment_id: UUID) -> Row:
        if appointment_id not in self.rows.appointments:
            raise Refused
        return self.rows.appointments[appointment_id]

    def _end(self, row: Row, status: str, reason: str, as_of: datetime, correlation: str) -> None:
        slot = self.rows.slots[row["slot_id"]]
        event = self.rows.events[row["calendar_event_id"]]
        self._move(row, status, as_of)
        self._move(slot, "Available" if as_of <= _bookable_until(slot) else "Expired", as_of)
        self._move(event, "Cancelled", as_of)
        event["cancel_reason"] = _WORDS[reason]
        for reminder in self.rows.of_event(event["id"]):
            if reminder["status"] == "Pending":
                reminder.update(status="Skipped", updated_at=as_of)
        self.rows.reminders.sort(key=by_content)
        self.rows.messages += pair(row, reason, as_of, correlation)
        self.rows.messages.sort(key=by_appointment)

    def _move(self, row: Row, status: str, as_of: datetime) -> None:
        """C3.5; whoever leaves Pending takes its kept failure along (C4)."""
        row.update(status=status, updated_at=as_of, version=row["version"] + 1)
        if status != "Pending":
            self.rows.failures.pop(row["id"], None)

    def _remind(self, event_id: UUID, remind_at: datetime, as_of: datetime) -> None:
        self.rows.reminders.append(
            {
                "calendar_event_id": event_id,
                "status": "Pending",
                "remind_at": remind_at,
                "updated_at": as_of,
            }
        )
        self.rows.reminders.sort(key=by_content)


def _bookable_until(slot: Row) -> datetime:
    until: datetime = slot["start_at"] - timedelta(minutes=slot["min_lead_time_minutes"])
    return until


def _is_overdue(row: Row, as_of: datetime) -> bool:
    deadline = row["pending_expires_at"]
    return row["status"] == "Pending" and deadline is not None and deadline < as_of
