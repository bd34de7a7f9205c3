"""Errors inside a cycle: one item's, everybody's, and what each is told as (C4, C5, S4, D5)."""

import threading

import pytest
from sqlalchemy import Engine, text

from app import database, facts
from app.store.failures import Failure
from app.store.runs import Outcome
from dev.servers.postgres import Postgres
from tests.gate import gate
from tests.neighbour import Neighbour, holding
from tests.world import HOUR, MINUTE, World

CHECK = """ALTER TABLE calendar.calendar_events ADD CONSTRAINT odd_event_stays
    CHECK (cancel_reason IS NULL OR id <> '{event}')"""
SLOW = """
CREATE FUNCTION calendar.slow() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.id = '{slot}' THEN PERFORM pg_sleep(60); END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER slow BEFORE UPDATE ON calendar.availability_slots
    FOR EACH ROW EXECUTE FUNCTION calendar.slow();
"""


def test_c4_three_true_causes_cost_three_items_of_ten(world: World, engine: Engine) -> None:
    """Error isolation: a database constraint, a rule of the law, a statement timeout."""
    made = [world.appointment(expires_in=-(20 - n) * MINUTE) for n in range(10)]
    before = {n: world.state(made[n]) for n in (3, 6, 8)}
    world.execute(CHECK.format(event=made[3].event))
    world.execute(
        "UPDATE calendar.availability_slots SET status = 'Available' WHERE id = :id",
        id=made[6].slot,
    )
    before[6] = world.state(made[6])
    world.execute(SLOW.format(slot=made[8].slot))
    heard: list[facts.Fact] = []
    with short_statements(engine):
        report = world.run(tell=heard.append)
    assert (report.outcome, report.expired, report.failed) == (Outcome.COMPLETED, 7, 3)
    causes = {f.appointment_id: f.failure for f in heard if isinstance(f, facts.ItemFailed)}
    assert causes == {
        made[3].appointment: Failure("CheckViolation: odd_event_stays", "23514"),
        made[6].appointment: Failure("slot: found Available, wanted Booked"),
        made[8].appointment: Failure("QueryCanceled", "57014"),
    }
    assert {n: world.state(made[n]) for n in before} == before
    kept = world.failures()
    assert {(row["rule"], row["sqlstate"]) for row in kept.values()} == {
        (failure.rule, failure.sqlstate) for failure in causes.values()
    }
    world.execute("DROP TRIGGER slow ON calendar.availability_slots")
    assert world.run().expired == 1


