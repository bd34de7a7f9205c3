"""`python -m app why`, as an operator and as a program use it."""

import json
from uuid import uuid4

import pytest

from dev.servers.postgres import Postgres
from tests.audit.command import app
from tests.audit.lawful import LawfulWorld
from tests.conftest import engine_for


def test_it_says_why_and_what_to_do_and_is_exit_0(lawful: LawfulWorld) -> None:
    done = app(lawful.engine, "why", str(lawful.names["pending"].id))
    assert (done.returncode, done.stderr) == (0, "")
    first, last = done.stdout.splitlines()
    assert first.startswith("It is not due: its agent has time until ")
    assert last == "What to do: There is nothing to do."


def test_no_such_appointment_is_exit_1(lawful: LawfulWorld) -> None:
    done = app(lawful.engine, "why", str(uuid4()))
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.startswith("There is no such appointment.")


@pytest.mark.parametrize("wrong", [["no-uuid"], [], [str(uuid4()), "more"], ["--nonsense"]])
def test_a_malformed_id_is_exit_2(lawful: LawfulWorld, wrong: list[str]) -> None:
    assert app(lawful.engine, "why", *wrong).returncode == 2


def test_json_carries_the_words_and_what_they_rest_on(lawful: LawfulWorld) -> None:
    made = lawful.names["expired"]
    done = app(lawful.engine, "why", str(made.id), "--json")
    found = json.loads(done.stdout)
    assert (found["verdict"], found["appointment_id"]) == ("ended", str(made.id))
    assert found["reason"][0].startswith("It is Expired since ")
    assert found["remedy"] == "There is nothing to do."
    assert found["situation"]["status"] == "Expired"
    assert len(found["messages"]) == 2
    assert found["messages"][0]["published_at"] is not None


def test_json_of_an_appointment_that_is_not_there(lawful: LawfulWorld) -> None:
    done = app(lawful.engine, "why", str(uuid4()), "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["verdict"] == "missing"


def test_the_settings_decide_what_is_late(lawful: LawfulWorld) -> None:
    lawful.plant(
        """UPDATE calendar.appointments SET created_at = now() - interval '2 h',
        pending_expires_at = now() - interval '1 h' WHERE id = :a""",
        "UPDATE calendar.job_runs SET finished_at = now() - interval '10 min'",
        **lawful.ids("pending"),
    )
    appointment_id = str(lawful.names["pending"].id)
    assert "No cycle has succeeded since" in app(lawful.engine, "why", appointment_id).stdout
    hourly = app(lawful.engine, "why", appointment_id, APPOINTMENT_TIMEOUT_INTERVAL_SECONDS="3600")
    assert "it should be taken within 1 cycle, about 1 h 0 min." in hourly.stdout


def test_an_unmigrated_schema_is_refused_in_one_sentence(postgres: Postgres) -> None:
    engine = engine_for(postgres, "postgres")
    done = app(engine, "why", str(uuid4()))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "The schema is missing or too old: run `python -m app migrate`.\n"
    engine.dispose()
