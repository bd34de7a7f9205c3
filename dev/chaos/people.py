"""Those who book, confirm, decline, cancel, and book again what became free; seeded."""

import json
import random
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from heapq import heappop, heappush
from uuid import UUID

from sqlalchemy import Engine, text

from app import operations
from app.domain.appointment import CONFIRMATION_WINDOW, Appointment
from app.domain.law import Refusal
from app.store import bookings
from dev.chaos.answers import ask
from dev.chaos.ledger import Act, Entry, Ledger

NOTES = "chaos.notes.v1"
KEYS = 5
"""Another context's topic in the same outbox: its few keys get message after message."""

_FATES = (*[None] * 5, *[Act.CONFIRM] * 2, *[Act.DECLINE] * 2, *[Act.CANCEL] * 3)
"""What becomes of a booking if nothing comes between; None: it is left to expire."""
_FIRST = 0.7
"""How often a decision that is due goes before something new."""
_HOUR = timedelta(hours=1)

Deed = Callable[[], None]


class People:
    """Each deed is one operation, its answer in `ledger`; a decision follows in its own time."""

    def __init__(self, engine: Engine, ledger: Ledger, seed: int) -> None:
        self._engine = engine
        self._ledger = ledger
        self._random = random.Random(seed)  # noqa: S311 - chaos, not secrets
        self._keys = [self._uuid() for _ in range(KEYS)]
        self._agenda: list[tuple[float, int, Deed]] = []

    def next_deed(self) -> Deed:
        """A decision that is due, or something new; each gets its turn."""
        due = self._agenda and self._agenda[0][0] <= time.monotonic()
        if due and self._random.random() < _FIRST:
            return heappop(self._agenda)[2]
        return self._random.choices((self._book_new, self._book_free, self._note), (5, 2, 3))[0]

    def _book_new(self) -> None:
        """A new slot, and a booking made so long ago that its deadline is seconds away.

        Its slot can be booked for some seconds more, or for days.
        """
        now, slot_id = datetime.now(UTC), self._uuid()
        seconds = self._random.uniform(1, 6)
        more = self._random.choice((timedelta(seconds=self._random.uniform(0, 8)), 48 * _HOUR))

        def book() -> Appointment:
            self._offer(slot_id, now + timedelta(seconds=seconds) + more + _HOUR)
            as_of = now - CONFIRMATION_WINDOW + timedelta(seconds=seconds)
            return operations.book(self._engine, slot_id, self._uuid(), as_of)

        self._book(book, seconds)

    def _offer(self, slot_id: UUID, start: datetime) -> None:
        with self._engine.begin() as connection:
            bookings.offer_slot(
                connection,
                slot_id,
                tenant_id=self._uuid(),
                agent_id=self._uuid(),
                start_at=start,
                end_at=start + _HOUR,
                min_lead_time_minutes=60,
            )

    def _book_free(self) -> None:
        """Somebody takes what became free."""

        def book() -> Appointment:
            with self._engine.begin() as connection:
                free = connection.execute(_FREE, {"place": self._random.randrange(20)}).scalar()
            if free is None:
                raise Refusal("slot", None, found="nothing", wanted="a free slot")
            return operations.book(self._engine, free, self._uuid(), datetime.now(UTC))

        self._book(book, self._random.uniform(1, 6))

    def _book(self, book: Callable[[], Appointment], seconds: float) -> None:
        """Book; and decide what becomes of it: early, or where it meets its expiry."""
        made, answer, detail = ask(book)
        self._ledger.add(Entry(Act.BOOK, made.id if made else None, answer, detail))
        fate = self._random.choice(_FATES)
        if made is None or fate is None:
            return
        early = bool(self._random.getrandbits(1))
        when = self._random.uniform(0, 1) if early else seconds + self._random.uniform(-0.5, 2.5)
        self._later(when, lambda: self._decide(fate, made))
        if fate is Act.CONFIRM and early:
            self._later(when + seconds, lambda: self._decide(Act.CANCEL, made))

    def _later(self, seconds: float, deed: Deed) -> None:
        heappush(self._agenda, (time.monotonic() + seconds, self._random.getrandbits(62), deed))

    def _decide(self, act: Act, booked: Appointment) -> None:
        now, who = datetime.now(UTC), (booked.investor_id, booked.agent_id)

        def decide() -> None:
            if act is Act.CONFIRM:
                operations.confirm(self._engine, booked.id, now)
            elif act is Act.DECLINE:
                operations.decline(self._engine, booked.id, now)
            else:
                operations.cancel(self._engine, booked.id, self._random.choice(who), now)

        _, answer, detail = ask(decide)
        self._ledger.add(Entry(act, booked.id, answer, detail))

    def _note(self) -> None:
        """One more message of a long-lived key."""
        message, key = self._uuid(), self._random.choice(self._keys)
        values = {"message": message, "topic": NOTES, "key": str(key)}

        def note() -> None:
            with self._engine.begin() as connection:
                connection.execute(_NOTE, {**values, "payload": json.dumps({"Of": str(message)})})

        _, answer, detail = ask(note)
        self._ledger.add(Entry(Act.NOTE, message, answer, detail))

    def _uuid(self) -> UUID:
        return UUID(int=self._random.getrandbits(128), version=4)


_FREE = text(
    """
    SELECT id FROM calendar.availability_slots
    WHERE status = 'Available' AND start_at - interval '60 minutes' > now() + interval '1 second'
    ORDER BY updated_at DESC OFFSET :place LIMIT 1
    """
)
_NOTE = text(
    """
    INSERT INTO calendar.outbox_messages (message_id, topic, key, payload)
    VALUES (:message, :topic, :key, :payload)
    """
)
