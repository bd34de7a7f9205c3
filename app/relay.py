"""A drain at work: passes over the outbox, batch after batch, on one lane or three (section 7).

A batch is one transaction: claim, send, mark, commit. Its rows stay locked while Kafka answers, so
a publisher that dies gives them back at once; it is bounded by `BATCH_SECONDS`.
"""

import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from contextvars import copy_context
from dataclasses import dataclass, field
from datetime import datetime
from threading import Lock
from uuid import UUID
from weakref import WeakKeyDictionary

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from app import facts
from app.kafka import Answer, Sender, Verdict
from app.kafka_options import DELIVERY_SECONDS
from app.report import DRAIN_LANES, DrainOptions, DrainReport
from app.store import errors, outbox, runs
from app.store.outbox import Row
from app.store.runs import Job, Outcome
from app.waves import Tried, acknowledged, answers, record, waves

MAX_ATTEMPTS = 5
"""A message refused for its own sake so often is set aside (O4)."""
BATCH_SECONDS = 12.0
"""A batch waits for Kafka no longer, so that it ends well below the connection's idle limit."""
HOLD_SECONDS = 1.0
"""A claim that has waited longer for its turn to send is given back and made anew."""
LOOK_AGAIN_SECONDS = 0.05
"""While a cycle commits, so often a drain looks for more."""
FOLLOW_SECONDS = 5.0
"""A cycle that commits nothing for so long hangs, or was killed: what it still does is the next
drain's."""

_unanswered: WeakKeyDictionary[Sender, int] = WeakKeyDictionary()
"""Up to where the last drain got no answer: this process's next one begins behind it, so that a
partition without a leader, with a batch and more, holds up nobody else's messages (O4)."""


@dataclass(frozen=True, slots=True)
class Marked:
    """What one batch wrote, true once it is committed."""

    published: list[float]
    """How old each one is, in seconds."""
    refusals: list[facts.MessageRefused]


@dataclass
class Line:
    """What the lanes of one pass share."""

    started_at: datetime
    deadline: float
    after_id: int
    """Everything up to here has been claimed."""
    acknowledged: deque[list[int]] = field(default_factory=lambda: deque(maxlen=DRAIN_LANES - 1))
    """Of the batches that were sent last; for who claims they may not be marked yet."""
    claiming: Lock = field(default_factory=Lock)
    sending: Lock = field(default_factory=Lock)
    counting: Lock = field(default_factory=Lock)


