"""`why`: one test per reason, with real locks of real connections."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import Connection, Engine, text

from app import database, migrations, operations
from app.cli.why import NOTHING, words
from app.store import brake, claims
from app.why import Answer, Verdict, WhyOptions, diagnose
from dev.servers.postgres import Postgres
from tests.audit.lawful import LawfulWorld
from tests.conftest import engine_for
from tests.gate import gate
from tests.neighbour import Neighbour, holding
from tests.world import HOUR, MINUTE, Made, World

OPTIONS = WhyOptions()
PAIR = 2


def ask(world: World, appointment_id: Any, options: WhyOptions = OPTIONS) -> tuple[Answer, str]:
    """The answer and its words; asking changes nothing."""
    tables = ("appointments", "availability_slots", "calendar_events", "event_reminders")
    looks = [f"SELECT * FROM calendar.{table} ORDER BY 1" for table in tables]
    before = [world.all(look) for look in looks]
    answer = diagnose(world.engine, appointment_id, options)
    assert [world.all(look) for look in looks] == before
    assert no_lock_is_left(world)
    reason, remedy = words(answer, options)
    return answer, "\n".join([*reason, remedy])


def no_lock_is_left(world: World) -> bool:
    """None of ours: a cycle right afterwards finds everything free."""
    idle = """SELECT FROM pg_stat_activity WHERE datname = current_database()
        AND application_name = 'calendar' AND state LIKE 'idle in transaction%'"""
    return world.all(idle) == []


def strangers(engine: Engine) -> Engine:
    """Somebody else's connections to the same database."""
    return database.engine(engine.url.set(query={"application_name": "crm"}), 12)


@pytest.fixture
def stranger(engine: Engine) -> Iterator[Engine]:
    made = strangers(engine)
    yield made
    made.dispose()


def pid(connection: Connection) -> int:
    return int(connection.execute(text("SELECT pg_backend_pid()")).scalar_one())


def successful_cycle(world: World, ago: timedelta = MINUTE / 2) -> None:
    world.execute(
        """INSERT INTO calendar.job_runs (run_id, job, as_of, started_at, finished_at, outcome)
        VALUES (gen_random_uuid(), 'appointment_timeout', :at, :at, :at, 'completed')""",
        at=world.now() - ago,
    )


def test_no_such_appointment(world: World) -> None:
    answer, said = ask(world, uuid4())
    assert answer.verdict is Verdict.MISSING
    assert "no such appointment" in said


def test_not_due_says_when_and_in_how_long(world: World) -> None:
    made = world.appointment(expires_in=90 * MINUTE)
    answer, said = ask(world, made.appointment)
    assert answer.verdict is Verdict.NOT_DUE
    due = world.one("SELECT pending_expires_at AS at FROM calendar.appointments")["at"]
    assert f"until {due:%Y-%m-%d %H:%M:%S} UTC, for 1 h 29 min" in said
    assert said.endswith(NOTHING)


def test_c1_at_the_very_deadline_it_is_not_due(world: World) -> None:
    made = world.appointment()
    with world.engine.begin() as connection:
        connection.execute(text("UPDATE calendar.appointments SET pending_expires_at = 'infinity'"))
    assert ask(world, made.appointment)[0].verdict is Verdict.NOT_DUE


@pytest.mark.parametrize(
    ("auto_confirm", "because"),
    [(True, "its slot is auto-confirmed"), (False, "only auto-confirmed appointments may")],
)
def test_d1_pending_without_a_deadline_never_expires(
    world: World, auto_confirm: object, because: str
) -> None:
    made = world.appointment(expires_in=None)
    world.execute("UPDATE calendar.availability_slots SET auto_confirm = :on", on=auto_confirm)
    answer, said = ask(world, made.appointment)
    assert answer.verdict is Verdict.NO_DEADLINE
    assert "never expires" in said
    assert because in said


def test_confirmed_in_time_and_by_itself(lawful: LawfulWorld) -> None:
    for name, how in (("confirmed", "in time"), ("auto", "by itself (auto-confirm)")):
        answer, said = ask(lawful, lawful.names[name].id)
        assert answer.verdict is Verdict.CONFIRMED
        assert f"It was confirmed {how}, since " in said


