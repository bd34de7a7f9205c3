"""`verify`: whether the live data obeys every rule of the specification."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from app.cli.desk import connected, console, engine, interruptible

if TYPE_CHECKING:
    from app.audit import Result
    from app.settings import KafkaSettings

Tell = Callable[[str, int], None]


def verify(*, kafka: bool, as_json: bool) -> None:
    """Audit every rule on the live database: exit 1 if one is violated. Warnings do not fail."""
    from sqlalchemy.exc import SQLAlchemyError  # noqa: PLC0415

    from app import audit  # noqa: PLC0415
    from app.audit.report import Document, Lines, Report  # noqa: PLC0415
    from app.store import errors  # noqa: PLC0415

    broker = _broker() if kafka else None
    with connected():  # refuses a schema that does not fit
        pass
    report: Report = Document(sys.stdout.write) if as_json else Lines(_line)
    with _progress(shown=console.is_terminal and not as_json) as tell:
        try:
            for result in _results(broker, tell):
                report.show(result)
        except audit.TopicsError as trouble:
            report.error = str(trouble)
        except SQLAlchemyError as trouble:
            report.error = errors.sentence(trouble)
    report.end()
    if report.error:
        sys.exit(f"The audit is not complete. {report.error}")
    raise typer.Exit(1 if report.violations else 0)


def _broker() -> "KafkaSettings":
    """Where the topics are; what is wrong is told before anything is read."""
    from app import kafka_options  # noqa: PLC0415
    from app.settings import DatabaseSettings, KafkaSettings  # noqa: PLC0415

    if not DatabaseSettings.load().session:
        sys.exit(
            "The topics are compared in temporary tables, which a pooler in transaction mode does"
            " not keep: let DATABASE_URL lead past it, and DATABASE_POOL_MODE be session."
        )
    settings = KafkaSettings.load()
    kafka_options.configuration(settings)
    return settings


def _results(broker: "KafkaSettings | None", tell: Tell) -> Iterator["Result"]:
    """The database's checks, then the topics'."""
    from app import audit  # noqa: PLC0415
    from app.settings import AppointmentTimeoutSettings, OutboxSettings  # noqa: PLC0415

    timeout = AppointmentTimeoutSettings.load()
    values = audit.AuditOptions(
        retention_days=OutboxSettings.load().outbox_retention_days,
        interval_seconds=timeout.appointment_timeout_interval_seconds,
        max_duration_seconds=timeout.appointment_timeout_max_duration_seconds,
    ).values
    with interruptible(), engine().connect() as connection:
        for done, check in enumerate(audit.CHECKS):
            tell(check.name, 100 * done // len(audit.CHECKS))
            yield from audit.run(connection, [check], values)
        if broker is not None:
            from app.audit import topics  # noqa: PLC0415 - the Kafka client

            tell("reading the topics", 100)
            yield from topics.verify(
                connection, broker, values, lambda count: tell(f"{count:,} records read", 100)
            )


@contextmanager
def _progress(*, shown: bool) -> Iterator[Tell]:
    columns = (TimeElapsedColumn(), BarColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=console, disable=not shown, transient=True) as progress:
        bar = progress.add_task("", total=100)
        yield lambda what, percent: progress.update(bar, description=what, completed=percent)


def _line(line: str) -> None:
    console.print(line, soft_wrap=True, markup=False)
