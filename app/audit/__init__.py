"""The audit: every rule that data can break, looked at on the live database (`verify`).

Check after check, each in a snapshot of its own. What is found goes through a file that lives in
memory while it is small: no reader, however slow, holds a snapshot open, and no number of findings
fills the memory.
"""

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from app.store import (
    audit,
    audit_appointments,
    audit_bookings,
    audit_contract,
    audit_guards,
    audit_jobs,
    audit_messages,
    audit_outbox,
    errors,
)
from app.store.audit import Check, Counted, Finding, Severity

CHECKS: tuple[Check, ...] = (
    *audit_appointments.CHECKS,
    *audit_bookings.CHECKS,
    *audit_messages.CHECKS,
    *audit_contract.CHECKS,
    *audit_outbox.CHECKS,
    *audit_jobs.CHECKS,
    *audit_guards.CHECKS,
)
_IN_MEMORY = 1_000_000  # bytes of findings of one check, before they go to a file


class TopicsError(Exception):
    """Kafka's topics cannot be read to their end; one plain sentence."""


@dataclass(frozen=True, slots=True)
class AuditOptions:
    """What the settings say about when something is late."""

    retention_days: float = 7
    interval_seconds: float = 60
    max_duration_seconds: float = 30

    @property
    def values(self) -> dict[str, object]:
        """The same for the checks' statements."""
        slo = self.interval_seconds + self.max_duration_seconds
        return {
            "retention_days": self.retention_days,
            "slo_seconds": slo,
            "unfinished_seconds": 2 * slo + 60,
        }


class Findings:
    """The findings of one check, written once and read in order."""

    def __init__(self) -> None:
        self._file = tempfile.SpooledTemporaryFile(_IN_MEMORY, "w+", encoding="utf-8")  # noqa: SIM115 - closed with its result
        self.count = 0

    def add(self, finding: Finding) -> None:
        """One more."""
        self._file.write(json.dumps([finding.id, finding.found, finding.wanted]) + "\n")
        self.count += 1

    def __iter__(self) -> Iterator[Finding]:
        """All of them, from the first on."""
        self._file.seek(0)
        for line in self._file:
            yield Finding(*json.loads(line))

    def close(self) -> None:
        """Forget them."""
        self._file.close()


@dataclass(frozen=True, slots=True)
class Result:
    """What one check saw. With `error` it could not judge, which proves nothing."""

    check: Check
    looked_at: Counted
    findings: Findings
    error: str | None = None

    @property
    def violations(self) -> int:
        """What fails the audit."""
        return self._found(Severity.VIOLATION) + (self.error is not None)

    @property
    def warnings(self) -> int:
        """What does not."""
        return self._found(Severity.WARNING)

    def _found(self, severity: Severity) -> int:
        return self.findings.count if self.check.severity is severity else 0


def run(
    connection: Connection, checks: Sequence[Check], values: Mapping[str, object]
) -> Iterator[Result]:
    """Each check's result, as soon as its transaction is over; its findings go with the next.

    A check that stumbles over odd data costs itself; what everybody would meet is raised.
    """
    for check in checks:
        findings, looked_at, error = Findings(), Counted(0, exact=False), None
        try:
            with audit.snapshot(connection):
                looked_at = audit.count(connection, check.table)
                for finding in audit.offenders(connection, check, values):
                    findings.add(finding)
        except SQLAlchemyError as trouble:
            if errors.is_everybodys(trouble):
                raise
            error = f"could not be judged: {errors.sentence(trouble)}"
        try:
            yield Result(check, looked_at, findings, error)
        finally:
            findings.close()
