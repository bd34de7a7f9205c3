"""Verb 2: one drain of the outbox to Kafka: at least once, in order per key (section 7).

A batch is one transaction: claim, send, mark, commit. Its rows stay locked while Kafka answers, so
a publisher that dies gives them back at once; it is bounded by `BATCH_SECONDS`.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from contextvars import copy_context
from dataclasses import dataclass, field
from datetime import datetime
from itertools import zip_longest
from threading import Lock
from uuid import UUID
from weakref import WeakKeyDictionary

from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import SQLAlchemyError

from app import facts, schema
from app.kafka import DELIVERY_SECONDS, Answer, Record, Sender, Verdict
from app.settings import SettingsError
from app.store import errors, outbox, runs
from app.store.runs import Job, Outcome

MAX_ATTEMPTS = 5
"""A message refused for its own sake so often is set aside (O4)."""
BATCH_SECONDS = 12.0
"""A batch waits for Kafka no longer, so that it ends well below the connection's idle limit."""
HOLD_SECONDS = 1.0
"""A claim that has waited longer for its turn to send is given back and made anew."""
DRAIN_SECONDS = 30.0
"""After so long a drain takes no further batch; the next one goes on."""
LOOK_AGAIN_SECONDS = 0.05
"""While a cycle commits, so often a drain looks for more."""
FOLLOW_SECONDS = 5.0
"""A cycle that commits nothing for so long hangs, or was killed: what it still does is the next
drain's."""


@dataclass(frozen=True, slots=True)
class DrainOptions:
    """How large a batch is, and how long a cycle may be followed."""

    batch_size: int = 1000
    cycle_seconds: float = 40


@dataclass(slots=True)
class DrainReport:
    """How a drain ended and what it did."""

    run_id: str
    started_at: datetime | None = None
    outcome: Outcome = Outcome.COMPLETED
    published: int = 0
    refused: int = 0
    set_aside: int = 0
    duration_ms: int = 0
    detail: str | None = None

    def result(self) -> dict[str, int]:
        """Its figures, as kept and shown."""
        return {
            "PublishedCount": self.published,
            "RefusedCount": self.refused,
            "SetAsideCount": self.set_aside,
            "DurationMs": self.duration_ms,
        }


def drain(
    engine: Engine,
    sender: Sender,
    options: DrainOptions,
    run_id: str,
    *,
    stopping: Callable[[], bool] = lambda: False,
    tell: facts.Tell = facts.nobody,
) -> DrainReport:
    """Publish what waits, and what a cycle under way adds; a failure is an outcome."""
    started = time.monotonic()
    report = DrainReport(run_id)
    try:
        with engine.begin() as connection:
            schema.check(connection)
            now: datetime = connection.execute(text("SELECT now()")).scalar_one()
        report.started_at = now
        _Drain(engine, sender, options, report, stopping, tell).run(now, started + DRAIN_SECONDS)
    except schema.SchemaError as error:  # refused before any row is touched
        report.outcome, report.detail = Outcome.FAILED, str(error)
    except SQLAlchemyError as error:  # what was acknowledged but not marked is sent again
        report.outcome, report.detail = Outcome.FAILED, errors.sentence(error)
    except SettingsError as error:  # the client's options do not go together
        report.outcome, report.detail = Outcome.FAILED, str(error)
    except BaseException as error:  # a signal's SystemExit or a bug: recorded, then passed on
        report.outcome, report.detail = Outcome.FAILED, type(error).__name__
        raise
    finally:
        report.duration_ms = round((time.monotonic() - started) * 1000)
        if report.published or report.refused or report.outcome is Outcome.FAILED:
            _keep(engine, report)
        tell(facts.DrainEnded(report.outcome, report.result(), report.detail))
    return report


def _keep(engine: Engine, report: DrainReport) -> None:
    with suppress(SQLAlchemyError), engine.begin() as connection:  # told by the outcome already
        runs.record(
            connection,
            report.run_id,
            Job.OUTBOX_PUBLISHER,
            report.outcome,
            report.result(),
            report.detail,
            report.started_at,
        )


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
    acknowledged: list[int] = field(default_factory=list)
    """Of the batch that was sent last; it may not be marked yet."""
    claiming: Lock = field(default_factory=Lock)
    sending: Lock = field(default_factory=Lock)
    counting: Lock = field(default_factory=Lock)


