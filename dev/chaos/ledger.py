"""What the load asked for and what it was told: the users' side of the truth."""

import threading
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from enum import StrEnum
from uuid import UUID


class Answer(StrEnum):
    """What a user was told about an operation."""

    DONE = "done"
    REFUSED = "refused"  # by the law: somebody was faster
    BUSY = "busy"  # a lock or statement timeout: try again later
    AWAY = "away"  # no connection: it has not happened
    UNKNOWN = "unknown"  # the connection broke: it may have happened or not
    DEADLOCK = "deadlock"  # no user may ever see one (S6)
    SURPRISE = "surprise"


class Act(StrEnum):
    """What the load does; the middle three end or decide an appointment."""

    BOOK = "book"
    CONFIRM = "confirm"
    DECLINE = "decline"
    CANCEL = "cancel"
    NOTE = "note"  # one more message of a long-lived key, so that order within it means something


@dataclass(frozen=True)
class Entry:
    """One operation on `subject` (an appointment or a message; None: it was never told)."""

    act: Act
    subject: UUID | None
    answer: Answer
    detail: str = ""


@dataclass
class Ledger:
    """All entries so far; written by the load's thread, read by the judges."""

    entries: list[Entry] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, entry: Entry) -> None:
        """One more."""
        with self._lock:
            self.entries.append(entry)

    def counts(self, since: int = 0) -> Counter[Answer]:
        """How often each answer was given, from that entry on."""
        return Counter(entry.answer for entry in self.entries[since:])

    def booked(self) -> set[UUID]:
        """Appointments that a user was told to have."""
        return self._subjects(Act.BOOK)

    def noted(self) -> set[UUID]:
        """Messages that were committed."""
        return self._subjects(Act.NOTE)

    def _subjects(self, act: Act) -> set[UUID]:
        return {
            entry.subject
            for entry in self.entries
            if entry.act is act and entry.answer is Answer.DONE and entry.subject is not None
        }

    def decisions(self) -> dict[UUID, dict[Act, set[Answer]]]:
        """Of each appointment, what was tried on it and every answer."""
        found: dict[UUID, dict[Act, set[Answer]]] = defaultdict(lambda: defaultdict(set))
        for entry in self.entries:
            if entry.subject is not None and entry.act in (Act.CONFIRM, Act.DECLINE, Act.CANCEL):
                found[entry.subject][entry.act].add(entry.answer)
        return found

    def surprises(self) -> list[Entry]:
        """What no user may ever be told."""
        return [e for e in self.entries if e.answer in (Answer.DEADLOCK, Answer.SURPRISE)]
