"""For ten million rows: bounded memory, short snapshots, nothing written, no stop at odd data."""

import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import event
from sqlalchemy.exc import SQLAlchemyError

from app import audit
from app.store import audit as store
from app.store import errors
from app.store.audit import Check
from tests.audit.lawful import LawfulWorld
from tests.gate import statements

[TOPICS] = [check for check in audit.CHECKS if check.name == "topic-of-the-contract"]
MANY = 100_000
VALUES = audit.AuditOptions().values


def test_100000_violations_are_listed_in_a_few_megabytes(lawful: LawfulWorld) -> None:
    lawful.execute(
        """INSERT INTO calendar.outbox_messages (topic, key, payload)
        SELECT 'pin.calendar.nothing', number, '{}' FROM generate_series(1, :many) AS number""",
        many=MANY,
    )
    lawful.audit([TOPICS])  # whatever is imported or cached by it
    tracemalloc.start()
    try:
        with lawful.engine.connect() as connection:
            [(count, listed)] = [
                (result.findings.count, sum(1 for _ in result.findings))
                for result in audit.run(connection, [TOPICS], VALUES)
            ]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (count, listed) == (MANY, MANY)
    assert peak < 5_000_000, f"{peak:,} bytes"


def test_every_check_reads_through_a_cursor_of_the_server(lawful: LawfulWorld) -> None:
    """A plain cursor would have libpq hold the whole answer."""
    asked: list[str] = []

    def note(_c: object, cursor: Any, statement: str, *_more: object) -> None:
        if cursor.name:
            asked.append(statement)

    event.listen(lawful.engine, "before_cursor_execute", note)
    lawful.audit()
    assert len(asked) == len(audit.CHECKS)


def test_every_check_has_a_transaction_of_its_own_that_reads_one_moment(
    lawful: LawfulWorld,
) -> None:
    with statements(lawful.engine) as seen:
        lawful.audit()
    sent = seen.texts()
    begins = [n for n, said in enumerate(sent) if "REPEATABLE READ, READ ONLY" in said]
    ends = [n for n, said in enumerate(sent) if said == "COMMIT"]
    assert len(begins) == len(ends) == len(audit.CHECKS)
    assert all(begin < end for begin, end in zip(begins, ends, strict=True))
    assert all(end < begin for end, begin in zip(ends, begins[1:], strict=False))


def test_no_snapshot_is_open_while_findings_are_read(lawful: LawfulWorld) -> None:
    """A reader who stops (a pager) keeps no dead row alive."""
    lawful.execute("UPDATE calendar.appointments SET version = 0")
    with lawful.engine.connect() as connection:
        for result in audit.run(connection, audit.CHECKS, VALUES):
            for _ in result.findings:
                assert not connection.in_transaction()


def test_the_audit_can_write_nothing(lawful: LawfulWorld) -> None:
    write = replace(TOPICS, sql="SELECT nextval('calendar.outbox_messages_id_seq') AS id")
    with pytest.raises(SQLAlchemyError) as refused:
        list(results(lawful, [write]))
    assert errors.sqlstate(refused.value) == "25006"


def results(lawful: LawfulWorld, checks: list[Check]) -> Iterator[tuple[str, int, str | None]]:
    with lawful.engine.connect() as connection:
        for result in audit.run(connection, checks, VALUES):
            yield result.check.name, result.violations, result.error


def test_a_check_that_stumbles_over_odd_data_costs_itself_and_fails_the_audit(
    lawful: LawfulWorld,
) -> None:
    odd = replace(TOPICS, name="odd", sql="SELECT 1 / (id - id) FROM calendar.outbox_messages")
    first, second = results(lawful, [odd, TOPICS])
    assert first == (
        "odd",
        1,
        "could not be judged: PostgreSQL refused the work (DivisionByZero, SQLSTATE 22012).",
    )
    assert second == (TOPICS.name, 0, None)


def test_what_every_check_would_meet_ends_the_audit(lawful: LawfulWorld) -> None:
    lawful.execute("ALTER TABLE calendar.outbox_messages RENAME TO elsewhere")
    with pytest.raises(SQLAlchemyError):
        list(results(lawful, [TOPICS]))


def test_rows_looked_at_are_counted_up_to_a_bound_and_then_estimated(
    lawful: LawfulWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    appointments = len(lawful.all("SELECT FROM calendar.appointments"))
    with lawful.engine.begin() as connection:
        table = "calendar.appointments"
        assert store.count(connection, table) == store.Counted(appointments, exact=True)
        monkeypatch.setattr(store, "EXACT_UP_TO", 5)
        assert store.count(connection, table) == store.Counted(6, exact=False)
    lawful.execute("ANALYZE calendar.appointments")
    with lawful.engine.begin() as connection:
        assert store.count(connection, table) == store.Counted(appointments, exact=False)


@pytest.mark.parametrize("column", ["updated_at", "created_at", "pending_expires_at"])
@pytest.mark.parametrize("moment", ["infinity", "-infinity", "9999-12-31", "0044-03-15 BC"])
def test_odd_times_stop_no_check(lawful: LawfulWorld, column: str, moment: str) -> None:
    lawful.plant(f"UPDATE calendar.appointments SET {column} = '{moment}'")
    assert [one for one in lawful.audit() if one.severity == "violation"] != []


@pytest.mark.parametrize("moment", ["infinity", "-infinity"])
def test_odd_times_of_messages_and_runs_stop_no_check(lawful: LawfulWorld, moment: str) -> None:
    lawful.plant(
        f"UPDATE calendar.outbox_messages SET created_at = '{moment}', published_at = NULL",
        f"UPDATE calendar.job_runs SET started_at = '{moment}', finished_at = NULL",
    )
    assert lawful.audit() != []


def test_slots_at_the_ends_of_time_stop_no_check(lawful: LawfulWorld) -> None:
    lawful.plant(
        """UPDATE calendar.availability_slots
        SET start_at = '-infinity', min_lead_time_minutes = 2147483647"""
    )
    assert [one for one in lawful.audit() if one.severity == "violation"] != []
