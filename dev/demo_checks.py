"""What must be true at the end of the demo, told as sentences that hold or do not."""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from app.domain.booking import CANCEL_REASONS
from app.domain.outbox import APPOINTMENT_CANCELLED, EVENT_STATUS_CHANGED, Reason
from app.store.runs import Run
from dev.demo_sample import CONFIRMED, LAPSED, SELLABLE, Booked, State
from dev.servers.consumer import Record

States = Mapping[UUID, State]
REASON = CANCEL_REASONS[Reason.EXPIRED]


@dataclass(frozen=True)
class Check:
    """One sentence, and those for which it does not hold, if there are any."""

    sentence: str
    broken: list[str]


def check_all(
    booked: Sequence[Booked], before: States, after: States, records: Sequence[Record]
) -> list[Check]:
    """Every promise of the demo."""
    return [
        *_cascade([one for one in booked if one.kind.expires], before, after),
        *_others([one for one in booked if not one.kind.expires], before, after),
        _pairs(booked, after, records),
        _once(records),
    ]


def _cascade(expiring: Sequence[Booked], before: States, after: States) -> list[Check]:
    """C3, part by part."""
    slots = Counter(after[one.id].slot for one in expiring)
    reminders = sum(before[one.id].pending for one in expiring)
    parts: dict[str, Callable[[State, State], bool]] = {
        f"All {len(expiring)} overdue appointments are Expired.": (
            lambda _was, now: now.status == "Expired"
        ),
        f"{slots['Available']} slots are on sale again; {slots['Expired']} are Expired,"
        " their lead time had begun.": lambda _was, now: _slot_follows_rule(now),
        f"Their events are Cancelled: «{REASON}».": (
            lambda _was, now: (now.event, now.cancel_reason) == ("Cancelled", REASON)
        ),
        f"All {reminders} pending reminders are Skipped.": (
            lambda was, now: (now.pending, now.skipped) == (0, was.pending)
        ),
    }
    return [
        Check(part, [one.name for one in expiring if not holds(before[one.id], after[one.id])])
        for part, holds in parts.items()
    ]


def _slot_follows_rule(state: State) -> bool:
    """C3.2, by the time that the appointment itself says it changed at."""
    usable = state.updated_at <= state.bookable_until
    return state.slot == ("Available" if usable else "Expired")


def _others(others: Sequence[Booked], before: States, after: States) -> list[Check]:
    agents = [one for one in others if one.kind is CONFIRMED]
    alone = [one for one in others if one.kind is not CONFIRMED]
    return [
        Check(
            "The one that its agent confirmed in time stays Confirmed, its slot Booked.",
            [one.name for one in agents if after[one.id] != _confirmed(before, after, one)],
        ),
        Check(
            f"The {len(alone)} that were not due are as they were.",
            [one.name for one in alone if after[one.id] != before[one.id]],
        ),
    ]


def _confirmed(before: States, after: States, one: Booked) -> State:
    """As before, but for the agent's own change."""
    was = before[one.id]
    return replace(
        was, status="Confirmed", version=was.version + 1, updated_at=after[one.id].updated_at
    )


def _pairs(booked: Sequence[Booked], after: States, records: Sequence[Record]) -> Check:
    found = Counter((record.topic, record.key, _outcome(record)) for record in records)
    broken = []
    for one in booked:
        times = int(after[one.id].status == "Expired")
        cancelled = found[APPOINTMENT_CANCELLED, str(one.id), "Expired"]
        changed = found[EVENT_STATUS_CHANGED, str(one.event_id), "Cancelled"]
        if (cancelled, changed) != (times, times):
            broken.append(one.name)
    return Check(
        f"Kafka holds exactly one pair of messages for each expiry: {len(records)} messages.",
        broken,
    )


def _once(records: Sequence[Record]) -> Check:
    seen = Counter(message_id(record) for record in records)
    return Check(
        "Every message has an id of its own, by which its consumers can drop a repeat.",
        [identifier for identifier, times in seen.items() if times > 1 or not identifier],
    )


def _outcome(record: Record) -> str:
    document = json.loads(record.value)
    return str(document.get("Reason") or document.get("Status"))


def message_id(record: Record) -> str:
    """The header by which consumers drop repeats (O6)."""
    return dict(record.headers).get("message-id", b"").decode()


def check_run(run: Run | None, booked: Sequence[Booked]) -> Check:
    """The cycle by hand, as the product kept it: it alone expired these."""
    wanted = {
        "ExpiredCount": len(booked),
        "SlotsReleasedCount": sum(one.kind.sample == SELLABLE.sample for one in booked),
        "SlotsExpiredCount": sum(one.kind.sample == LAPSED.sample for one in booked),
        "SkippedLockedCount": 0,
    }
    figures = dict(run.result or {}) if run is not None else {}
    holds = run is not None and run.outcome == "completed" and wanted.items() <= figures.items()
    return Check(
        f"The cycle by hand expired the {len(booked)} that waited for it, as its figures tell.",
        [] if holds else [str(run.outcome if run else None), str(figures)],
    )


def check_flower(state: str | None) -> Check:
    """Flower, of the same cycle."""
    return Check("Flower shows that cycle as SUCCESS.", [] if state == "SUCCESS" else [str(state)])
