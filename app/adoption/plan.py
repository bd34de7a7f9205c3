"""What stands between an adopter's schema and the product, and the statements that make it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sqlalchemy import Connection

from app import database, migrations, schema
from app.adoption import columns, guards, needs
from app.adoption.guards import Guard
from app.adoption.needs import Step, Theirs
from app.adoption.obstacle import Obstacle
from app.store import adoptable, catalogue
from app.store.adoptable import Relation
from app.store.catalogue import ADOPTABLE


@dataclass(frozen=True, slots=True)
class Plan:
    """With an obstacle nothing is done; `makes_tables`: ours are not there yet.

    `guards` are not at work and would refuse new rows of the adopter's: they wait to be asked for.
    """

    schema: str
    key: str
    """The column that is the key of the adopter's appointments."""
    makes_tables: bool
    obstacles: tuple[Obstacle, ...]
    steps: tuple[Step, ...]
    guards: tuple[Guard, ...]


def plan(connection: Connection) -> Plan:
    """Look, and change nothing; SchemaError when there is nothing to adopt."""
    name = database.schema_of(connection)
    adopted = schema.is_adopted(connection)
    if not adopted and migrations.revision_of(connection) is not None:
        raise schema.SchemaError(
            f"The schema {name} was made by `python -m app migrate`: there is nothing to adopt."
        )
    found = adoptable.relations(connection, catalogue.TABLES)
    if not any(table in found for table in ADOPTABLE):
        raise schema.SchemaError(
            f"There is nothing to adopt in the schema {name}: it has none of"
            f" {', '.join(ADOPTABLE)}. See DATABASE_SCHEMA."
        )
    obstacles = [*_absent(found, name), *_strangers(found, name, adopted=adopted)]
    theirs = []
    for table in ADOPTABLE:
        if relation := found.get(table):
            unfit = list(_unfit(relation, name))
            obstacles += unfit
            if relation.behind and not unfit:
                theirs.append(needs.theirs(connection, relation, relation.behind, name))
    obstacles += [one for table in theirs for one in needs.obstacles(connection, table)]
    steps = [one for table in theirs for one in needs.steps(table)]
    return Plan(
        schema=name,
        key=_key(theirs),
        makes_tables=not adopted,
        obstacles=tuple(obstacles),
        steps=tuple(steps),
        guards=guards.missing(connection, found, name),
    )


def _key(theirs: list[Theirs]) -> str:
    return next((one.behind.columns["id"] for one in theirs if one.name == "appointments"), "id")


def _absent(found: Mapping[str, Relation], name: str) -> Iterator[Obstacle]:
    for table in ADOPTABLE:
        if table not in found:
            yield Obstacle(
                f"There is no {name}.{table}.",
                "Let a view stand for yours; without such rows make an empty table of that name.",
            )


def _strangers(found: Mapping[str, Relation], name: str, *, adopted: bool) -> Iterator[Obstacle]:
    for table in found:
        if table not in ADOPTABLE and not adopted:
            yield Obstacle(
                f"{name}.{table} is there and not ours: what is in it is not meant for us.",
                "Give the product a schema of its own by DATABASE_SCHEMA, with views of your"
                " tables.",
            )


def _unfit(relation: Relation, name: str) -> Iterator[Obstacle]:
    if relation.behind is None:
        yield Obstacle(
            f"{name}.{relation.name} is neither a table nor a plain view of one.",
            "A view without joins, DISTINCT, security_barrier and the like will do.",
        )
    else:
        yield from columns.obstacles(relation, relation.behind, name)
