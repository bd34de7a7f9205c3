"""The database on which schedules are played: actors with engines of their own, fresh rows each."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from uuid import uuid4

from sqlalchemy import Engine, make_url

from app import database
from app.store import runs
from dev.servers.postgres import Postgres
from tests.interleaving.actor import Actor
from tests.interleaving.judge import Judge, Played
from tests.interleaving.roles import Role, Scene
from tests.interleaving.rows import Rows, look
from tests.interleaving.schedule import Choose, Schedule
from tests.interleaving.step import Step, visible
from tests.world import World

# A schedule stands still between steps for as long as it takes: no wait may end by its limit.
# (That every connection bounds its waits is tests/cycle/test_faults.py.) A deadlock shows soon.
PATIENT = "-c deadlock_timeout=100ms " + " ".join(
    f"-c {limit}=120s"
    for limit in ("lock_timeout", "statement_timeout", "idle_in_transaction_session_timeout")
)
TIDY_EVERY = 200
_TABLES = [
    "appointments",
    "event_reminders",
    "calendar_events",
    "availability_slots",
    "outbox_messages",
    "expiry_failures",
    "job_runs",
]
CLEAR = "; ".join(f"DELETE FROM calendar.{table}" for table in _TABLES)


class Stage:
    """A database with its actors; every schedule begins with one overdue appointment."""

    def __init__(self, server: Postgres, name: str, actors: int = 3) -> None:
        self._server, self._name = server, name
        changed = threading.Condition()
        self._engines = [self._engine(f"actor {number}") for number in range(actors)]
        self._actors = [Actor(str(n), engine, changed) for n, engine in enumerate(self._engines)]
        self.world = World(self._engine("stage hand"))
        self._eye = self._engine("eye").connect().execution_options(isolation_level="AUTOCOMMIT")
        for table in _TABLES:  # nothing but the actors may lock a row, not even for a moment
            self._eye.exec_driver_sql(
                f"ALTER TABLE calendar.{table} SET (autovacuum_enabled = off)"
            )
        self._scenes = 0

    def play(
        self,
        cast: Sequence[Role],
        choose: Choose,
        stops_before: Callable[[Step], bool] = visible,
    ) -> Played:
        """One schedule of these roles, judged; the first `len(cast)` actors take part."""
        scene = self._scene()
        actors = self._actors[: len(cast)]
        for actor, name in zip(actors, names(cast), strict=True):
            actor.name = name
        judge = Judge(dict(zip(actors, cast, strict=True)), scene, self.look, self.as_of)
        schedule = Schedule(actors, self._waiting)
        works = [
            lambda engine, role=role, me=actor.name: role.act(engine, scene, me)
            for actor, role in zip(actors, cast, strict=True)
        ]
        schedule.play(works, choose, judge.saw, stops_before)
        return judge.played(schedule.events)

    def look(self) -> Rows:
        """All that is committed."""
        return look(self._eye)

    def as_of(self, run_id: str) -> datetime:
        """The time at which this cycle judges."""
        kept = runs.one(self._eye, run_id)
        assert kept is not None
        assert kept.as_of is not None
        return kept.as_of

    def close(self) -> None:
        """End its connections and threads."""
        self._eye.close()
        for actor in self._actors:
            actor.leave()

    def _scene(self) -> Scene:
        self._eye.exec_driver_sql(CLEAR)
        self._scenes += 1
        if self._scenes % TIDY_EVERY == 0:
            for table in _TABLES:
                self._eye.exec_driver_sql(f"VACUUM calendar.{table}")
        made = self.world.appointment()
        return Scene(self._scenes, made, datetime.now(UTC), uuid4())

    def _waiting(self) -> set[int]:
        """Whoever waits for a lock: the lock table itself, since `pg_stat_activity` shows a wait
        until the one that was woken has run again."""
        found = self._eye.exec_driver_sql("SELECT pid FROM pg_locks WHERE NOT granted")
        return set(found.scalars())

    def _engine(self, who: str) -> Engine:
        url = make_url(self._server.url(self._name)).set(drivername="postgresql+psycopg2")
        return database.engine(
            url.update_query_dict({"application_name": who, "options": PATIENT}), 4
        )


def names(cast: Sequence[Role]) -> list[str]:
    """What the actors of a cast are called: a second one of a kind is another."""
    return [
        f"another {role.name}" if role in cast[:number] else role.name
        for number, role in enumerate(cast)
    ]


@contextmanager
def stage(server: Postgres, template: str, actors: int = 3) -> Iterator[Stage]:
    """A stage on a database of its own."""
    name = f"stage_{uuid4().hex[:12]}"
    server.create_database(name, template=template)
    made = Stage(server, name, actors)
    try:
        yield made
    finally:
        made.close()
        server.drop_database(name)