@dataclass
class Relay:
    """One drain at work."""

    engine: Engine
    sender: Sender
    options: DrainOptions
    report: DrainReport
    stopping: Callable[[], bool]
    tell: facts.Tell

    def run(self, started_at: datetime, deadline: float) -> None:
        """Pass after pass, until one finds nothing to send and no cycle can have added any.

        A pass that has sent something is followed by another: what had to wait for that, or for
        another publisher, may go now.
        """
        more, after_id = True, _unanswered.pop(self.sender, 0)
        patience = time.monotonic() + FOLLOW_SECONDS
        while more and self.report.outcome is Outcome.COMPLETED:
            before = self.report.published
            # asked first, so that its last commit is seen
            followed = time.monotonic() < patience and self.cycle_under_way()
            self.one_pass(started_at, deadline, after_id)
            found = self.report.published > before
            more = followed or found or after_id > 0
            after_id = 0
            if found:
                patience = time.monotonic() + FOLLOW_SECONDS
            if followed:
                time.sleep(LOOK_AGAIN_SECONDS)
        if self.report.refused:  # a producer remembers what it was refused: the next one asks anew
            self.sender.close()

    def cycle_under_way(self) -> bool:
        """Whether a cycle may be adding messages."""
        with self.engine.begin() as connection:
            return runs.going_on(connection, Job.APPOINTMENT_TIMEOUT, self.options.cycle_seconds)

    def one_pass(self, started_at: datetime, deadline: float, after_id: int) -> None:
        """Batch after batch, from the first message behind this one on.

        When the first batch is a full one, on three lanes: while one marks what Kafka has
        acknowledged, another sends, and the third claims.
        """
        line = Line(started_at, deadline, after_id)
        with self.engine.connect() as connection:
            if self.batch(connection, line) < self.options.batch_size:
                return
            with ThreadPoolExecutor(DRAIN_LANES - 1, "lane") as threads:
                beside = [
                    threads.submit(copy_context().run, self.lane_beside, line)
                    for _ in range(DRAIN_LANES - 1)
                ]
                self.lane(connection, line)
                for lane in beside:
                    lane.result()

    def lane_beside(self, line: Line) -> None:
        """It need not be: without a connection for it the drain is slower, not failed."""
        try:
            opened = self.engine.connect()
        except SQLAlchemyError as error:
            self.report.detail = f"fewer lanes than {DRAIN_LANES}: {errors.sentence(error)}"
            return
        with opened as connection:
            self.lane(connection, line)

    def lane(self, connection: Connection, line: Line) -> None:
        """One connection's batches, until nothing is left to claim."""
        try:
            while self.batch(connection, line):
                pass
        except BaseException:  # the other lanes end after their batch
            self.report.outcome = Outcome.FAILED
            raise

    def batch(self, connection: Connection, line: Line) -> int:
        """One transaction; how many messages were claimed.

        Batches are claimed one after the other and sent in that order: whoever claims waits for
        its turn to send before another may claim.
        """
        with connection.begin(), ExitStack() as sending:
            with line.claiming:
                if not self.goes_on(line):
                    return 0
                rows = outbox.claim(
                    connection, line.after_id, line.started_at, self.options.batch_size
                )
                if not rows:
                    return 0
                claimed_at = time.monotonic()
                sending.enter_context(line.sending)
                waited = time.monotonic() - claimed_at
                if waited > HOLD_SECONDS or self.report.outcome is not Outcome.COMPLETED:
                    return len(rows)  # given back: Kafka is slow, or away
                line.after_id = rows[-1].id
            tried = self.send(outbox.in_turn(rows, set().union(*line.acknowledged)))
            line.acknowledged.append(acknowledged(tried))
            sending.close()
            marked = self.mark(connection, tried)
        with line.counting:
            self.count(marked)
        return len(rows)

    def goes_on(self, line: Line) -> bool:
        """Whether another batch may be taken."""
        if self.report.outcome is Outcome.COMPLETED:
            if self.stopping():
                self.report.outcome = Outcome.STOPPED
            elif time.monotonic() >= line.deadline:
                self.report.outcome = Outcome.CUT_SHORT
        return self.report.outcome is Outcome.COMPLETED

    def send(self, rows: Sequence[Row]) -> Tried:
        """A verdict for every row that was tried; a key goes no further than its first failure.

        A wave begins only while it has the whole of a delivery's time; the rest is the next pass's.
        """
        deadline = time.monotonic() + BATCH_SECONDS
        tried: Tried = []
        broken: set[tuple[str, str]] = set()
        for wave in waves(rows):
            going = [row for row in wave if (row.topic, row.key) not in broken]
            began = time.time_ns()
            verdicts = self.sender.send([record(row) for row in going], deadline, self.stopping)
            sent = list(zip(going, verdicts, strict=True))
            self.tell(facts.MessagesSent(began, time.time_ns(), answers(sent)))
            tried += sent
            for row, verdict in sent:
                if verdict.answer is not Answer.ACKNOWLEDGED:
                    broken.add((row.topic, row.key))
                if verdict.answer is Answer.NONE:  # the broker is away: no use in the next wave
                    self.unanswered(verdict, rows[-1])
            late = time.monotonic() > deadline - DELIVERY_SECONDS
            if late or self.stopping() or self.report.outcome is not Outcome.COMPLETED:
                break
        return tried

    def unanswered(self, verdict: Verdict, last: Row) -> None:
        """The drain ends and spends nobody's tries; the next one sends the same again."""
        if self.stopping():
            self.report.outcome = Outcome.STOPPED
        elif self.report.outcome is Outcome.COMPLETED:
            self.report.outcome = Outcome.FAILED
            self.report.detail = f"Kafka did not acknowledge: {verdict.error}."
            _unanswered[self.sender] = last.id

    def mark(self, connection: Connection, tried: Tried) -> Marked:
        """Each row by its own verdict (O2)."""
        ids = acknowledged(tried)
        published = outbox.mark_published(connection, ids) if ids else []
        refusals = []
        for row, verdict in tried:
            if verdict.answer is Answer.REFUSED and not verdict.shared:  # maybe a neighbour's fault
                last = outbox.mark_refused(connection, row.id, verdict.error, MAX_ATTEMPTS)
                refusals.append(
                    facts.MessageRefused(
                        UUID(row.message_id), row.topic, verdict.error, row.attempts + 1, last
                    )
                )
        return Marked(published, refusals)

    def count(self, marked: Marked) -> None:
        """Count and tell, after the commit."""
        self.report.published += len(marked.published)
        if marked.published:
            self.tell(facts.MessagesPublished(marked.published))
        self.report.refused += len(marked.refusals)
        for refusal in marked.refusals:
            self.report.set_aside += refusal.set_aside
            self.tell(refusal)
