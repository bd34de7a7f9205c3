"""The whole product on an adopter's tables: the law applied, nothing else touched (section 2)."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from sqlalchemy import Engine

from app import audit, dry_run, why
from app.doctor import examine
from app.domain.booking import CANCEL_REASONS
from app.domain.outbox import TOPICS, Reason
from app.kafka import Sender
from app.publish import drain
from app.report import DrainOptions
from app.retention import RetentionOptions, sweep
from app.store import claims, privileges, status
from dev.servers.consumer import read_topics
from dev.servers.mock_kafka import MockKafka
from tests.adoption.conftest import Found
from tests.adoption.team import IN_PLACE, Booked, Team
from tests.cycle.test_plans import nodes
from tests.neighbour import Neighbour, holding
from tests.publish.outbox_world import sender_to
from tests.world import HOUR, World

WORKER_ROLE = Path(__file__).parents[2] / "ops" / "postgres" / "worker-role.sql"


@pytest.fixture(scope="module")
def broker() -> Iterator[MockKafka]:
    """With the two topics."""
    with MockKafka(dict.fromkeys(TOPICS, 1)) as server:
        yield server


@pytest.fixture
def sender(broker: MockKafka) -> Iterator[Sender]:
    """The product's."""
    made = sender_to(broker.bootstrap)
    yield made
    made.close()


@pytest.fixture
def worker(adopted: Team) -> Iterator[Engine]:
    """As the shipped file makes its role, with what the team's own trigger needs."""
    role = f"worker_{adopted.name}"
    psql = [str(adopted.server.bin_dir / "psql"), adopted.url, "-q"]
    given = [
        "-v",
        "ON_ERROR_STOP=1",
        "-v",
        f"role={role}",
        "-v",
        f"schema={adopted.flavour.schema}",
    ]
    subprocess.run([*psql, *given, "-f", str(WORKER_ROLE)], check=True)
    adopted.run(f"ALTER ROLE {role} LOGIN")
    if adopted.flavour.name == "booking":
        adopted.run(f"GRANT INSERT ON booking.journal TO {role}")
    engine = adopted.engine(role)
    yield engine
    engine.dispose()
    adopted.run(f"DROP OWNED BY {role}; DROP ROLE {role}")


def changed(before: dict[str, dict[str, object]], team: Team) -> dict[str, dict[str, object]]:
    """What has another value now, by row."""
    after = team.rows()
    assert after.keys() == before.keys()
    return {
        key: {name: value for name, value in row.items() if value != before[key][name]}
        for key, row in after.items()
        if row != before[key]
    }


def odd(team: Team) -> dict[str, Booked]:
    """Rows that predate the rules; which of them cannot expire."""
    slotless, eventless, first = (team.book() for _ in range(3))
    crowding = team.book(slot=first.slot)
    team.lose(slotless, "availability_slots")
    own = team.flavour.columns["appointments"]
    team.run(
        f"""UPDATE {team.flavour.tables["appointments"]} SET {own.get("slot_id", "slot_id")} = NULL
        WHERE {own.get("id", "id")} = '{slotless.appointment}'"""
    )
    team.lose(eventless, "calendar_events")
    team.book(expires_in=None)
    team.book(status="NoShow")
    team.book(status="Rescheduled")
    team.book(status="Cancelled", event_status="Cancelled", slot_status="Available")
    return {"slotless": slotless, "eventless": eventless, "first": first, "second": crowding}


def test_the_law_is_applied_and_nothing_else_is_touched(
    adopted: Team, worker: Engine, sender: Sender, broker: MockKafka
) -> None:
    healthy, late = adopted.book(), adopted.book(starts_in=HOUR / 2)
    poison = odd(adopted)
    before, world = adopted.rows(), World(worker)
    shown = list(dry_run.prospects(worker, 200))
    assert {one.appointment_id for one in shown if one.ending} == {
        healthy.appointment,
        late.appointment,
    }
    assert changed(before, adopted) == {}

    report = world.run(connections=1)
    assert (report.expired, report.released, report.failed, report.detail) == (2, 1, 4, None)
    assert {key: one["rule"] for key, one in world.failures().items()} == {
        poison["slotless"].appointment: "slot: found nothing, wanted the slot",
        poison["eventless"].appointment: "event: found nothing, wanted the event",
        poison[
            "first"
        ].appointment: "slot: found another active appointment, wanted this one alone",
        poison["second"].appointment: (
            "slot: found another active appointment, wanted this one alone"
        ),
    }
    touched = changed(before, adopted)
    for made, slot in ((healthy, "Available"), (late, "Expired")):
        assert made.slot is not None
        as_of = touched[str(made.appointment)]["updated_at"]
        written = {"updated_at": as_of, "version": 2}
        assert touched.pop(str(made.appointment)) == {"status": "Expired", **written}
        assert touched.pop(str(made.slot)) == {"status": slot, **written}
        assert touched.pop(str(made.event)) == {
            "status": "Cancelled",
            "cancel_reason": CANCEL_REASONS[Reason.EXPIRED],
            **written,
        }
    assert [one["status"] for one in touched.values()] == ["Skipped", "Skipped"]
    assert all(set(one) == {"status", "updated_at"} for one in touched.values())

    assert drain(worker, sender, DrainOptions(), str(uuid4())).published == 4
    told = read_topics(broker.bootstrap, TOPICS, expected=4, timeout=30)
    assert {str(healthy.appointment), str(late.event)} <= {record.key for record in told}
    with worker.connect() as connection:
        looked = status.read(connection)
        connection.rollback()
        results = {
            one.check.name: (one.findings.count, one.error)
            for one in audit.run(connection, audit.CHECKS, audit.AuditOptions().values)
        }
    assert (looked.poison, looked.outbox_backlog) == (4, 0)
    assert {name for name, (_count, error) in results.items() if error} == set()
    assert {name: count for name, (count, _error) in results.items() if count} == {
        "active-appointment-holds-its-slot": 1,
        "active-appointment-keeps-its-event": 1,
        "cancelled-by-someone": 1,
        "cancelled-event-reminds-nobody": 1,
        "deadline-unless-auto-confirmed": 1,
        "ended-has-its-pair": 1,
        "one-active-appointment-per-slot": 1,
    }