def test_a_status_that_the_law_does_not_know(lawful: LawfulWorld) -> None:
    lawful.plant(
        "ALTER TABLE calendar.appointments DROP CONSTRAINT appointment_status_known",
        "UPDATE calendar.appointments SET status = 'NoShow' WHERE id = :a",
        **lawful.ids("pending"),
    )
    answer, said = ask(lawful, lawful.names["pending"].id)
    assert answer.verdict is Verdict.UNKNOWN_STATUS
    assert said.startswith("It is NoShow, since ")


def test_expired_says_since_when_by_which_run_and_where_its_messages_are(
    world: World, stranger: Engine
) -> None:
    made, other = world.appointment(), world.appointment(expires_in=MINUTE)
    report = world.run("the-run")
    with holding(stranger, PARTS["slot"], **ids(other)):
        answer, said = ask(world, made.appointment)
    assert answer.verdict is Verdict.ENDED
    assert f"It is Expired since {report.as_of:%Y-%m-%d %H:%M:%S} UTC" in said
    assert "by run the-run." in said
    assert said.count("waiting for the publisher since ") == PAIR
    world.execute("UPDATE calendar.outbox_messages SET published_at = now()")
    assert ask(world, made.appointment)[1].count(": published 20") == PAIR


@pytest.mark.parametrize("name", ["declined", "by_investor", "by_agent"])
def test_declined_and_cancelled_say_the_same(lawful: LawfulWorld, name: str) -> None:
    answer, said = ask(lawful, lawful.names[name].id)
    assert answer.verdict is Verdict.ENDED
    assert len(answer.messages) == PAIR
    assert ", by operation " in said
    assert said.endswith(NOTHING)


def test_a_version_that_went_on_does_not_lose_the_messages(lawful: LawfulWorld) -> None:
    lawful.plant(
        "UPDATE calendar.appointments SET version = version + 7 WHERE id = :a",
        "UPDATE calendar.calendar_events SET version = version + 3 WHERE id = :e",
        **lawful.ids("expired"),
    )
    assert len(ask(lawful, lawful.names["expired"].id)[0].messages) == PAIR


def test_messages_set_aside_discarded_and_being_tried_say_their_error(lawful: LawfulWorld) -> None:
    states = {
        "set_aside_at = now()": "set aside 20",
        "discarded_at = now()": "discarded by a person",
        "attempts = 1": "refused so far: TOO_BIG",
    }
    for name, (state, words_) in zip(("expired", "late", "declined"), states.items(), strict=True):
        lawful.plant(
            f"""UPDATE calendar.outbox_messages
            SET published_at = NULL, last_error = 'TOO_BIG', {state}
            WHERE payload ->> 'AppointmentId' = :a_text AND topic LIKE '%cancelled%'""",
            **lawful.ids(name),
        )
        said = ask(lawful, lawful.names[name].id)[1]
        assert words_ in said
        assert "TOO_BIG" in said
        assert ("outbox requeue" in said) is ("set aside" in words_)


def test_a_message_in_a_publishers_hands_is_being_published(lawful: LawfulWorld) -> None:
    lawful.execute("UPDATE calendar.outbox_messages SET published_at = NULL")
    publisher = strangers(lawful.engine)
    with holding(publisher, "SELECT FROM calendar.outbox_messages FOR NO KEY UPDATE"):
        said = ask(lawful, lawful.names["expired"].id)[1]
    publisher.dispose()
    assert said.count("being published right now") == PAIR


def test_messages_that_are_gone_are_past_retention_or_missing(lawful: LawfulWorld) -> None:
    said = ask(lawful, lawful.names["ancient"].id)[1]
    assert "published messages leave the outbox" in said
    lawful.plant(
        "DELETE FROM calendar.outbox_messages WHERE payload ->> 'AppointmentId' = :a_text",
        **lawful.ids("expired"),
    )
    assert "app verify" in ask(lawful, lawful.names["expired"].id)[1]


PARTS = {
    "appointment": "SELECT FROM calendar.appointments WHERE id = :appointment FOR UPDATE",
    "slot": "SELECT FROM calendar.availability_slots WHERE id = :slot FOR NO KEY UPDATE",
    "event": "UPDATE calendar.calendar_events SET version = version WHERE id = :event",
    "reminder": """UPDATE calendar.event_reminders SET remind_at = now()
        WHERE calendar_event_id = :event AND status = 'Pending'""",
}


def ids(made: Made) -> dict[str, Any]:
    return {name: getattr(made, name) for name in ("appointment", "slot", "event")}


