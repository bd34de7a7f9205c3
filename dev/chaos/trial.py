"""One fault, from its strike to its line of the scorecard."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sqlalchemy.exc import SQLAlchemyError

from dev.chaos import audit, pulse, records, topics, traces
from dev.chaos.fault import Fault
from dev.chaos.ledger import Answer
from dev.chaos.pace import INTERVAL
from dev.chaos.stage import Stage
from dev.chaos.verdict import Finding, Kind, findings
from dev.chaos.verify import Verify
from dev.processes import Failure
from dev.servers.process import ServerError

_REST_SECONDS = 60.0
_YOUNG = timedelta(seconds=5 * INTERVAL)
"""What fell due so lately need not be done."""

Say = Callable[[str], None]


@dataclass(frozen=True)
class Line:
    """One line of the scorecard."""

    fault: str
    lasted: float
    recovered: float  # per cent
    seconds: float
    latest: float
    shutdown: float | None
    operations: int
    done: int
    repeats: int
    findings: tuple[Finding, ...]

    def count(self, kind: Kind) -> int:
        """Findings of this kind."""
        return sum(one.kind is kind for one in self.findings)

    @property
    def clean(self) -> bool:
        """Recovered, and nothing found."""
        return self.recovered == 100 and not self.findings  # noqa: PLR2004 - per cent


@dataclass(frozen=True)
class Recovery:
    """How much of the work is done (per cent), after how long, and how late the latest was."""

    share: float
    seconds: float
    latest: float


@dataclass
class Judge:
    """Tries faults on one stage; a finding counts once, in the trial that brought it about."""

    stage: Stage
    known: set[Finding] = field(default_factory=set)

    def try_out(self, fault: Fault, say: Say) -> Line:
        """Strike, undo, wait for recovery and rest, judge."""
        stage = self.stage
        entries, copies = len(stage.load.ledger.entries), topics.repeats(stage.listener.heard)
        since = records.now(stage.judges)
        say("struck")
        struck = time.monotonic()
        shutdown, trouble = self._strike(fault)
        lasted = time.monotonic() - struck
        say("recovering")
        recovery = self._recover(since)
        say("coming to rest")
        found = [*trouble, *self._judge(say)]
        found += findings(Kind.OTHER, "it died and did not come back", self._mend())
        counts = stage.load.ledger.counts(entries)
        return Line(
            fault=fault.name,
            lasted=lasted,
            recovered=recovery.share,
            seconds=recovery.seconds,
            latest=recovery.latest,
            shutdown=shutdown,
            operations=counts.total(),
            done=counts[Answer.DONE],
            repeats=topics.repeats(stage.listener.heard) - copies,
            findings=tuple(found),
        )

    def _strike(self, fault: Fault) -> tuple[float | None, list[Finding]]:
        try:
            return fault.strike(self.stage), []
        except (ServerError, Failure, LookupError, SQLAlchemyError) as error:
            self.stage.mend()
            return None, findings(Kind.OTHER, "something did not do as it should", [error])

    def _recover(self, since: datetime) -> "Recovery":
        """Wait until ticks succeed again on every worker and what had piled up is done."""
        stage = self.stage
        began, undone = time.monotonic(), records.now(stage.judges)
        stage.product.turn_page()

        def well() -> bool:
            return pulse.feel(stage.judges, undone).well and stage.product.at_work()

        records.wait(lambda: stage.product.dead() or well(), stage.pace.patience)
        seconds, is_well = time.monotonic() - began, records.wait(well, 0)
        until = undone if is_well else records.now(stage.judges) - _YOUNG
        work = pulse.work(stage.judges, since, until)
        share = work.share if is_well else min(work.share, 99.0)
        return Recovery(share, seconds, pulse.latest(stage.judges, since))

    def _mend(self) -> list[str]:
        """Names of what was dead; what outlasted the judgement must not disturb the next trial."""
        outlasting = bool(self.stage.afterwards)
        dead = self.stage.mend()
        if outlasting or dead:
            self._recover(records.now(self.stage.judges))
        return dead

    def _judge(self, say: Say) -> list[Finding]:
        verify = Verify(self.stage)
        with self.stage.load.paused():
            found = [*self._states(), *traces.judge(self.stage.judges)]
        say("hearing the topics")
        found += self._topics()
        say("app verify")
        found += verify.findings()
        new = [one for one in found if one not in self.known]
        self.known.update(new)
        return new

    def _states(self) -> list[Finding]:
        """In the very snapshot in which nothing is overdue and nothing waits."""
        found: list[Finding] = []

        def at_rest() -> bool:
            with records.snapshot(self.stage.judges) as connection:
                if not pulse.at_rest(connection):
                    return False
                found.extend(audit.judge(connection, self.stage.load.ledger))
                return True

        if records.wait(at_rest, _REST_SECONDS):
            return found
        with records.snapshot(self.stage.judges) as connection:
            found = audit.judge(connection, self.stage.load.ledger)
        return [*found, Finding(Kind.OTHER, "it does not come to rest", "")]

    def _topics(self) -> list[Finding]:
        stage = self.stage
        with stage.judges.connect() as connection:
            wanted = topics.published(connection)
        stage.heard_all()
        heard = list(stage.listener.heard)
        with stage.judges.connect() as connection:
            written = topics.outbox(connection)
        return [
            one
            for one in topics.judge(written, heard)
            if one.says != topics.ACKNOWLEDGED or one.identifier in wanted
        ]