def test_a_kept_failure_is_gone_when_the_team_moves_or_deletes_its_appointment(
    adopted: Team, worker: Engine
) -> None:
    """C4, by the two triggers on the team's own table."""
    world, (moved, deleted) = (
        World(worker),
        [adopted.book(slot_status="Available") for _ in range(2)],
    )
    assert world.run().failed == 2
    table, own = adopted.flavour.tables["appointments"], adopted.flavour.columns["appointments"]
    at = f"WHERE {own.get('id', 'id')} ="
    adopted.run(
        f"UPDATE {table} SET {own.get('status', 'status')} = 'NoShow' {at} '{moved.appointment}'"
    )
    assert list(world.failures()) == [deleted.appointment]
    adopted.run(f"DELETE FROM {table} {at} '{deleted.appointment}'")
    assert not world.failures()


def test_versions_may_be_beyond_32_bits(found: Found) -> None:
    """Outbox ids follow from them (O6)."""
    team = found(IN_PLACE, adopted=True)
    made = team.book()
    for table in ("appointments", "availability_slots", "calendar_events"):
        team.run(f"UPDATE booking.{table} SET version = 5000000000")
    assert team.world().run().expired == 1
    assert team.rows()[str(made.appointment)]["version"] == 5_000_000_001


def test_d3_the_claim_goes_by_the_partial_index(adopted: Team, worker: Engine) -> None:
    adopted.book()
    with worker.connect() as connection:
        claims.CLAIM_NEXT.prepare(connection)
        shown = connection.exec_driver_sql(
            """EXPLAIN (FORMAT JSON) EXECUTE claim_next
            (now(), '-infinity', '00000000-0000-0000-0000-000000000000')"""
        ).scalar()
        connection.rollback()
    assert shown is not None
    found = list(nodes(shown[0]["Plan"]))
    assert "ix_appointments_pending_expires_at" in {one.get("Index Name") for one in found}
    assert not {one["Node Type"] for one in found} & {"Seq Scan", "Sort", "Hash Join"}


def test_r5_instances_side_by_side_expire_each_appointment_once(
    adopted: Team, worker: Engine
) -> None:
    made = [adopted.book() for _ in range(16)]
    cycles = [Neighbour(lambda: World(worker).run(connections=1)) for _ in range(4)]
    assert sum(cycle.result().expired for cycle in cycles) == len(made)
    assert len(World(worker).messages()) == 2 * len(made)
    assert {adopted.status(one) for one in made} == {"Expired"}


@pytest.mark.parametrize("part", ["appointments", "availability_slots", "calendar_events"])
def test_c2_what_the_team_holds_is_passed_over_and_why_names_the_holder(
    adopted: Team, worker: Engine, part: str
) -> None:
    made, table, own = adopted.book(), adopted.flavour.tables[part], adopted.flavour.columns[part]
    key = {"appointments": made.appointment, "availability_slots": made.slot}.get(part, made.event)
    engine = adopted.engine().execution_options(as_written=True)
    held = f"SELECT FROM {table} WHERE {own.get('id', 'id')} = :key FOR UPDATE"
    with holding(engine, held, "SELECT txid_current()", key=key):
        report = World(worker).run()
        assert (report.expired, report.skipped_locked) == (0, 1)
        answer = why.diagnose(adopted.engine(), made.appointment, why.WhyOptions())
        assert answer.verdict is why.Verdict.LOCKED
        assert len(answer.holders) == 1
    assert World(worker).run().expired == 1


def test_retention_keeps_our_tables_small(adopted: Team, worker: Engine) -> None:
    adopted.book()
    world = World(worker)
    world.run()
    adopted.run(
        f"""UPDATE {adopted.flavour.schema}.outbox_messages
        SET published_at = now() - interval '1 year'"""
    )
    assert sweep(worker, RetentionOptions())["OutboxMessagesRemoved"] == 2


def test_the_role_has_what_it_needs_and_no_more(
    adopted: Team, worker: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    with worker.begin() as connection:
        assert privileges.lacking(connection) == []
    role = worker.url.username
    for table in adopted.flavour.tables.values():
        sql = f"SELECT has_table_privilege('{role}', '{table}', 'INSERT, DELETE, TRUNCATE')"
        assert adopted.run(sql) == [(False,)]
    monkeypatch.setenv("DATABASE_URL", adopted.url.replace("postgres@", f"{role}@"))
    monkeypatch.setenv("DATABASE_SCHEMA", adopted.flavour.schema)
    serious = [one.found for one in examine("postgresql") if one.serious]
    assert [one for one in serious if "is off: a crash" not in one] == []