@pytest.mark.parametrize("part", PARTS)
def test_locked_says_which_part_by_whom_since_when_and_doing_what(
    world: World, stranger: Engine, part: str
) -> None:
    made = world.appointment(reminders=("Pending", "Sent"))
    with holding(stranger, PARTS[part], **ids(made)) as connection:
        holder = pid(connection)
        connection.execute(text("SELECT 'secret' /* of a person */"))
        answer, said = ask(world, made.appointment)
        assert answer.verdict is Verdict.LOCKED
        [held] = answer.holders
        assert (held.part, held.pid, held.application) == (part, holder, "crm")
        assert (held.state, held.doing) == ("idle in transaction", "SELECT")
        assert held.since is not None
        assert f"the {part} by backend {holder} (crm), in a transaction since" in said
        assert f"pg_terminate_backend({holder})" in said
        assert "secret" not in said


def test_locked_by_one_for_each_part(world: World, stranger: Engine) -> None:
    made = world.appointment()
    with (
        holding(stranger, PARTS["appointment"], **ids(made)) as first,
        holding(stranger, PARTS["event"], **ids(made)) as second,
    ):
        answer, said = ask(world, made.appointment)
        found = {(holder.part, holder.pid) for holder in answer.holders}
        assert found == {("appointment", pid(first)), ("event", pid(second))}
        assert "Several transactions have a part in it." in said


def test_locked_by_several_transactions_that_share_a_lock(world: World, stranger: Engine) -> None:
    """A multixact; who only holds a child's key share is no obstacle and not named."""
    made = world.appointment()
    share = "SELECT FROM calendar.availability_slots WHERE id = :slot FOR {}"
    with (
        holding(stranger, share.format("KEY SHARE"), **ids(made)),
        holding(stranger, share.format("SHARE"), **ids(made)) as first,
        holding(stranger, share.format("SHARE"), **ids(made)) as second,
    ):
        answer, said = ask(world, made.appointment)
        assert answer.verdict is Verdict.LOCKED
        found = {(holder.part, holder.pid) for holder in answer.holders}
        assert found == {("slot", pid(first)), ("slot", pid(second))}
        assert "Several transactions have a part in it." in said


def test_locked_within_a_savepoint(world: World, stranger: Engine) -> None:
    """The row names the subtransaction."""
    made = world.appointment()
    with holding(stranger, "SAVEPOINT one", PARTS["slot"], **ids(made)) as connection:
        [held] = ask(world, made.appointment)[0].holders
        assert held.pid == pid(connection)


def test_locked_by_an_insert_of_a_reminder(world: World, stranger: Engine) -> None:
    made = world.appointment()
    insert = """INSERT INTO calendar.event_reminders (calendar_event_id, remind_at)
        VALUES (:event, now())"""
    with holding(stranger, insert, **ids(made)):
        answer, _ = ask(world, made.appointment)
    assert [(holder.part, holder.doing) for holder in answer.holders] == [("event", "INSERT")]


def test_a_key_share_alone_locks_nothing(world: World, stranger: Engine) -> None:
    made = world.appointment()
    share = "SELECT FROM calendar.availability_slots WHERE id = :slot FOR KEY SHARE"
    successful_cycle(world)
    with holding(stranger, share, **ids(made)):
        assert ask(world, made.appointment)[0].verdict is Verdict.NEXT_CYCLE


@pytest.mark.parametrize("mode", ["ACCESS EXCLUSIVE", "EXCLUSIVE"])
def test_locked_with_its_whole_table(world: World, stranger: Engine, mode: str) -> None:
    made = world.appointment()
    with holding(stranger, f"LOCK TABLE calendar.appointments IN {mode} MODE") as connection:
        answer = diagnose(world.engine, made.appointment, OPTIONS)
        said = "\n".join(words(answer, OPTIONS)[0])
        assert answer.verdict is Verdict.LOCKED
        assert f"the table appointments by backend {pid(connection)} (crm)" in said
        assert "locked as a whole" in said


