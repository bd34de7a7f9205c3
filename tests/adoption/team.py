"""A team with appointments of its own, in its own names: what is there, before and afterwards."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import Engine, make_url, text

from app import database
from app.adoption import work
from app.adoption.columns import WANTED
from app.adoption.plan import Plan, plan
from dev.servers.database import autocommit
from dev.servers.postgres import Postgres
from tests.world import HOUR, MINUTE, World

HERE = Path(__file__).parent
_VIEW = re.compile(r"CREATE VIEW timeout\.(\w+) AS SELECT(.*?)FROM (.*?);", re.DOTALL)
_COLUMN = re.compile(r"(\S+) AS (\w+)")


@dataclass(frozen=True)
class Flavour:
    """How a team has called things: the schema that we are given, and its own tables."""

    name: str
    schema: str
    tables: Mapping[str, str]
    columns: Mapping[str, Mapping[str, str]]
    """Theirs by ours; one that is not listed is called the same, or is none of ours."""

    @property
    def sql(self) -> str:
        """What makes it."""
        return (HERE / f"{self.name}.sql").read_text()


def behind_views(name: str, schema: str) -> Flavour:
    """With the names that its views translate."""
    views = _VIEW.findall((HERE / f"{name}.sql").read_text())
    tables = {view: table for view, _columns, table in views}
    columns = {
        view: {ours: own for own, ours in _COLUMN.findall(columns)} for view, columns, _ in views
    }
    return Flavour(name, schema, tables, columns)


IN_PLACE = Flavour(
    "booking", "booking", {table: f"booking.{table}" for table in WANTED}, {t: {} for t in WANTED}
)
BEHIND_VIEWS = behind_views("viewings", "timeout")
FLAVOURS = (IN_PLACE, BEHIND_VIEWS)


@dataclass(frozen=True)
class Booked:
    """The ids of one appointment and of what hangs on it; None: it hangs on nothing."""

    appointment: UUID
    slot: UUID | None
    event: UUID | None


class Team:
    """Its database, in its own words and in ours."""

    def __init__(self, server: Postgres, name: str, flavour: Flavour) -> None:
        self.server, self.name, self.flavour = server, name, flavour
        self.run(f"ALTER DATABASE {name} SET search_path = booking, calendar")

    @property
    def url(self) -> str:
        """As its administrator."""
        return self.server.url(self.name)

    def engine(self, role: str = "postgres") -> Engine:
        """The product's, as `DATABASE_SCHEMA` makes it."""
        url = make_url(self.url).set(drivername="postgresql+psycopg2", username=role)
        return database.engine(url.update_query_dict({"schema": self.flavour.schema}), 12)

    def world(self) -> World:
        """The product's cycles; every `calendar.` in its statements is the team's schema."""
        return World(self.engine())

    def adopt(self, *, guarded: bool = False) -> list[str]:
        """What is done, statement by statement."""
        done: list[str] = []
        found = work.adopt(self.engine(), done.append, guarded=guarded)
        assert not found.obstacles, found.obstacles
        return done

    def look(self) -> Plan:
        """What adoption would do."""
        with self.engine().begin() as connection:
            return plan(connection)

    def mend(self, found: Plan) -> None:
        """Do what the remedies say, as far as they are statements."""
        for obstacle in found.obstacles:
            [statements, *_others] = re.findall(r"`([^`]+)`", obstacle.remedy)
            for statement in statements.split(";"):
                self.run(statement)

    def run(self, sql: str) -> list[tuple[Any, ...]]:
        """As the team's own database administrator; the last statement's rows."""
        with autocommit(self.url) as cursor:
            cursor.execute(sql)
            return cursor.fetchall() if cursor.description else []

    def insert(self, table: str, **values: object) -> None:
        """A row, by our names of the columns."""
        own = self.flavour.columns[table]
        names = ", ".join(own.get(name, name) for name in values).replace(":", "\\:")
        given = ", ".join(f":{name}" for name in values)
        sql = f"INSERT INTO {self.flavour.tables[table]} ({names}) VALUES ({given})"
        with self.engine().begin() as connection:
            connection.execute(text(sql), values, execution_options={"as_written": True})

    def book(
        self,
        *,
        expires_in: timedelta | None = -MINUTE,
        starts_in: timedelta = 48 * HOUR,
        status: str = "Pending",
        slot: UUID | None = None,
        slot_status: str = "Booked",
        event_status: str = "Scheduled",
    ) -> Booked:
        """An appointment with slot, event, and a pending and a sent reminder."""
        made = Booked(uuid4(), slot or uuid4(), uuid4())
        now = datetime.now(UTC)
        tenant, agent = uuid4(), uuid4()
        times = {"start_at": now + starts_in, "end_at": now + starts_in + HOUR}
        common = {"tenant_id": tenant, "updated_at": now - HOUR, "version": 1}
        if slot is None:
            self.insert(
                "availability_slots",
                id=made.slot,
                agent_id=agent,
                status=slot_status,
                min_lead_time_minutes=60,
                auto_confirm=False,
                office="north",
                **times,
                **common,
            )
        self.insert(
            "calendar_events",
            id=made.event,
            origin="Appointment",
            status=event_status,
            colour="red",
            **times,
            **common,
        )
        for reminder in ("Pending", "Sent"):
            self.insert(
                "event_reminders",
                id=uuid4(),
                calendar_event_id=made.event,
                status=reminder,
                remind_at=now,
                updated_at=now - HOUR,
                channel="sms",
            )
        self.insert(
            "appointments",
            id=made.appointment,
            slot_id=made.slot,
            calendar_event_id=made.event,
            investor_id=uuid4(),
            agent_id=agent,
            status=status,
            created_at=now - 23 * HOUR,
            pending_expires_at=None if expires_in is None else now + expires_in,
            note="by the window",
            **common,
        )
        return made

    def lose(self, made: Booked, table: str) -> None:
        """Delete a part that nothing keeps from being deleted."""
        key = {"availability_slots": made.slot, "calendar_events": made.event}[table]
        self.run(
            f"DELETE FROM {self.flavour.tables[table]}"
            f" WHERE {self.flavour.columns[table].get('id', 'id')} = '{key}'"
        )

    def rows(self) -> dict[str, dict[str, Any]]:
        """Every row of the four tables by id, each column under our name, or its own."""
        found = {}
        for table, own in self.flavour.columns.items():
            ours = {theirs.strip('"'): name for name, theirs in own.items()}
            for (row,) in self.run(f"SELECT to_jsonb(r) FROM {self.flavour.tables[table]} r"):
                named = {ours.get(name, name): value for name, value in row.items()}
                found[named["id"]] = named
        return found

    def status(self, made: Booked) -> str:
        """The appointment's."""
        return str(self.rows()[str(made.appointment)]["status"])

    def shape(self) -> str:
        """Everything of the database but its rows, to compare before and after."""
        return json.dumps(self.run(_SHAPE), default=str)


_SHAPE = """
    SELECT nspname, relname, relkind::text, attname, atttypid::regtype::text, attnotnull, NULL
    FROM pg_class r JOIN pg_namespace n ON n.oid = relnamespace
    JOIN pg_attribute ON attrelid = r.oid
    WHERE nspname NOT LIKE 'pg\\_%' AND nspname <> 'information_schema' AND attnum > 0
    UNION ALL SELECT '', conname, '', pg_get_constraintdef(oid), '', convalidated, NULL
    FROM pg_constraint WHERE conrelid <> 0
    UNION ALL SELECT '', tgname, '', pg_get_triggerdef(oid), '', tgenabled = 'O', NULL
    FROM pg_trigger WHERE NOT tgisinternal
    UNION ALL SELECT '', proname, '', prosrc, '', NULL, NULL FROM pg_proc
    JOIN pg_namespace n ON n.oid = pronamespace
    WHERE nspname NOT LIKE 'pg\\_%' AND nspname <> 'information_schema'
    ORDER BY 1, 2, 3, 4, 5
"""
