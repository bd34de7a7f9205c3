"""What one step of an actor is, told from the statement that it is about to send.

A step is *visible* when the others could notice it or it could notice them. A statement that
touches only the run's own record, or no table of the calendar at all, and the end of a transaction
that holds nothing, are taken together with the visible step before them: whoever comes first there,
nothing changes. A table that is unknown here counts as shared.
"""

import re
from dataclasses import dataclass
from enum import Enum, auto

from app.prepared import COMMIT_AND

Tables = frozenset[str]
NONE: Tables = frozenset()


class Kind(Enum):
    """What a step does to the others."""

    PRIVATE = auto()
    READ = auto()
    LOCK = auto()
    """Locks or writes rows."""
    COMMIT = auto()
    ROLLBACK = auto()


ENDS = {Kind.COMMIT, Kind.ROLLBACK}


@dataclass(frozen=True, slots=True)
class Step:
    """One statement, or the end of a transaction."""

    label: str
    kind: Kind
    locks: Tables = NONE
    """Where it locks rows that others may want; of an end: whatever its transaction touched."""
    reads: Tables = NONE
    first: str = ""
    """The table at which it waits, or passes over, if somebody else holds the row."""
    held: Tables = NONE
    """Where its transaction holds such rows already."""

    @property
    def at_home(self) -> bool:
        """Whether it meets nothing but rows that its transaction holds."""
        return self.kind is Kind.LOCK and self.locks | self.reads <= self.held


def visible(step: Step) -> bool:
    """Whether the others could notice it, or it them."""
    return step.kind is not Kind.PRIVATE


def locking(step: Step) -> bool:
    """Whether it takes locks, writes, or gives them back."""
    return step.kind is Kind.LOCK or step.kind in ENDS


OPEN, CLAIM, WRITE, COUNT = "open", "claim", "write", "count passed over"

APPOINTMENTS = "appointments"
_OWN = {"job_runs", "schema_level", "brake"}  # nobody who takes part here changes another's
_BOOKING = frozenset({APPOINTMENTS, "availability_slots", "calendar_events", "event_reminders"})
_EXECUTED = {"claim_next": CLAIM, "claim_one": "claim again", "save_ending": WRITE}
_NAMED = {"AS as_of": OPEN, "%(tried)s": COUNT}
# What a statement locks. A new row is wanted by nobody yet; triggers lock more than is named.
_LOCKED = {
    "insert event_reminders": frozenset({"calendar_events"}),
    "insert calendar_events": NONE,
    "insert appointments": NONE,
    "update appointments": frozenset({APPOINTMENTS, "expiry_failures"}),
    "delete appointments": frozenset({APPOINTMENTS, "expiry_failures"}),
}
_TABLE = re.compile(r"calendar\.(\w+)")
_LOCKS = re.compile(r"\bFOR (NO KEY UPDATE|UPDATE|SHARE|KEY SHARE)\b")
_EXECUTE = re.compile(r"EXECUTE (\w+)")
_VERB = re.compile(r"\s*(\w+)")


def takes_along(sql: str) -> str | None:
    """What is sent along with a commit, if this is one."""
    return sql.removeprefix(COMMIT_AND) if sql.startswith(COMMIT_AND) else None


def of_statement(sql: str, held: Tables) -> Step:
    """The step that sending this statement is, in a transaction that holds rows of these tables."""
    if prepared := _EXECUTE.match(sql):
        label = _EXECUTED.get(prepared[1], prepared[1])
        everything = _BOOKING | {"expiry_failures", "outbox_messages"}
        locks = _BOOKING if label.startswith(CLAIM) else everything
        return Step(label, Kind.LOCK, locks, everything, APPOINTMENTS, held)
    touched = [table for table in _TABLE.findall(sql) if table not in _OWN]
    verb = _verb(sql)
    if verb == "prepare" or not touched:
        return Step(verb, Kind.PRIVATE)
    reads = frozenset(touched)
    named = next((label for words, label in _NAMED.items() if words in sql), None)
    if verb == "select" and not _LOCKS.search(sql):
        return Step(named or f"read {touched[0]}", Kind.READ, reads=reads)
    label = f"{'lock' if verb == 'select' else verb} {touched[0]}"
    locks = _LOCKED.get(label, frozenset({touched[0]}))
    first = touched[0] if touched[0] in locks else "".join(locks)
    return Step(named or label, Kind.LOCK, locks, reads, first, held)


def of_commit_and(claim: Step, touched: Tables) -> Step:
    """A commit that takes a claim along: one step, an end that others may meet at either's rows."""
    reached = touched | claim.locks | claim.reads
    return Step(f"commit, {claim.label}", Kind.COMMIT, reached, reached)


def of_end(kind: Kind, touched: Tables) -> Step:
    """The step that ending a transaction is which has locked or written rows of these tables."""
    return Step(kind.name.lower(), kind if touched else Kind.PRIVATE, touched)


def locked_nothing(step: Step, rows: int) -> bool:
    """Whether this statement, which found so many rows, took no lock: a claim in vain."""
    return step.kind is not Kind.LOCK or (step.label.startswith(CLAIM) and rows == 0)


def unseen(one: Step, other: Step) -> bool:
    """Whether two actors' steps do the same in both orders, as far as plain reads go.

    A plain read sees only what is committed: it meets nothing but commits to its tables.
    """
    if Kind.READ not in {one.kind, other.kind}:
        return False
    read, second = (one, other) if one.kind is Kind.READ else (other, one)
    return second.kind is not Kind.COMMIT or not read.reads & second.locks


def apart(one: Step, other: Step) -> bool:
    """The same, as far as locks go too.

    Steps that lock rows of different tables do not meet, nor does one that stays with what is its
    own already. And while somebody holds a row, all who come to it wait there, or pass it over,
    whatever the holder does before it gives the row back.
    """
    if Kind.READ in {one.kind, other.kind}:
        return unseen(one, other)
    if one.kind in ENDS and other.kind in ENDS:
        return False
    if one.at_home or other.at_home:
        return True
    if one.kind in ENDS or other.kind in ENDS:
        end, lock = (one, other) if one.kind in ENDS else (other, one)
        return not end.locks & (lock.locks | lock.reads)
    wanted = (one.locks - one.held) & (other.locks - other.held)
    return not wanted or one.first in other.held or other.first in one.held


def never(_one: Step, _other: Step) -> bool:
    """No two steps are taken to be alike in both orders: literally all orders are played."""
    return False


def _verb(sql: str) -> str:
    found = _VERB.match(sql)
    verb = found[1].lower() if found else sql
    return "select" if verb == "with" else verb