def test_what_a_role_may_not_see_is_said_to_be_hidden(world: World, stranger: Engine) -> None:
    made = world.appointment()
    world.execute("CREATE ROLE watcher")
    try:
        world.execute("GRANT USAGE ON SCHEMA calendar TO watcher")
        world.execute("GRANT ALL ON ALL TABLES IN SCHEMA calendar TO watcher")
        url = world.engine.url.update_query_dict({"options": "-c role=watcher"})
        watching = World(database.engine(url, 3))
        with holding(stranger, PARTS["slot"], **ids(made)) as connection:
            answer = diagnose(watching.engine, made.appointment, OPTIONS)
            said = "\n".join(words(answer, OPTIONS)[0])
            assert f"by backend {pid(connection)}" in said
            assert "pg_read_all_stats" in said
        watching.engine.dispose()
    finally:
        world.execute("DROP OWNED BY watcher")
        world.execute("DROP ROLE watcher")


def test_worked_by_a_cycle_right_now(world: World) -> None:
    made = world.appointment()
    with gate(world.engine, "EXECUTE save_ending") as before_the_write:
        cycle = Neighbour(lambda: world.run("going-on"))
        before_the_write.wait_reached()
        answer = diagnose(world.engine, made.appointment, OPTIONS)
        before_the_write.release()
        assert cycle.result().expired == 1
    said = "\n".join(words(answer, OPTIONS)[0])
    assert answer.verdict is Verdict.IN_HAND
    assert "The cycle going-on is at work." in said
    assert {holder.part for holder in answer.holders} >= {"appointment", "slot", "event"}


def test_a_rival_of_this_product_without_a_cycle_is_a_lock(world: World) -> None:
    made = world.appointment()
    with holding(world.engine, PARTS["slot"], **ids(made)) as connection:
        found = diagnose(world.engine, made.appointment, OPTIONS)
        assert found.verdict is Verdict.LOCKED
        assert found.holders[0].pid == pid(connection)


def test_c4_poison_says_which_rule_since_when_how_often_and_the_last_run(world: World) -> None:
    made = world.appointment(slot_status="Available")
    world.run("first")
    world.run("second")
    answer, said = ask(world, made.appointment)
    assert answer.verdict is Verdict.POISON
    kept = world.failures()[made.appointment]
    assert "It cannot expire: slot: found Available, wanted Booked." in said
    assert f"failed 2 times since {kept['first_failed_at']:%Y-%m-%d %H:%M:%S} UTC" in said
    assert "in run second" in said
    assert "Mend the data" in said


def test_c4_poison_that_no_cycle_has_met_yet(world: World) -> None:
    made = world.appointment(event_status="Completed")
    answer, said = ask(world, made.appointment)
    assert answer.verdict is Verdict.POISON
    assert "It cannot expire: event: found Completed, wanted Scheduled." in said
    assert "No cycle has tried it yet." in said


def test_c4_poison_of_the_database_says_its_sqlstate(world: World) -> None:
    made = world.appointment()
    world.execute(
        """INSERT INTO calendar.expiry_failures
            (appointment_id, rule, sqlstate, first_failed_at, last_failed_at, attempts, last_run_id)
        VALUES (:id, 'CheckViolation: some_rule', '23514', now(), now(), 3, 'run')""",
        id=made.appointment,
    )
    answer, said = ask(world, made.appointment)
    assert answer.verdict is Verdict.POISON
    assert "It cannot expire: CheckViolation: some_rule (SQLSTATE 23514)." in said


def test_poison_whose_data_is_mended_is_the_next_cycles(world: World) -> None:
    made = world.appointment(slot_status="Available")
    world.run()
    world.execute("UPDATE calendar.availability_slots SET status = 'Booked'")
    answer, said = ask(world, made.appointment)
    assert answer.verdict is Verdict.NEXT_CYCLE
    assert "It failed 1 time since" in said
    assert "The law objects to nothing any more." in said


def test_the_brake_says_who_pulled_it_and_why(world: World) -> None:
    made = world.appointment()
    with world.engine.begin() as connection:
        brake.pull(connection, "a bad import", "anna")
    answer, said = ask(world, made.appointment)
    assert answer.verdict is Verdict.PAUSED
    assert "by anna: a bad import." in said
    assert "`python -m app resume`" in said


@pytest.mark.parametrize("last", [None, 3 * MINUTE])
def test_no_cycle_succeeds_says_when_the_last_one_did_and_what_to_check(
    world: World, last: timedelta | None
) -> None:
    made = world.appointment(expires_in=-HOUR)
    if last is not None:
        successful_cycle(world, last)
    answer, said = ask(world, made.appointment)
    assert answer.verdict is Verdict.NO_CYCLE
    assert ("none is kept" if last is None else "the last one ended 20") in said
    assert "beat and a worker" in said


