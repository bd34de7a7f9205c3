"""The pair of messages that a cascade returns: names, keys, ids (sections 6 and 7)."""

import json
from dataclasses import replace
from uuid import UUID, uuid4

import pytest

from app.domain.booking import Booking, Ending
from app.domain.law import Refusal
from app.domain.outbox import message_id
from tests.domain.test_moves import NOW, appointment, event, slot

RUN = str(uuid4())


def booking() -> Booking:
    made = appointment()
    return Booking(
        appointment=made,
        slot=replace(slot(), id=made.slot_id),
        event=replace(event(), id=made.calendar_event_id),
    )


def documents(ending: Ending) -> list[dict[str, object]]:
    return [json.loads(message.payload) for message in ending.messages]


def test_c3_6_expiry_returns_exactly_the_contracted_pair() -> None:
    before = booking()
    ending = before.expire(NOW, RUN)
    parties = {
        "ContractVersion": 1,
        "AppointmentId": str(before.appointment.id),
        "SlotId": str(before.appointment.slot_id),
        "CalendarEventId": str(before.appointment.calendar_event_id),
        "TenantId": str(before.appointment.tenant_id),
        "InvestorId": str(before.appointment.investor_id),
        "AgentId": str(before.appointment.agent_id),
        "OccurredAt": "2026-11-30T12:00:00.000000Z",
        "CorrelationId": RUN,
    }
    assert documents(ending) == [
        {**parties, "Reason": "Expired"},
        {**parties, "Status": "Cancelled"},
    ]
    assert [(m.topic, m.key) for m in ending.messages] == [
        ("pin.calendar.appointment-cancelled.v1", str(before.appointment.id)),
        ("pin.calendar.event-status-changed.v1", str(before.appointment.calendar_event_id)),
    ]
    assert ending.event.cancel_reason == "Запись не подтверждена агентом в срок"


def test_the_rivals_say_who_ended_it() -> None:
    before = booking()
    investor, agent = before.appointment.investor_id, before.appointment.agent_id
    endings = {
        "Declined": before.decline(NOW, RUN),
        "CancelledByInvestor": before.cancel(NOW, investor, RUN),
        "CancelledByAgent": before.cancel(NOW, agent, RUN),
    }
    for reason, ending in endings.items():
        assert documents(ending)[0]["Reason"] == reason


def test_a_stranger_cancels_nothing() -> None:
    with pytest.raises(Refusal, match="its investor or agent"):
        booking().cancel(NOW, uuid4(), RUN)


@pytest.mark.parametrize("part", ["slot", "event"])
def test_c4_a_missing_part_is_refused(part: str) -> None:
    parts = {"slot": replace(booking(), slot=None), "event": replace(booking(), event=None)}
    with pytest.raises(Refusal, match=f"{part} .* found nothing"):
        parts[part].expire(NOW, RUN)


def test_c4_a_slot_that_another_active_appointment_holds_is_refused() -> None:
    with pytest.raises(Refusal, match="another active appointment"):
        replace(booking(), rival_holds_slot=True).expire(NOW, RUN)


def test_o6_the_message_id_follows_from_the_change_alone() -> None:
    before = booking()
    first, again = before.expire(NOW, RUN), before.expire(NOW, str(uuid4()))
    assert [m.message_id for m in first.messages] == [m.message_id for m in again.messages]
    assert len({m.message_id for m in first.messages}) == 2
    later = replace(before, appointment=replace(before.appointment, version=8))
    assert later.expire(NOW, RUN).messages[0].message_id != first.messages[0].message_id


def test_o6_the_derivation_of_message_ids_never_changes() -> None:
    known = message_id("pin.calendar.appointment-cancelled.v1", UUID(int=1), 2)
    assert known == UUID("9b59e203-26c3-5c51-a55e-2c0f5be35442")


def test_o6_the_trace_of_a_message_is_its_run_and_valid_for_w3c() -> None:
    for run_id in (RUN, "redelivered by hand"):
        for message in booking().expire(NOW, run_id).messages:
            version, trace, span, flags = message.headers["traceparent"].split("-")
            assert (version, len(trace), len(span), flags) == ("00", 32, 16, "00")
            assert int(trace, 16) > 0
            assert int(span, 16) > 0
            assert message.headers["correlation-id"] == run_id
