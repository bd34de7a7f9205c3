"""The audit as people and programs read it, written while it goes on."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field

from app.audit import Result


@dataclass
class Report:
    """Counts what the checks saw."""

    write: Callable[[str], object]
    checks: list[dict[str, object]] = field(default_factory=list)
    violations: int = 0
    warnings: int = 0
    error: str | None = None

    def show(self, result: Result) -> None:
        """One check, as soon as it is over."""
        self.violations += result.violations
        self.warnings += result.warnings
        self.checks.append(
            {
                "check": result.check.name,
                "rule": result.check.rule,
                "says": result.check.says,
                "severity": result.check.severity,
                "rows": result.looked_at.rows,
                "rows_estimated": not result.looked_at.exact,
                "found": result.findings.count,
                "error": result.error,
            }
        )

    def end(self) -> None:
        """All are over."""


class Lines(Report):
    """For people: a line for each check, and one for each finding."""

    def show(self, result: Result) -> None:
        """Its line, then its findings."""
        super().show(result)
        check, rows, found = result.check, result.looked_at, result.findings.count
        mark = "VIOLATION" if result.violations else "warning" if result.warnings else "ok"
        about = "" if rows.exact else "about "
        self.write(
            f"{mark:<9}  {check.rule:<4}  {check.name:<38}  {about + f'{rows.rows:,}':>18} rows"
            + (f", {_counted(found, check.severity)}: {check.says}" if found else "")
            + (f", {result.error}" if result.error else "")
        )
        for finding in result.findings:
            self.write(f"    {finding.id}: {finding.found}; wanted: {finding.wanted}")

    def end(self) -> None:
        """The sum."""
        self.write(
            f"{len(self.checks)} checks: {_counted(self.violations, 'violation')},"
            f" {_counted(self.warnings, 'warning')}."
        )


class Document(Report):
    """For programs: the findings as they come, then the checks and their sum."""

    separator = '{"findings": [\n'

    def show(self, result: Result) -> None:
        """Its findings alone."""
        super().show(result)
        check = result.check
        named = {"severity": check.severity, "rule": check.rule, "check": check.name}
        for finding in result.findings:
            self.write(self.separator + json.dumps({**named, **asdict(finding)}))
            self.separator = ",\n"

    def end(self) -> None:
        """The rest of the document."""
        start = self.separator if self.separator[0] == "{" else "\n"
        sums = {name: getattr(self, name) for name in ("violations", "warnings", "error", "checks")}
        self.write(start + "], " + json.dumps(sums, ensure_ascii=False, indent=1)[1:] + "\n")


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
