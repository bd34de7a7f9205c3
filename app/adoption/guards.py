"""What our own schema refuses and an adopter's does not: made only when it is asked for.

A guard refuses new rows of the adopter's application too, so it is his to want. A status that the
law does not know is refused by none of them. Tables behind views are guarded by their owner.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Connection

from app import database
from app.store import catalogue
from app.store import guards as store
from app.store.adoptable import Relation
from app.store.catalogue import ADOPTABLE, Kind, Object, State

_TARGETS = {
    "appointments_slot_id_fkey": "availability_slots",
    "appointments_calendar_event_id_fkey": "calendar_events",
    "event_reminders_calendar_event_id_fkey": "calendar_events",
    "no_pending_reminder_on_cancelled_event": "event_reminders",
}
"""The other table that a guard speaks of."""
_LATER = (Kind.REFERENCE, Kind.CONSTRAINT)
"""Kinds that refuse new rows first and are validated afterwards, beside live traffic."""


@dataclass(frozen=True, slots=True)
class Guard:
    """One that is not at work, in the schema of the adopter's tables."""

    schema: str
    made: Object
    state: State

    @property
    def named(self) -> str:
        """As people are told of it."""
        return f"{self.made.kind} {self.made.name} on {self.schema}.{self.made.table}"

    @property
    def first(self) -> str | None:
        """The statement that makes it, by a short lock on its tables; None: by none."""
        if self.state is not State.MISSING or self.made.kind is Kind.INDEX:
            return None
        return self._spelled(self.made.makes + (" NOT VALID" if self.made.kind in _LATER else ""))

    @property
    def then(self) -> tuple[str, ...]:
        """The statements beside live traffic, once no row breaks it."""
        if self.made.kind in _LATER:
            at = f"{self.schema}.{self.made.table}"
            return (f"ALTER TABLE {at} VALIDATE CONSTRAINT {self.made.name}",)
        if self.made.kind is not Kind.INDEX:
            return ()
        made = self._spelled(self.made.makes.replace("INDEX", "INDEX CONCURRENTLY", 1))
        return (made,) if self.state is State.MISSING else (*self.undone, made)

    @property
    def undone(self) -> tuple[str, ...]:
        """What is left of an index that could not be built."""
        if self.made.kind is not Kind.INDEX:
            return ()
        return (f"DROP INDEX CONCURRENTLY IF EXISTS {self.schema}.{self.made.name}",)

    def _spelled(self, sql: str) -> str:
        return database.in_schema(sql, self.schema)


def missing(
    connection: Connection, found: Mapping[str, Relation], schema: str
) -> tuple[Guard, ...]:
    """Those that can be made: on tables, of tables."""
    tables = {name for name in ADOPTABLE if name in found and not found[name].is_view}
    served = store.references(connection)
    return tuple(
        Guard(schema, made, state)
        for made, state in catalogue.not_at_work(connection)
        if made.name in store.OFFENDERS
        and state is not State.OFF
        and {made.table, _TARGETS.get(made.name, made.table)} <= tables
        and made.name not in served
    )
