"""A session's limits: those really in force, and whether they fit together (S5)."""

from collections.abc import Iterator, Mapping

from sqlalchemy import Connection
from sqlalchemy.engine import URL

from app import database
from app.doctor.complaint import Complaint
from app.relay import BATCH_SECONDS
from app.store import privileges, server
from app.store.server import Setting

_LIMITS = ("lock_timeout", "statement_timeout", "idle_in_transaction_session_timeout")
_EXPECTED = {
    "default_transaction_isolation": (
        "read committed",
        "cycles would see a stale snapshot and fail on every rival",
    ),
    "default_transaction_read_only": ("off", "nothing can be written"),
    "session_replication_role": ("origin", "our triggers do not fire (D4)"),
}
"""What the product takes for granted, and what comes of another value."""


def transport(url: URL) -> Iterator[Complaint]:
    """What the address itself switches off."""
    if url.query.get("connect_timeout") == "0":
        yield Complaint(
            "connect_timeout=0 in DATABASE_URL: connecting to a host that is gone has no bound"
            " (S5).",
            f"Leave it out: {database.TRANSPORT['connect_timeout']} s are then asked for.",
        )
    if url.query.get("keepalives") == "0":
        yield Complaint(
            "keepalives=0 in DATABASE_URL: a connection that a firewall has dropped is found out"
            " by a statement's own limit only.",
            "Leave it out: keepalives are then switched on.",
            serious=False,
        )


def complaints(connection: Connection, url: URL) -> Iterator[Complaint]:
    """What is wrong with the session."""
    role = privileges.role(connection).name
    expected = server.in_force(connection, [*_EXPECTED, "transaction_timeout"])
    found = server.settings(connection, asked(str(database.connect_arguments(url)["options"])))
    yield from _dropped(found, role)
    yield from _contradictions(found)
    for setting in expected:
        if setting.name in _EXPECTED:
            yield from _unexpected(setting, role)
        elif 0 < int(setting.in_force) <= BATCH_SECONDS * 1000:
            yield Complaint(
                f"transaction_timeout is {setting.in_force} ms, and a drain may wait for Kafka for"
                f" {BATCH_SECONDS:g} s in a transaction: it is cut off.",
                f"`ALTER ROLE {role} SET transaction_timeout = 0`",
            )


def asked(options: str) -> dict[str, str]:
    """The session's settings that a connection asks for; the last word on each."""
    found: dict[str, str] = {}
    words = iter(options.split())
    for word in words:
        setting = next(words, "") if word == "-c" else word.removeprefix("-c").removeprefix("--")
        name, _, value = setting.partition("=")
        if name in database.SESSION:
            found[name] = value
    return found


def _dropped(found: Mapping[str, Setting], role: str) -> Iterator[Complaint]:
    lost = [one for one in found.values() if one.in_force != one.asked]
    if lost:
        differences = ", ".join(
            f"{one.name} is {one.in_force}{one.unit} instead of {one.asked}{one.unit}"
            for one in lost
        )
        statements = "; ".join(
            f"ALTER ROLE {role} SET {one.name} = '{one.asked}{one.unit}'" for one in lost
        )
        yield Complaint(
            f"What a connection asks for is not in force: {differences}. A pooler drops it.",
            f"Set it on the role, as ops/postgres/worker-role.sql does: `{statements}`",
        )


def _contradictions(found: Mapping[str, Setting]) -> Iterator[Complaint]:
    lock, statement, idle = (int(found[name].asked) for name in _LIMITS)
    if statement == 0:
        yield _limit("statement_timeout", "0: a statement has no bound (S5)")
    elif not 0 < lock < statement:
        yield _limit(
            "lock_timeout",
            f"{lock} ms and statement_timeout {statement} ms: a wait for a lock uses a whole"
            " statement up",
            serious=False,
        )
    if idle == 0:
        yield _limit(
            "idle_in_transaction_session_timeout",
            "0: a worker that hangs keeps its locks for ever (S5)",
        )
    elif idle <= BATCH_SECONDS * 1000:
        yield _limit(
            "idle_in_transaction_session_timeout",
            f"{idle} ms, and a drain may wait for Kafka for {BATCH_SECONDS:g} s in a"
            " transaction: it is cut off",
        )


def _limit(name: str, found: str, *, serious: bool = True) -> Complaint:
    return Complaint(
        f"{name} is {found}.",
        f"Take {name} out of the options in DATABASE_URL: {database.SESSION[name]} is then asked"
        " for.",
        serious=serious,
    )


def _unexpected(setting: Setting, role: str) -> Iterator[Complaint]:
    wanted, otherwise = _EXPECTED[setting.name]
    mends = f"ALTER ROLE {role} SET {setting.name} = '{wanted}'"
    if setting.name == "default_transaction_read_only":  # which may keep that from being written
        mends = f"SET {setting.name} = {wanted}; {mends}"
    if setting.in_force != wanted:
        yield Complaint(f"{setting.name} is {setting.in_force}: {otherwise}.", f"`{mends}`")