@dataclass
class _Drain:
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

        When the first batch is a full one, on two lanes: while one marks what Kafka has
        acknowledged, the other sends, and whoever is done first claims the next batch.
        """
        line = Line(started_at, deadline, after_id)
        with self.engine.connect() as connection:
            if self.batch(connection, line) < self.options.batch_size:
                return
            with ThreadPoolExecutor(1, "lane") as threads:
                beside = threads.submit(copy_context().run, self.lane_beside, line)
                self.lane(connection, line)
                beside.result()

    def lane_beside(self, line: Line) -> None:
        """It need not be: without a connection for it the drain is slower, not failed."""
        try:
            opened = self.engine.connect()
        except SQLAlchemyError as error:
            self.report.detail = f"one lane instead of two: {errors.sentence(error)}"
            return
        with opened as connection:
            self.lane(connection, line)

    def lane(self, connection: Connection, line: Line) -> None:
        """One connection's batches, until nothing is left to claim."""
        try:
            while self.batch(connection, line):
                pass
        except BaseException:  # the other lane ends after its batch
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
            tried = self.send(outbox.in_turn(rows, line.acknowledged))
            line.acknowledged = acknowledged(tried)
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

    def send(self, rows: Sequence[outbox.Row]) -> list[tuple[outbox.Row, Verdict]]:
        """A verdict for every row that was tried; a key goes no further than its first failure.

        A wave begins only while it has the whole of a delivery's time; the rest is the next pass's.
        """
        deadline = time.monotonic() + BATCH_SECONDS
        tried: list[tuple[outbox.Row, Verdict]] = []
        broken: set[tuple[str, str]] = set()
        for wave in waves(rows):
            going = [row for row in wave if (row.topic, row.key) not in broken]
            began = time.time_ns()
            verdicts = self.sender.send([record(row) for row in going], deadline, self.stopping)
            answers = list(map(answer, going, verdicts))
            self.tell(facts.MessagesSent(began, time.time_ns(), answers))
            tried += zip(going, verdicts, strict=True)
            for row, verdict in zip(going, verdicts, strict=True):
                if verdict.answer is not Answer.ACKNOWLEDGED:
                    broken.add((row.topic, row.key))
                if verdict.answer is Answer.NONE:  # the broker is away: no use in the next wave
                    self.unanswered(verdict, rows[-1])
            late = time.monotonic() > deadline - DELIVERY_SECONDS
            if late or self.stopping() or self.report.outcome is not Outcome.COMPLETED:
                break
        return tried

    def unanswered(self, verdict: Verdict, last: outbox.Row) -> None:
        """The drain ends and spends nobody's tries; the next one sends the same again."""
        if self.stopping():
            self.report.outcome = Outcome.STOPPED
        elif self.report.outcome is Outcome.COMPLETED:
            self.report.outcome = Outcome.FAILED
            self.report.detail = f"Kafka did not acknowledge: {verdict.error}."
            _unanswered[self.sender] = last.id

    def mark(self, connection: Connection, tried: Sequence[tuple[outbox.Row, Verdict]]) -> Marked:
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


def acknowledged(tried: Sequence[tuple[outbox.Row, Verdict]]) -> list[int]:
    """Whose delivery Kafka has confirmed."""
    return [row.id for row, verdict in tried if verdict.answer is Answer.ACKNOWLEDGED]


def record(row: outbox.Row) -> Record:
    """The row as it goes over the wire: the stored text itself, never decoded (O2, O6)."""
    return Record(
        topic=row.topic,
        key=row.key.encode(),
        value=row.payload.encode(),
        headers=None if row.headers is None else {**row.headers, "message-id": row.message_id},
    )


def answer(row: outbox.Row, verdict: Verdict) -> facts.Answer:
    """What may be told of it: never its content (D5)."""
    headers = row.headers or {}
    return facts.Answer(
        row.message_id,
        row.topic,
        headers.get("correlation-id"),
        headers.get("traceparent"),
        None if verdict.answer is Answer.ACKNOWLEDGED else verdict.error,
    )


def waves(rows: Sequence[outbox.Row]) -> Iterator[list[outbox.Row]]:
    """First every key's first message, then every key's second, …: a wave holds a key once."""
    by_key: dict[tuple[str, str], list[outbox.Row]] = defaultdict(list)
    for row in rows:
        by_key[row.topic, row.key].append(row)
    for wave in zip_longest(*by_key.values()):
        yield [row for row in wave if row is not None]
