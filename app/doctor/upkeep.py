"""The server as it is kept: durable, vacuumed, with room, and its clock."""

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta

from sqlalchemy import Connection

from app.doctor.complaint import Complaint
from app.settings import AppointmentTimeoutSettings, DatabaseSettings
from app.store import privileges, server
from app.store.server import Holder

SKEW = timedelta(seconds=5)
OLD_SECONDS = 300.0
"""A transaction that is open for longer keeps what cycles and drains leave behind."""
_CROWDED = 0.9
_CHILDREN = 2  # of a worker node, as celeryconfig.py has it; each has a pool of its own
_BESIDE = 2  # connections of a pool beside the lanes of a cycle, as tasks/doors.py has it
_LEAST = 4  # a cycle's two, a drain's, and the metrics' one

_ON = {
    "fsync": "a crash of the host can destroy the database",
    "full_page_writes": "a crash of the host can destroy pages",
    "autovacuum": "tables and indexes grow, and the cycle grows slow",
    "track_counts": "autovacuum does not know when to work",
}
"""What must be on in the whole server, and what comes of its absence."""


def clock(now: datetime) -> Iterator[Complaint]:
    """PostgreSQL's alone decides what is overdue; but workers discard old ticks by their own."""
    difference = datetime.now(UTC) - now
    if abs(difference) > SKEW:
        way = "ahead of" if difference > timedelta() else "behind"
        yield Complaint(
            f"This host's clock is {abs(difference).total_seconds():.0f} s {way} PostgreSQL's:"
            " ticks may be discarded as too old.",
            "Let NTP set the clocks of all hosts.",
            serious=False,
        )


def durability(connection: Connection) -> Iterator[Complaint]:
    """What was committed must stay, and what is dead must go."""
    role = privileges.role(connection).name
    for setting in server.in_force(connection, [*_ON, "synchronous_commit"]):
        if setting.in_force != "off":
            continue
        if setting.name == "synchronous_commit":
            yield Complaint(
                "synchronous_commit is off: a crash of the server takes back expiries, and"
                " bookings that were promised.",
                f"`ALTER ROLE {role} SET synchronous_commit = on`, and for the calendar's own"
                " application as well.",
            )
        else:
            yield Complaint(
                f"{setting.name} is off: {_ON[setting.name]}.",
                f"`ALTER SYSTEM SET {setting.name} = on`, then `SELECT pg_reload_conf()`",
            )


def vacuum(connection: Connection) -> Iterator[Complaint]:
    """What keeps a table from being vacuumed."""
    for table in server.tables(connection, server.NOT_VACUUMED):
        yield Complaint(
            f"autovacuum is off on calendar.{table}: it grows, and the cycle grows slow.",
            f"`ALTER TABLE calendar.{table} RESET (autovacuum_enabled)`",
        )
    for holder in server.holders(connection, OLD_SECONDS):
        yield _held(holder)


def _held(holder: Holder) -> Complaint:
    name = holder.name.replace("'", "''")
    if holder.kind == "replication slot":
        return Complaint(
            f"Nobody reads the replication slot {holder.name}: it keeps {holder.kept_log or 'no'}"
            " log on the disk, and may keep dead rows.",
            f"Start its reader, or `SELECT pg_drop_replication_slot('{name}')`",
            serious=False,
        )
    remedy = (
        f"`SELECT pg_terminate_backend({holder.name})`"
        if holder.kind == "transaction"
        else f"COMMIT it, or `ROLLBACK PREPARED '{name}'`"
    )
    return Complaint(
        f"The {holder.kind} {holder.name} ({holder.application or 'no name'}) has been open for"
        f" {holder.seconds:.0f} s: what is deleted or changed meanwhile stays as dead rows.",
        f"End it, if its owner has forgotten it: {remedy}",
        serious=False,
    )


def room(connection: Connection) -> Iterator[Complaint]:
    """Whether a worker node gets its connections; from a pooler it gets the pooler's."""
    found = server.connections(connection)
    lanes = AppointmentTimeoutSettings.load_or_default().appointment_timeout_connections
    wanted = _CHILDREN * (lanes + _BESIDE) + 1
    if found.room < wanted and DatabaseSettings.load_or_default().session:
        whose = {"max_connections": "the server", "database": "the database", "role": "the role"}
        yield Complaint(
            f"A worker node may use {wanted} connections, and {whose[found.limited_by]} allows"
            f" {found.room}.",
            f"{_raised(connection, found.limited_by, wanted)}, or lower"
            " APPOINTMENT_TIMEOUT_CONNECTIONS.",
            serious=found.room < _LEAST,
        )
    if found.taken >= found.server_room * _CROWDED:
        yield Complaint(
            f"{found.taken} of {found.server_room} connections of the server are taken.",
            "Raise max_connections, or end sessions that nobody needs.",
            serious=False,
        )


def _raised(connection: Connection, limit: str, wanted: int) -> str:
    role = privileges.role(connection)
    return {
        "max_connections": f"`ALTER SYSTEM SET max_connections = {wanted + 100}` and restart it",
        "database": f"`ALTER DATABASE {role.database} CONNECTION LIMIT -1`",
        "role": f"`ALTER ROLE {role.name} CONNECTION LIMIT -1`",
    }[limit]


LOOKS: tuple[Callable[[Connection], Iterable[Complaint]], ...] = (durability, vacuum, room)
