"""Redis (or Valkey) as the broker: reachable, writable, and no message is dropped."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    NoPermissionError,
    RedisError,
    ResponseError,
)
from redis.exceptions import TimeoutError as NoAnswer
from redis.retry import Retry

from app.doctor.complaint import Complaint
from app.doctor.redis_rights import rights
from app.doctor.settings import of
from app.settings import BrokerSettings

_SECONDS = 5
OLDEST = 6
"""Redis before it is maintained by nobody."""
FULL = 0.9


def complaints() -> Iterator[Complaint]:
    """What is wrong with the broker, or with the way there."""
    broker = of(BrokerSettings)
    try:
        with _connected(broker.celery_broker_url) as client:
            yield from _told(client)
            yield from rights(client, broker.celery_broker_key_prefix or "")
    except (RedisError, OSError, TypeError, ValueError) as error:  # the last two: the URL's own
        yield refused(error)


def _connected(url: str) -> Redis:
    return Redis.from_url(
        _in_its_words(url),
        socket_timeout=_SECONDS,
        socket_connect_timeout=_SECONDS,
        retry=Retry(NoBackoff(), 0),
    )


def _told(client: Redis) -> Iterator[Complaint]:
    """INFO alone: a managed Redis forbids CONFIG."""
    try:
        found: dict[str, Any] = client.info()
    except NoPermissionError:
        yield Complaint(
            "The user of CELERY_BROKER_URL may not call INFO: how Redis is cannot be told.",
            "`ACL SETUSER … +info`",
            serious=False,
        )
        return
    if found.get("rdb_last_bgsave_status") == "err":
        found |= _snapshots(client)
    yield from judged(found)


def _snapshots(client: Redis) -> Mapping[str, Any]:
    """Whether a failed snapshot keeps it from writing; nothing where that may not be asked."""
    try:
        told: Mapping[Any, Any] = client.config_get("save", "stop-writes-on-bgsave-error")
    except ResponseError:
        return {}
    return {"snapshots": bool(told["save"]) and told["stop-writes-on-bgsave-error"] == "yes"}


def _in_its_words(url: str) -> str:
    """Celery's spelling of the address, as the client itself spells it."""
    if url.startswith("redis+socket://"):
        return url.replace("redis+socket://", "unix://", 1).replace("virtual_host=", "db=")
    return re.sub("(?<=ssl_cert_reqs=)CERT_([A-Z]+)", lambda match: match[1].lower(), url)


def refused(error: Exception) -> Complaint:
    """Why Redis does not answer; the error's own words may hold parts of the address."""
    match error:
        case AuthenticationError():
            found, remedy = "the user or the password is refused", ""
        case BusyLoadingError():
            found, remedy = "Redis is still loading its data", "wait until it has started"
        case NoAnswer() | TimeoutError():
            found, remedy = "its host does not answer", "let this host through the firewall"
        case TypeError() | ValueError():
            found, remedy = "it cannot be understood", ""
        case _:
            found, remedy = "nobody answers at its host and port", "start Redis"
    return Complaint(
        f"CELERY_BROKER_URL leads to no broker: {found}.",
        f"Correct CELERY_BROKER_URL (with special characters of the password as %XX)"
        f"{f', or {remedy}' if remedy else ''}.",
    )


def judged(found: Mapping[str, Any]) -> Iterator[Complaint]:
    """What INFO tells."""
    version = str(found.get("redis_version", OLDEST))
    if int(version.partition(".")[0]) < OLDEST:
        yield Complaint(
            f"Redis is of version {version}, which nobody maintains.",
            "Upgrade it, to 7 or newer.",
            serious=False,
        )
    if found.get("redis_mode", found.get("server_mode")) in {"cluster", "sentinel"}:
        yield Complaint(
            "It is a Redis Cluster or a Sentinel: Celery needs a single Redis.",
            "Use one without cluster mode.",
        )
    if found.get("role") == "slave":
        yield Complaint(
            "It is a replica: no tick can be sent there.",
            "Let CELERY_BROKER_URL name the primary.",
        )
    if found.get("rdb_last_bgsave_status") == "err" and found.get("snapshots", True):
        yield Complaint(
            "Its last snapshot failed: by default it then refuses every write, and so every tick.",
            'See to its disk, or `CONFIG SET save ""`: a broker of ticks need not be kept.',
        )
    yield from _memory(found)


def _memory(found: Mapping[str, Any]) -> Iterator[Complaint]:
    """A limit is lawful; dropping messages is not."""
    limit, policy = int(found.get("maxmemory", 0)), str(found.get("maxmemory_policy", ""))
    if not limit:
        return
    if policy.startswith("allkeys"):
        yield Complaint(
            f"maxmemory-policy is {policy}: when memory is short, Redis drops ticks and queues.",
            "`CONFIG SET maxmemory-policy noeviction`, and in its configuration file or parameter"
            " group.",
        )
    used = int(found.get("used_memory", 0)) / limit
    if used >= FULL:
        yield Complaint(
            f"{used:.0%} of its memory are used: when it is full, it refuses every tick.",
            "Raise maxmemory, and see what else lies there: a tick takes a kilobyte.",
            serious=used >= 1,
        )
