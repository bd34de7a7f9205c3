"""The indexes and triggers without which the product does not do its work on these tables."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from sqlalchemy import Connection

from app import database
from app.adoption import columns
from app.adoption.obstacle import Obstacle
from app.store import adoptable, catalogue
from app.store.adoptable import Behind, Index, Relation
from app.store.catalogue import Kind, Object

CLAIM = "ix_appointments_pending_expires_at"
ONE_ACTIVE = "ux_appointments_one_active_per_slot"
SLOT = "ix_appointments_active_slot_id"
"""In the place of the unique one, which an adopter's rows may break."""
REMINDERS = "ix_event_reminders_calendar_event_id"
FORGETS = ("forget_expiry_failure_on_update", "forget_expiry_failure_on_delete")

_INDEXES = {
    CLAIM: ("pending_expires_at", "id"),
    SLOT: ("slot_id",),
    REMINDERS: ("calendar_event_id",),
}
"""With what each one's keys begin."""
_MADE_BY_US = f"""
CREATE INDEX {SLOT} ON appointments (slot_id) WHERE status IN ('Pending', 'Confirmed');
"""
_OBJECTS = {
    one.name: one
    for one in (*catalogue.OBJECTS, *catalogue.objects(Kind.INDEX, _MADE_BY_US))
    if one.name in {*_INDEXES, *FORGETS}
}


@dataclass(frozen=True, slots=True)
class Step:
    """A statement that makes what is missing, in the adopter's own names."""

    lacks: str
    sql: str
    beside_traffic: bool = False
    """It keeps nobody from writing, takes its time, and stands outside any transaction."""


@dataclass(frozen=True, slots=True)
class Theirs:
    """One of an adopter's tables, `name` by our name, with what it has already."""

    schema: str
    name: str
    behind: Behind
    indexes: tuple[Index, ...]
    triggers: dict[str, bool]

    def written(self, one: Object) -> str:
        """The statement that makes it, in the names of the table behind."""
        words = "|".join(columns.WANTED[self.name])
        own = self.behind.columns
        return self.behind.name.join(
            database.in_schema(
                re.sub(rf"\b({words})\b", lambda word: own[word[1]], part), self.schema
            )
            for part in one.makes.split(f"{database.SCHEMA}.{one.table}", 1)
        )

    def led_by(self, *keys: str) -> bool:
        """Whether an index of all its rows begins with these columns."""
        own = tuple(self.behind.columns[key] for key in keys)
        return any(
            one.valid and one.predicate is None and one.keys[: len(own)] == own
            for one in self.indexes
        )

    def has(self, *names: str) -> bool:
        """Whether an index of one of these names is at work."""
        return any(one.valid and one.name in names for one in self.indexes)


def theirs(connection: Connection, relation: Relation, behind: Behind, schema: str) -> Theirs:
    """Look at it."""
    return Theirs(
        schema,
        relation.name,
        behind,
        tuple(adoptable.indexes(connection, behind)),
        adoptable.triggers(connection, behind),
    )


def obstacles(connection: Connection, table: Theirs) -> Iterator[Obstacle]:
    """What only the adopter can mend."""
    where, behind = f"{table.schema}.{table.name}", table.behind
    if not table.led_by("id"):
        yield Obstacle(
            f"No index of {where} begins with its id: each look at a row reads them all.",
            f"`CREATE UNIQUE INDEX CONCURRENTLY ON {behind.name} ({behind.columns['id']})`",
        )
    if behind.partitioned:
        for step in _indexes(table):
            yield Obstacle(
                f"{where} is partitioned and lacks an index, which PostgreSQL does not build"
                " CONCURRENTLY there.",
                f"`{step.sql.replace(' CONCURRENTLY', '')}`, on each partition first.",
            )
    if table.has(CLAIM) and not adoptable.goes_by_an_index(connection):
        yield Obstacle(
            f"The index {CLAIM} does not serve the claim (D3): its keys or its condition are"
            " others.",
            f"`ALTER INDEX {_beside(table, CLAIM)} RENAME TO {CLAIM}_old`, then"
            " `python -m app migrate --adopt`",
        )
    for trigger in FORGETS:
        if table.triggers.get(trigger) is False:
            yield Obstacle(
                f"The trigger {trigger} of {where} is switched off (C4).",
                f"`ALTER TABLE {behind.name} ENABLE TRIGGER {trigger}`",
            )


def steps(table: Theirs) -> Iterator[Step]:
    """What adoption makes."""
    where = f"{table.schema}.{table.name}"
    if not table.behind.partitioned:
        yield from _indexes(table)
    for trigger in FORGETS:
        if _OBJECTS[trigger].table == table.name and trigger not in table.triggers:
            lacks = f"{where} lacks the trigger {trigger} (C4)"
            yield Step(lacks, table.written(_OBJECTS[trigger]))


def _indexes(table: Theirs) -> Iterator[Step]:
    for name, keys in _INDEXES.items():
        if _OBJECTS[name].table != table.name or table.has(name):
            continue
        if (name == SLOT and table.has(ONE_ACTIVE)) or (name != CLAIM and table.led_by(*keys)):
            continue
        lacks = f"{table.schema}.{table.name} lacks the index {name}"
        if any(one.name == name for one in table.indexes):  # an attempt that failed half-way
            lacks = f"the index {name} of {table.schema}.{table.name} is invalid"
            yield Step(lacks, f"DROP INDEX CONCURRENTLY {_beside(table, name)}", True)
        made = table.written(_OBJECTS[name])
        yield Step(lacks, made.replace("INDEX", "INDEX CONCURRENTLY", 1), True)


def _beside(table: Theirs, index: str) -> str:
    """An index is in its table's schema."""
    return f"{table.behind.schema}.{index}"
