"""A session's limits: those really in force, and whether they fit together (S5)."""

from collections.abc import Iterator, Sequence

from sqlalchemy import Connection
from sqlalchemy.engine import URL

from app import database
from app.doctor.complaint import Complaint
from app.relay import BATCH_SECONDS
from app.settings import DatabaseSettings
from app.store import privileges, server
from app.store.server import Setting

_LIMITS = ("lock_timeout", "statement_timeout", "idle_in_transaction_session_timeout")
_CHOSEN = (*_LIMITS, "client_connection_check_interval")
"""What may be of another length on a role."""
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


def complaints(connection: Connection, settings: DatabaseSettings) -> Iterator[Complaint]:
    """What is wrong with the session."""
    role = privileges.role(connection).name
    expected = server.in_force(connection, [*_EXPECTED, "transaction_timeout"])
    found = server.in_force(connection, list(database.SESSION))
    wanted = server.understood(connection, _wanted(found, settings))
    yield from _dropped(found, wanted, role)
    yield from _contradictions(wanted, None if settings.session else role)
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


def _wanted(found: Sequence[Setting], settings: DatabaseSettings) -> dict[str, str]:
    """What a connection asks for; without a session what we need, be a limit as long as it may."""
    if settings.session:
        return asked(database.connect_arguments(settings.url)["options"])
    chosen = {one.name: one.in_force for one in found if one.name in _CHOSEN}
    return database.SESSION | {name: value for name, value in chosen.items() if value != "0"}


def _dropped(found: Sequence[Setting], wanted: Sequence[Setting], role: str) -> Iterator[Complaint]:
    lost = [pair for pair in zip(found, wanted, strict=True) if pair[0] != pair[1]]
    if lost:
        differences = ", ".join(
            f"{is_.name} is {is_.in_force}{is_.unit} instead of {ours.in_force}{ours.unit}"
            for is_, ours in lost
        )
        statements = "; ".join(
            f"ALTER ROLE {role} SET {ours.name} = '{ours.in_force}{ours.unit}'" for _, ours in lost
        )
        yield Complaint(
            f"What the product needs of a session is not in force: {differences}. A pooler drops"
            " what a connection asks for.",
            f"Set it on the role, as ops/postgres/worker-role.sql does: `{statements}`. A pooler's"
            " connections take it up when they are opened anew: RECONNECT in PgBouncer's console.",
        )


def _contradictions(settings: Sequence[Setting], role: str | None) -> Iterator[Complaint]:
    """Limits that do not fit together; `role` is whom they are set on, None: a connection."""
    values = {one.name: int(one.in_force) for one in settings if one.name in _LIMITS}
    lock, statement, idle = (values[name] for name in _LIMITS)
    if statement == 0:
        yield _limit(role, "statement_timeout", "0: a statement has no bound (S5)")
    elif not 0 < lock < statement:
        yield _limit(
            role,
            "lock_timeout",
            f"{lock} ms and statement_timeout {statement} ms: a wait for a lock uses a whole"
            " statement up",
            serious=False,
        )
    if idle == 0:
        yield _limit(
            role,
            "idle_in_transaction_session_timeout",
            "0: a worker that hangs keeps its locks for ever (S5)",
        )
    elif idle <= BATCH_SECONDS * 1000:
        yield _limit(
            role,
            "idle_in_transaction_session_timeout",
            f"{idle} ms, and a drain may wait for Kafka for {BATCH_SECONDS:g} s in a"
            " transaction: it is cut off",
        )


def _limit(role: str | None, name: str, found: str, *, serious: bool = True) -> Complaint:
    ours = database.SESSION[name]
    remedy = (
        f"Take {name} out of the options in DATABASE_URL: {ours} is then asked for."
        if role is None
        else f"`ALTER ROLE {role} SET {name} = '{ours}'`"
    )
    return Complaint(f"{name} is {found}.", remedy, serious=serious)


def _unexpected(setting: Setting, role: str) -> Iterator[Complaint]:
    wanted, otherwise = _EXPECTED[setting.name]
    mends = f"ALTER ROLE {role} SET {setting.name} = '{wanted}'"
    if setting.name == "default_transaction_read_only":  # which may keep that from being written
        mends = f"SET {setting.name} = {wanted}; {mends}"
    if setting.in_force != wanted:
        yield Complaint(f"{setting.name} is {setting.in_force}: {otherwise}.", f"`{mends}`")
