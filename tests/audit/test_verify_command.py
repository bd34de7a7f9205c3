"""`python -m app verify`, as an operator and as a program use it."""

import json
import signal
import subprocess
import sys
from typing import Any

import pytest
from sqlalchemy import Engine

from app import audit
from app.store import audit_topics
from dev.servers.kafka import Kafka
from dev.servers.postgres import Postgres
from tests.audit.command import ROOT, app, environment
from tests.audit.lawful import LawfulWorld
from tests.conftest import engine_for
from tests.neighbour import holding, wait_for_a_waiter, wait_until
from tests.terminal import seen

CHECKS = len(audit.CHECKS)


def verify(engine: Engine, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    return app(engine, "verify", *arguments, **more)


def document(engine: Engine, *arguments: str, **more: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(verify(engine, "--json", *arguments, **more).stdout)
    return found


def test_a_lawful_world_is_exit_0_with_one_line_for_each_check(lawful: LawfulWorld) -> None:
    done = verify(lawful.engine)
    assert (done.returncode, done.stderr) == (0, "")
    *lines, last = done.stdout.splitlines()
    assert len(lines) == CHECKS
    assert all(line.startswith("ok ") and line.endswith(" rows") for line in lines)
    assert last == f"{CHECKS} checks: 0 violations, 0 warnings."
    assert "\x1b" not in done.stdout


def test_a_violation_is_exit_1_and_listed_with_rule_id_found_and_wanted(
    lawful: LawfulWorld,
) -> None:
    made = lawful.names["pending"]
    lawful.plant("UPDATE calendar.appointments SET version = -3 WHERE id = :a", a=made.id)
    done = verify(lawful.engine)
    assert (done.returncode, done.stderr) == (1, "")
    lines = done.stdout.splitlines()
    [number] = [n for n, line in enumerate(lines) if line.startswith("VIOLATION")]
    assert lines[number].split()[1:3] == ["C3.5", "version-of-appointments"]
    assert lines[number].endswith(" rows, 1 violation: Versions count from 1")
    assert lines[number + 1] == f"    {made.id}: version -3; wanted: 1 or more"
    assert lines[-1] == f"{CHECKS} checks: 1 violation, 0 warnings."


def test_warnings_do_not_fail(lawful: LawfulWorld) -> None:
    lawful.execute(
        "INSERT INTO calendar.outbox_messages (topic, key, payload) VALUES ('x','y','1')"
    )
    done = verify(lawful.engine)
    assert done.returncode == 0
    assert done.stdout.endswith(f"{CHECKS} checks: 0 violations, 1 warning.\n")
    assert [line for line in done.stdout.splitlines() if line.startswith("warning ")] != []


def test_json_is_one_document(lawful: LawfulWorld) -> None:
    assert document(lawful.engine)["findings"] == []
    pending, confirmed = lawful.names["pending"].id, lawful.names["confirmed"].id
    lawful.plant("UPDATE calendar.appointments SET version = 0 WHERE id = :a", a=pending)
    lawful.plant("UPDATE calendar.appointments SET cancelled_by = id WHERE id = :a", a=confirmed)
    found = document(lawful.engine)
    assert {
        "severity": "violation",
        "rule": "C3.5",
        "check": "version-of-appointments",
        "id": str(pending),
        "found": "version 0",
        "wanted": "1 or more",
    } in found["findings"]
    assert len(found["findings"]) == 2
    assert (found["violations"], found["warnings"], found["error"]) == (2, 0, None)
    by_name = {check["check"]: check for check in found["checks"]}
    assert by_name.keys() == {check.name for check in audit.CHECKS}
    assert by_name["version-of-appointments"] == {
        "check": "version-of-appointments",
        "rule": "C3.5",
        "says": "Versions count from 1",
        "severity": "violation",
        "rows": 11,
        "rows_estimated": False,
        "found": 1,
        "error": None,
    }


def test_wrong_usage_is_exit_2(lawful: LawfulWorld) -> None:
    for wrong in (["--nonsense"], ["more"]):
        assert verify(lawful.engine, *wrong).returncode == 2


def test_an_unmigrated_schema_is_refused_in_one_sentence(postgres: Postgres) -> None:
    engine = engine_for(postgres, "postgres")
    done = verify(engine)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "The schema is missing or too old: run `python -m app migrate`.\n"
    engine.dispose()


def test_kafka_without_its_address_is_refused_before_anything_is_read(lawful: LawfulWorld) -> None:
    done = verify(lawful.engine, "--kafka")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "KAFKA_BOOTSTRAP_SERVERS is not set.\n"


def test_kafka_adds_the_checks_of_the_topics(lawful: LawfulWorld, kafka: Kafka) -> None:
    """Nothing of the lawful world has been sent: everything is missing."""
    found = document(lawful.engine, "--kafka", KAFKA_BOOTSTRAP_SERVERS=kafka.bootstrap)
    messages = len(lawful.messages())
    assert len(found["checks"]) == CHECKS + len(audit_topics.CHECKS)
    assert found["violations"] == len(found["findings"]) == messages


def test_an_incomplete_audit_is_exit_1_and_says_so_in_document_and_sentence(
    lawful: LawfulWorld,
) -> None:
    done = verify(lawful.engine, "--kafka", "--json", KAFKA_BOOTSTRAP_SERVERS="127.0.0.1:1")
    assert done.returncode == 1
    assert done.stderr.startswith("The audit is not complete. Kafka does not let the topics be")
    found = json.loads(done.stdout)
    assert found["error"].startswith("Kafka does not let the topics be read")
    assert len(found["checks"]) == CHECKS


def test_a_terminal_sees_progress(lawful: LawfulWorld) -> None:
    code, shown = seen([sys.executable, "-m", "app", "verify"], environment(lawful.engine))
    assert code == 0
    assert "━" in shown
    assert f"{CHECKS} checks: 0 violations" in shown


def test_ctrl_c_ends_it_within_a_statement(lawful: LawfulWorld) -> None:
    """psycopg2 alone would wait for the statement's end: here, for a lock."""
    url = lawful.engine.url.render_as_string(hide_password=False)
    env = environment(lawful.engine, DATABASE_URL=f"{url}?options=-c%20lock_timeout%3D60s")
    with holding(lawful.engine, "LOCK TABLE calendar.event_reminders"):
        process = subprocess.Popen(
            [sys.executable, "-m", "app", "verify"],
            cwd=ROOT,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        wait_for_a_waiter(lawful.engine)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        assert process.returncode not in {0, None}
        wait_until(
            lambda: (
                not lawful.all(
                    """SELECT FROM pg_stat_activity
                WHERE datname = current_database() AND wait_event_type = 'Lock'"""
                )
            ),
            "its backend stays",
            seconds=60,
        )


@pytest.mark.parametrize("argument", ["--help"])
def test_help_needs_no_server(lawful: LawfulWorld, argument: str) -> None:
    assert verify(lawful.engine, argument, DATABASE_URL="").returncode == 0
