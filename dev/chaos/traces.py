"""What a fault may leave behind in PostgreSQL: locked rows, orphaned or overlong backends."""

from functools import partial
from pathlib import Path

from sqlalchemy import Engine

from dev.chaos import records
from dev.chaos.verdict import Finding, Kind, findings

_SECONDS = 15.0
"""How long a trace may take to vanish: cycles hold rows for milliseconds, dead clients for one."""
_TABLES = (
    "appointments",
    "availability_slots",
    "calendar_events",
    "event_reminders",
    "outbox_messages",
)
_ESTABLISHED = "01"


def judge(engine: Engine) -> list[Finding]:
    """What is still there after a patient look; the load must be at rest."""
    locked = [
        table for table in _TABLES if not records.wait(partial(_free, engine, table), _SECONDS)
    ]
    found: dict[str, list[object]] = {"orphan": [], "overlong": []}

    def gone() -> bool:
        found["orphan"], found["overlong"] = _orphans(engine), _overlong(engine)
        return not any(found.values())

    records.wait(gone, _SECONDS)
    return [
        *findings(Kind.OTHER, "a row is locked", locked),
        *findings(Kind.OTHER, "a backend whose client is dead", found["orphan"]),
        *findings(Kind.OTHER, "a transaction that does not end", found["overlong"]),
    ]


def _free(engine: Engine, table: str) -> bool:
    """Whether nobody holds a row of it at this moment."""
    with engine.connect() as connection:
        return not records.rows(connection, f"SELECT FROM pgrowlocks('calendar.{table}') LIMIT 1")


def _orphans(engine: Engine) -> list[object]:
    """Backends of the product whose client's end of the connection is gone."""
    with engine.connect() as connection:
        found = records.rows(
            connection,
            "SELECT pid, client_port FROM pg_stat_activity WHERE application_name = :name",
            name=records.PRODUCT,
        )
    alive = _open_ports()
    return [pid for pid, port in found if port not in alive]


def _overlong(engine: Engine) -> list[object]:
    with engine.connect() as connection:
        found = records.rows(
            connection,
            """SELECT pid FROM pg_stat_activity
            WHERE application_name = :name AND xact_start < clock_timestamp() - interval '10 s'""",
            name=records.PRODUCT,
        )
    return [pid for (pid,) in found]


def _open_ports() -> set[int]:
    """Local ports of connections that are established."""
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    fields = (line.split() for line in lines)
    return {int(one[1].split(":")[1], 16) for one in fields if one[3] == _ESTABLISHED}