class short_statements:  # noqa: N801 - reads as a block
    """New connections get a statement timeout that a test can wait for."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def __enter__(self) -> None:
        self._set("SET statement_timeout = '1s'")

    def __exit__(self, *_error: object) -> None:
        self._set("RESET statement_timeout")

    def _set(self, sql: str) -> None:
        connections = [self.engine.connect() for _ in range(6)]
        for connection in connections:
            connection.execute(text(sql))
            connection.commit()
        for connection in connections:
            connection.close()


ODD = {
    "no start": """ALTER TABLE calendar.availability_slots ALTER start_at DROP NOT NULL;
        UPDATE calendar.availability_slots SET start_at = NULL""",
    "a start before the calendar": """UPDATE calendar.availability_slots
        SET start_at = '0044-03-15 BC', end_at = 'infinity'""",
    "a lead time of millennia": """UPDATE calendar.availability_slots
        SET min_lead_time_minutes = 2147483647""",
    "the last version": "UPDATE calendar.appointments SET version = 2147483647",
    "no slot": """ALTER TABLE calendar.appointments ALTER slot_id DROP NOT NULL;
        UPDATE calendar.appointments SET slot_id = NULL""",
    "an event that is gone": """ALTER TABLE calendar.appointments
            DROP CONSTRAINT appointments_calendar_event_id_fkey;
        UPDATE calendar.appointments SET calendar_event_id = gen_random_uuid()""",
    "an unknown event status": """ALTER TABLE calendar.calendar_events
            DROP CONSTRAINT event_status_known;
        UPDATE calendar.calendar_events SET status = 'Neverheard'""",
    "an empty slot status": """ALTER TABLE calendar.availability_slots
            DROP CONSTRAINT slot_status_known;
        UPDATE calendar.availability_slots SET status = ''""",
}


@pytest.mark.parametrize("odd", ODD)
def test_c4_an_odd_row_is_poison_and_stops_nobody(world: World, odd: str) -> None:
    poison = world.appointment(expires_in=-HOUR)
    for statement in ODD[odd].split(";"):
        world.execute(statement)
    healthy = world.appointment()
    before = world.state(poison)
    report = world.run()
    assert (report.outcome, report.expired, report.failed) == (Outcome.COMPLETED, 1, 1)
    assert world.status(healthy) == "Expired"
    assert world.state(poison) == before
    assert list(world.failures()) == [poison.appointment]


def test_c1_a_deadline_before_the_calendar_expires_within_two_cycles(world: World) -> None:
    made = [world.appointment() for _ in range(3)]
    world.execute(
        "UPDATE calendar.appointments SET pending_expires_at = '-infinity' WHERE id = :id",
        id=made[0].appointment,
    )
    world.execute(
        "UPDATE calendar.appointments SET pending_expires_at = '0044-03-15 BC' WHERE id = :id",
        id=made[1].appointment,
    )
    assert world.run(connections=1).expired + world.run(connections=1).expired == 3


def test_c4_two_active_appointments_on_one_slot_are_both_poison(world: World) -> None:
    world.execute("DROP INDEX calendar.ux_appointments_one_active_per_slot")
    first = world.appointment()
    world.appointment(slot=first.slot, status="Confirmed", expires_in=None)
    report = world.run()
    assert (report.expired, report.failed) == (0, 1)
    assert "another active appointment" in world.failures()[first.appointment]["rule"]


def test_c4_the_kept_failure_tells_since_when_and_how_often(world: World) -> None:
    poison = world.appointment(slot_status="Available")
    first, second = world.run(), world.run()
    kept = world.failures()[poison.appointment]
    assert (kept["first_failed_at"], kept["last_failed_at"]) == (first.as_of, second.as_of)
    assert (kept["attempts"], kept["last_run_id"]) == (2, second.run_id)


def test_c4_a_failure_is_gone_when_its_appointment_leaves_pending(world: World) -> None:
    poison = [world.appointment(slot_status="Available") for _ in range(2)]
    world.run()
    world.execute(
        "UPDATE calendar.appointments SET status = 'Confirmed' WHERE id = :id",
        id=poison[0].appointment,
    )
    assert list(world.failures()) == [poison[1].appointment]
    world.execute("DELETE FROM calendar.appointments")
    assert not world.failures()


def test_c4_a_kept_row_in_other_hands_costs_its_item_only(world: World, engine: Engine) -> None:
    poison = world.appointment(slot_status="Available")
    world.run()
    healthy = world.appointment()
    with holding(engine, "SELECT FROM calendar.expiry_failures FOR UPDATE"):
        report = world.run()
    assert (report.outcome, report.expired, report.failed) == (Outcome.COMPLETED, 1, 1)
    assert report.skipped_locked == 0
    assert world.status(healthy) == "Expired"
    assert world.failures()[poison.appointment]["attempts"] == 1


def test_c5_a_lost_connection_ends_the_cycle_as_failed_and_the_next_one_retries(
    world: World, engine: Engine
) -> None:
    made = [world.appointment() for _ in range(10)]
    with gate(engine, "EXECUTE save_ending") as in_an_item:
        cycle = Neighbour(lambda: world.run(connections=1))
        in_an_item.wait_reached()
        world.execute(
            """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE datname = current_database() AND state = 'idle in transaction'"""
        )
        in_an_item.release()
        report = cycle.result()
    assert (report.outcome, report.expired) == (Outcome.FAILED, 0)
    assert report.detail is not None
    assert "PostgreSQL cannot be reached" in report.detail
    assert [world.state(one)["messages"] for one in made] == [[]] * 10
    assert not world.failures()
    kept = world.one("SELECT outcome, detail FROM calendar.job_runs")
    assert kept == {"outcome": "failed", "detail": report.detail}
    assert world.run().expired == 10


def test_c5_one_lost_connection_of_four_lets_the_others_finish_what_they_hold(
    world: World, engine: Engine
) -> None:
    made = [world.appointment() for _ in range(40)]
    with gate(engine, "EXECUTE save_ending", times=4) as in_four_items:
        cycle = Neighbour(lambda: world.run(connections=4))
        for _ in range(4):
            in_four_items.wait_reached()
        world.execute(
            """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE datname = current_database() AND state = 'idle in transaction' LIMIT 1"""
        )
        in_four_items.release()
        report = cycle.result()
    assert report.outcome is Outcome.FAILED
    expired = [one for one in made if world.status(one) == "Expired"]
    assert len(expired) == report.expired
    assert 3 <= len(expired) < 40
    assert len(world.messages()) == 2 * len(expired)
    assert world.run().expired == 40 - len(expired)


def test_c5_the_server_restarts_between_two_cycles(world: World, postgres: Postgres) -> None:
    """Reconnect: the first cycle after it works, without a restart of ours."""
    world.appointment()
    assert world.run().expired == 1
    world.appointment()
    postgres.restart("immediate")
    report = world.run()
    assert (report.outcome, report.expired) == (Outcome.COMPLETED, 1)


def test_c5_while_the_server_is_down_a_cycle_fails_fast_with_one_clear_line(
    world: World, postgres: Postgres
) -> None:
    made = world.appointment()
    heard: list[facts.Fact] = []
    postgres.stop()
    try:
        report = world.run(tell=heard.append)
    finally:
        postgres.start()
    assert report.outcome is Outcome.FAILED
    assert [type(fact) for fact in heard] == [facts.CycleEnded]
    assert report.detail is not None
    assert report.detail.startswith("PostgreSQL cannot be reached")
    assert world.run().expired == 1
    assert world.status(made) == "Expired"


def test_c5_without_a_connection_for_every_lane_the_cycle_is_slower_not_failed(
    world: World, engine: Engine
) -> None:
    """Connections exhausted: the role may have two more, and four lanes are asked for."""
    for _ in range(8):
        world.appointment()
    engine.dispose()
    name = str(engine.url.database)
    world.execute(f"CREATE ROLE {name} LOGIN CONNECTION LIMIT 2")
    world.execute(f"GRANT ALL ON SCHEMA calendar TO {name}")
    world.execute(f"GRANT ALL ON ALL TABLES IN SCHEMA calendar TO {name}")
    narrow = World(database.engine(engine.url.set(username=name), 8))
    report = narrow.run(connections=4)
    narrow.engine.dispose()
    assert (report.outcome, report.expired) == (Outcome.COMPLETED, 8)
    assert "fewer lanes than asked for" in str(report.detail)
    world.execute(f"DROP OWNED BY {name}")
    world.execute(f"DROP ROLE {name}")


def test_s4_at_its_time_limit_a_cycle_takes_no_further_item(world: World, engine: Engine) -> None:
    for _ in range(10):
        world.appointment()
    patience = threading.Event()
    with gate(engine, "EXECUTE save_ending") as in_the_first_item:
        cycle = Neighbour(lambda: world.run(connections=1, max_duration_seconds=0.2))
        in_the_first_item.wait_reached()
        patience.wait(0.3)
        in_the_first_item.release()
        report = cycle.result()
    assert (report.outcome, report.expired) == (Outcome.CUT_SHORT, 1)
    assert world.run().expired == 9


def test_a_slow_neighbour_costs_an_item_seconds_and_the_rest_goes_on(
    world: World, engine: Engine
) -> None:
    """Missing timeouts: somebody holds what only the write needs, and never lets go."""
    stuck = world.appointment(expires_in=-HOUR)
    healthy = world.appointment()
    world.execute(
        """CREATE TABLE calendar.ledger (id int PRIMARY KEY);
        INSERT INTO calendar.ledger VALUES (1);
        CREATE FUNCTION calendar.book_keeping() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN UPDATE calendar.ledger SET id = 1; RETURN NEW; END $$"""
    )
    world.execute(
        f"""CREATE TRIGGER book_keeping BEFORE UPDATE ON calendar.availability_slots
        FOR EACH ROW WHEN (OLD.id = '{stuck.slot}') EXECUTE FUNCTION calendar.book_keeping()"""
    )
    with holding(engine, "SELECT FROM calendar.ledger FOR UPDATE"):
        report = world.run()
    assert (report.outcome, report.expired, report.failed) == (Outcome.COMPLETED, 1, 1)
    assert world.status(healthy) == "Expired"
    assert world.failures()[stuck.appointment]["sqlstate"] == "55P03"


def test_r2_c4_a_write_that_does_not_reach_every_row_fails_with_its_commit(
    world: World, engine: Engine
) -> None:
    """The locks keep rivals away; but a trigger of the database's owner can swallow an update."""
    swallowed = world.appointment(expires_in=-HOUR)
    healthy = world.appointment()
    world.execute(
        """CREATE FUNCTION calendar.swallow() RETURNS trigger LANGUAGE plpgsql
        AS 'BEGIN RETURN NULL; END'"""
    )
    world.execute(
        f"""CREATE TRIGGER swallow BEFORE UPDATE ON calendar.availability_slots
        FOR EACH ROW WHEN (OLD.id = '{swallowed.slot}') EXECUTE FUNCTION calendar.swallow()"""
    )
    before = world.state(swallowed)
    report = world.run(connections=1)
    assert (report.outcome, report.expired, report.failed) == (Outcome.COMPLETED, 1, 1)
    assert world.state(swallowed) == before
    assert world.status(healthy) == "Expired"
    assert world.failures()[swallowed.appointment]["rule"] == "VersionConflictError"


def test_every_connection_bounds_its_waits(engine: Engine) -> None:
    with engine.connect() as connection:
        shown = {
            name: connection.execute(text(f"SHOW {name}")).scalar()
            for name in ("lock_timeout", "statement_timeout", "idle_in_transaction_session_timeout")
        }
    assert shown == {
        "lock_timeout": "2s",
        "statement_timeout": "10s",
        "idle_in_transaction_session_timeout": "20s",
    }
