"""Every verb through PgBouncer in transaction mode: nothing rests on a session."""

from sqlalchemy import Engine, make_url, text

from app import database, migrations
from app.dry_run import prospects
from app.kafka import Sender
from app.publish import drain
from app.report import CycleReport, DrainOptions
from app.retention import RetentionOptions, sweep
from app.store import status
from app.store.runs import Outcome
from dev.servers.kafka import Kafka
from dev.servers.pgbouncer import Pgbouncer
from dev.servers.postgres import Postgres
from tests.gate import gate, statements
from tests.neighbour import Neighbour
from tests.pooler.conftest import ROLE, SESSIONS
from tests.world import World

LANES = 4


def test_every_verb_works_with_fewer_sessions_than_connections(
    world: World, pooled: Engine, pooler: Pgbouncer, kafka: Kafka
) -> None:
    as_worker = World(pooled)
    poison = world.appointment(slot_status="Available")
    healthy = [world.appointment() for _ in range(12)]
    foreseen = list(prospects(pooled, 200))
    assert sum(one.ending is not None for one in foreseen) == len(healthy)
    with statements(pooled) as sent:
        report = as_worker.run(connections=LANES)
    assert not [one for one in sent.texts() if "EXECUTE" in one or "AND CHAIN" in one]
    assert (report.outcome, report.detail) == (Outcome.COMPLETED, None)
    assert (report.expired, report.failed) == (len(healthy), 1)
    assert list(world.failures()) == [poison.appointment]
    world.execute("UPDATE calendar.availability_slots SET status = 'Booked'")
    assert as_worker.run().expired == 1  # that one is claimed by its id
    two_lanes = DrainOptions(batch_size=4)
    sender = Sender({"bootstrap.servers": kafka.bootstrap})
    assert drain(pooled, sender, two_lanes, "through a pooler").published == 2 * 13
    sender.close()
    world.execute("UPDATE calendar.outbox_messages SET published_at = now() - interval '30 days'")
    assert sweep(pooled, RetentionOptions())["OutboxMessagesRemoved"] == 2 * 13
    with pooled.begin() as connection:
        assert status.read(connection).backlog == 0
    ours = [row for row in pooler.console("SHOW SERVERS") if ROLE in row]
    assert len(ours) == SESSIONS
    nothing_left_behind(pooled)


def nothing_left_behind(pooled: Engine) -> None:
    """The one session is as the next transaction, maybe another program's, expects it."""
    with pooled.begin() as connection:
        prepared = connection.execute(text("SELECT count(*) FROM pg_prepared_statements"))
        assert prepared.scalar() == 0
        names = {"names": list(database.SESSION)}
        changed = text(
            """SELECT name FROM pg_settings WHERE name = ANY(:names)
            AND (setting <> reset_val OR source NOT IN ('user', 'default', 'client'))"""
        )
        assert connection.execute(changed, names).all() == []


def test_a_migration_by_several_at_once(postgres: Postgres, pooler: Pgbouncer) -> None:
    """They take turns on a lock of the transaction, not of a session."""
    name, several = "migrated_through_a_pooler", 3
    pooler.console(f"SET default_pool_size = {several}")
    url = make_url(pooler.through(postgres.create_database(name)))
    engine = database.engine(url.set(drivername="postgresql+psycopg2"), 4, session=False)
    for one in [Neighbour(lambda: migrations.apply(engine)) for _ in range(several)]:
        one.result()
    assert migrations.revision(engine) is not None
    migrations.revert(engine, "base")
    engine.dispose()
    postgres.drop_database(name)


def test_c5_a_pooler_that_restarts_in_mid_cycle_costs_that_cycle_only(
    world: World, pooled: Engine, pooler: Pgbouncer
) -> None:
    made = [world.appointment() for _ in range(6)]
    as_worker = World(pooled)
    with gate(pooled, "UPDATE calendar.appointments") as before_the_write:
        cycle: Neighbour[CycleReport] = Neighbour(as_worker.run)
        before_the_write.wait_reached()
        pooler.kill()
        pooler.start()
        before_the_write.release()
        assert cycle.result().outcome is Outcome.FAILED
    assert as_worker.run().outcome is Outcome.COMPLETED
    assert {world.status(one) for one in made} == {"Expired"}
    assert len(world.messages()) == 2 * len(made)


def test_a_statement_waits_no_longer_than_the_role_allows(world: World, pooled: Engine) -> None:
    """S5, of the role that the shipped file makes, without a word from the session."""
    with pooled.begin() as connection:
        for name in ("lock_timeout", "statement_timeout", "idle_in_transaction_session_timeout"):
            shown = connection.execute(text(f"SHOW {name}")).scalar()
            assert shown == database.SESSION[name]
