"""The plans of whatever an engine really sends: PostgreSQL's own auto_explain tells them."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Engine, event

_TELL = """
LOAD 'auto_explain';
SET auto_explain.log_level = 'notice';
SET auto_explain.log_min_duration = 0;
SET auto_explain.log_analyze = on;
SET auto_explain.log_buffers = on;
SET auto_explain.log_timing = off;
SET auto_explain.log_format = 'json'
"""


@dataclass(frozen=True)
class Plan:
    """How one statement was run."""

    statement: str
    root: dict[str, Any]

    @property
    def nodes(self) -> list[dict[str, Any]]:
        """All of its steps."""
        found = [self.root]
        for node in found:
            found += node.get("Plans", [])
        return found

    def scans(self, table: str) -> set[str]:
        """How the table's rows were found: by which index, or by what else."""
        return {
            node.get("Index Name", node["Node Type"])
            for node in self.nodes
            if node.get("Relation Name") == table and node["Node Type"] != "ModifyTable"
        }

    def rows(self, table: str) -> float:
        """How many of the table's rows the widest of these scans has brought."""
        found = [
            node["Actual Rows"] * node["Actual Loops"]
            for node in self.nodes
            if node.get("Relation Name") == table and node["Node Type"] != "ModifyTable"
        ]
        return max(found, default=0)

    @property
    def sorted_rows(self) -> float:
        """How many rows were put in order, instead of coming in it."""
        sorts = [node for node in self.nodes if node["Node Type"].endswith("Sort")]
        return float(sum(node["Actual Rows"] * node["Actual Loops"] for node in sorts))

    @property
    def buffers(self) -> int:
        """Pages that were touched."""
        return int(self.root["Shared Hit Blocks"]) + int(self.root["Shared Read Blocks"])


class _Notices:
    """What psycopg2 hands notices to."""

    def __init__(self, plans: list[Plan]) -> None:
        self._plans = plans

    def append(self, notice: str) -> None:
        """Keep it if it is a plan."""
        _, found, document = notice.partition("plan:\n")
        if found:
            told = json.loads(document)
            self._plans.append(Plan(told["Query Text"], told["Plan"]))


@contextmanager
def explained(engine: Engine) -> Iterator[list[Plan]]:
    """Every statement that new connections of the engine run meanwhile, with its plan."""
    plans: list[Plan] = []

    def tell(connection: Any, _record: object) -> None:
        connection.notices = _Notices(plans)
        with connection.cursor() as cursor:
            cursor.execute(_TELL)
        connection.commit()

    engine.dispose()
    event.listen(engine, "connect", tell)
    try:
        yield plans
    finally:
        event.remove(engine, "connect", tell)
        engine.dispose()
