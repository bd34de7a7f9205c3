"""Every supported PostgreSQL, from end to end; the whole suite runs on the newest.

`make test POSTGRES_VERSION=14` runs all of it on another one.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, make_url

from app import database, migrations
from app.kafka import Sender
from app.publish import drain
from app.report import DrainOptions
from app.retention import RetentionOptions, sweep
from app.store import claims, status
from app.store.runs import Outcome
from dev.servers.kafka import Kafka
from dev.servers.postgres import Postgres
from dev.servers.postgres_release import RELEASES
from dev.servers.process import ServerError
from tests.audit.lawful import LawfulWorld
from tests.conftest import engine_for
from tests.doctor.patient import Patient
from tests.programs import needed
from tests.world import World

NAME = "calendar"
PLANTED = (
    "DROP INDEX calendar.ix_appointments_pending_expires_at",
    "DROP TRIGGER no_pending_reminder_on_cancelled_event ON calendar.event_reminders",
    "ALTER TABLE calendar.availability_slots DROP CONSTRAINT slot_status_known",
    "ALTER TABLE calendar.outbox_messages SET (autovacuum_enabled = off)",
    "ALTER DATABASE calendar SET default_transaction_isolation = serializable",
)


@pytest.fixture(params=[version for version in RELEASES if version != max(RELEASES)])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Postgres]:
    """One of them, kept as in production, with an empty database."""
    needed("mvn", "maven")
    made = Postgres(tmp_path, version=request.param).start()
    home = made.data.home
    made.create_database(NAME)
    yield made
    made.close()
    shutil.rmtree(home)


def test_a_version_that_is_not_supported_is_refused_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ServerError, match=r"^no PostgreSQL 13 can be had: one of 14, 15, 16, "):
        Postgres(tmp_path, version="13")


@pytest.fixture
def owner(server: Postgres) -> Iterator[Engine]:
    """Who migrates."""
    made = engine_for(server, NAME)
    yield made
    made.dispose()


@pytest.fixture
def patient(server: Postgres, owner: Engine, monkeypatch: pytest.MonkeyPatch) -> Patient:
    """Migrated there and back and there again, with the role of the workers."""
    for _ in range(2):
        migrations.apply(owner)
        migrations.revert(owner, "base")
    migrations.apply(owner)
    made = Patient(server, NAME)
    made.make_role()
    monkeypatch.setenv("DATABASE_URL", made.url)
    return made


@pytest.fixture
def workers(patient: Patient) -> Iterator[Engine]:
    """As the workers' role."""
    made = database.engine(make_url(patient.url).set(drivername="postgresql+psycopg2"), 8)
    yield made
    made.dispose()


def test_the_product_works_on_every_supported_postgresql(
    owner: Engine, workers: Engine, patient: Patient, kafka: Kafka
) -> None:
    lawful = LawfulWorld(owner).fill()
    assert lawful.audit() == []
    expiry_goes_by_the_index(workers, World(owner))
    everything_is_published(workers, kafka)
    assert lawful.audit() == []
    assert sweep(workers, RetentionOptions(outbox_days=1e-9))["OutboxMessagesRemoved"] >= 4  # O5
    assert patient.found() == []
    for planted in PLANTED:
        patient.sql(planted)
        [complaint] = patient.found()
        patient.mend([complaint])
        assert patient.found() == [], planted


def expiry_goes_by_the_index(workers: Engine, world: World) -> None:
    """C3, C4, D3: a healthy one expires, a poison item stays."""
    healthy, poison = world.appointment(), world.appointment(slot_status="Available")
    report = World(workers).run()
    assert (report.outcome, report.expired, report.failed) == (Outcome.COMPLETED, 1, 1)
    assert (world.status(healthy), world.status(poison)) == ("Expired", "Pending")
    with workers.connect() as connection:
        claim = "EXECUTE claim_next (now(), '-infinity', '00000000-0000-0000-0000-000000000000')"
        claims.CLAIM_NEXT.prepare(connection)
        plan = connection.exec_driver_sql(f"EXPLAIN {claim}").scalars().all()
    assert any("ix_appointments_pending_expires_at" in line for line in plan)
    world.execute(
        "UPDATE calendar.availability_slots SET status = 'Booked' WHERE id = :slot",
        slot=poison.slot,
    )
    assert World(workers).run().expired == 1


def everything_is_published(workers: Engine, kafka: Kafka) -> None:
    """O1."""
    sender = Sender({"bootstrap.servers": kafka.bootstrap})
    assert drain(workers, sender, DrainOptions(), "a drain").outcome is Outcome.COMPLETED
    sender.close()
    with workers.begin() as connection:
        found = status.read(connection)
    assert (found.backlog, found.outbox_backlog) == (0, 0)