def test_cycles_that_fail_are_no_success(world: World) -> None:
    made = world.appointment()
    successful_cycle(world)
    world.execute("UPDATE calendar.job_runs SET outcome = 'failed'")
    assert ask(world, made.appointment)[0].verdict is Verdict.NO_CYCLE


def test_the_next_cycle_takes_it(world: World) -> None:
    made = world.appointment()
    successful_cycle(world)
    answer, said = ask(world, made.appointment)
    assert answer.verdict is Verdict.NEXT_CYCLE
    assert "0 are due before it: it should be taken within 1 cycle, about 1 min 0 s." in said


def test_s3_a_backlog_before_it_is_counted_in_cycles(world: World) -> None:
    for minutes in (3, 4, 5):
        world.appointment(expires_in=-minutes * MINUTE)
    made = world.appointment(expires_in=-2 * MINUTE)
    world.appointment(expires_in=-MINUTE)
    successful_cycle(world)
    answer, said = ask(world, made.appointment, WhyOptions(batch_size=2))
    assert answer.verdict is Verdict.NEXT_CYCLE
    assert "3 are due before it: it should be taken within 2 cycles" in said


def test_a_lock_that_is_let_go_while_it_is_looked_up_is_tried_again(
    world: World, stranger: Engine
) -> None:
    """And meanwhile the parts that are free stay free."""
    made = world.appointment(event_status="Completed")
    with stranger.connect() as connection:
        connection.execute(text(PARTS["slot"]), ids(made))
        with gate(world.engine, "pg_locks") as before_the_look:
            asked = Neighbour(lambda: diagnose(world.engine, made.appointment, OPTIONS))
            before_the_look.wait_reached()
            connection.execute(text(PARTS["appointment"] + " NOWAIT"), ids(made))
            connection.rollback()
            before_the_look.release()
            answer = asked.result()
    assert answer.verdict is Verdict.POISON
    assert answer.objection == "event: found Completed, wanted Scheduled"


def test_a_reminder_that_was_sent_is_no_obstacle(world: World, stranger: Engine) -> None:
    made = world.appointment(reminders=("Sent",))
    successful_cycle(world)
    with holding(stranger, "SELECT FROM calendar.event_reminders FOR UPDATE"):
        assert ask(world, made.appointment)[0].verdict is Verdict.NEXT_CYCLE


def test_confirmed_while_it_is_asked_is_no_poison(world: World) -> None:
    made = world.appointment()
    successful_cycle(world)
    with gate(world.engine, "FOR NO KEY UPDATE SKIP LOCKED") as before_the_lock:
        asked = Neighbour(lambda: diagnose(world.engine, made.appointment, OPTIONS))
        before_the_lock.wait_reached()
        operations.confirm(world.engine, made.appointment, world.now())
        before_the_lock.release()
        assert asked.result().verdict is not Verdict.POISON


def test_asking_never_keeps_a_cycle_from_an_item_for_long(world: World) -> None:
    """Its locks are gone before the law is asked."""
    made = world.appointment()
    ask(world, made.appointment)
    with world.engine.begin() as connection:
        claims.CLAIM_ONE.prepare(connection)
        found = claims.claim(connection, claims.Wanted(world.now(), claims.START, made.appointment))
        assert found is not None
        assert found.held_part is None


def test_locked_by_a_prepared_transaction_which_has_no_backend(tmp_path: Path) -> None:
    """Two-phase commit: whoever forgot it holds its rows for ever."""
    prepares = {"max_prepared_transactions": "3"}
    with Postgres(tmp_path, durable=False, settings=prepares) as server:
        server.create_database("calendar")
        engine = engine_for(server, "calendar")
        migrations.apply(engine)
        world = World(engine)
        made = world.appointment()
        with engine.connect() as connection:
            connection.execute(text(PARTS["slot"]), ids(made))
            connection.execute(text("PREPARE TRANSACTION 'forgotten'"))
            connection.rollback()
        answer, said = ask(world, made.appointment)
        engine.dispose()
    assert answer.verdict is Verdict.LOCKED
    assert [holder.pid for holder in answer.holders] == [None]
    assert "the slot by the prepared transaction 'forgotten', since 20" in said
    assert "ROLLBACK PREPARED" in said
