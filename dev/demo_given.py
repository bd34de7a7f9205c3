"""Servers that somebody else runs: the demo works in a corner of its own there, and clears it.

A cycle expires whatever is overdue in its database, and a worker takes whatever is in its queues:
on a shared database or broker the demo would do the owner's work, and the owner's workers the
demo's. Kafka's topics are contracts and cannot be moved, so what the demo publishes stays there.
"""

import secrets
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from urllib.parse import urlsplit

import psycopg2
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError
from redis.exceptions import TimeoutError as RedisTimeoutError
from redis.retry import Retry

from app.domain.outbox import TOPICS
from app.settings import BrokerSettings, DatabaseSettings, KafkaSettings
from dev.processes import Failure
from dev.servers.database import create_database, drop_database
from dev.servers.stack import CELERY_BROKER_URL, DATABASE_URL, KAFKA_BOOTSTRAP_SERVERS

_SECONDS = 5.0
_REDIS_DATABASES = range(15, 0, -1)  # a default server has 16; 0 is where everybody is
_MARK = "calendar-demo"
_MARK_SECONDS = 600


@contextmanager
def own_corners(environment: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """The given ones of the three variables, each naming a corner of the demo's own.

    A wrong value is a SettingsError, a server that does not answer a Failure.
    """
    given: dict[str, str] = {}
    with ExitStack() as corners:
        if environment.get(KAFKA_BOOTSTRAP_SERVERS):
            given[KAFKA_BOOTSTRAP_SERVERS] = KafkaSettings.load().kafka_bootstrap_servers
            _require_topics(given[KAFKA_BOOTSTRAP_SERVERS])
        if environment.get(CELERY_BROKER_URL):
            url = BrokerSettings.load().celery_broker_url
            given[CELERY_BROKER_URL] = corners.enter_context(_own_redis_database(url))
        if environment.get(DATABASE_URL):
            url = DatabaseSettings.load().database_url
            given[DATABASE_URL] = corners.enter_context(_own_database(url))
        yield given


def _require_topics(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    try:
        known = admin.list_topics(timeout=_SECONDS).topics
    except KafkaException:
        raise Failure(
            f"No Kafka answers a plain client at {bootstrap}, which KAFKA_BOOTSTRAP_SERVERS names."
        ) from None
    if missing := [topic for topic in TOPICS if topic not in known]:
        raise Failure(f"The Kafka at {bootstrap} has no topic {' and no topic '.join(missing)}.")


@contextmanager
def _own_redis_database(url: str) -> Iterator[str]:
    """An empty database of the same server: Celery's queues and broadcasts stay within one."""
    if not url.startswith(("redis://", "rediss://")) or ";" in url:
        raise Failure("The demo can only use a CELERY_BROKER_URL of one redis:// server.")
    server = urlsplit(url)
    for number in _REDIS_DATABASES:
        own = server._replace(path=f"/{number}").geturl()
        client = _client(own)
        try:
            # Whoever sets the mark first, in a database that holds nothing else, has it.
            if client.dbsize() or not client.set(_MARK, "", nx=True, ex=_MARK_SECONDS):
                continue
        except RedisError as error:
            if "DB index" in str(error):  # it has fewer
                continue
            raise Failure(_refused(error)) from None
        try:
            yield own
        finally:
            _clear(client)
        return
    raise Failure("The Redis that CELERY_BROKER_URL names has no empty database for the demo.")


def _refused(error: RedisError) -> str:
    """Without the address, which may hold a password."""
    away = isinstance(error, RedisConnectionError | RedisTimeoutError)
    what = "does not answer" if away else "refuses the demo"
    return f"The Redis that CELERY_BROKER_URL names {what} ({type(error).__name__})."


def _client(url: str) -> Redis:
    return Redis.from_url(
        url,
        socket_timeout=_SECONDS,
        socket_connect_timeout=_SECONDS,
        retry=Retry(NoBackoff(), 0),
    )


def _clear(client: Redis) -> None:
    try:
        for key in list(client.scan_iter()):
            client.delete(key)
    except RedisError:  # it is gone; the mark, if it comes back with it, ends by itself
        pass
    finally:
        client.close()


@contextmanager
def _own_database(url: str) -> Iterator[str]:
    name = f"calendar_demo_{secrets.token_hex(4)}"
    try:
        own = create_database(url, name)
    except psycopg2.Error as error:
        reason = str(error).strip().partition("\n")[0]
        raise Failure(f"DATABASE_URL: the demo can make no database of its own: {reason}") from None
    try:
        yield own
    finally:
        try:
            drop_database(url, name)
        except psycopg2.Error as error:
            raise Failure(f"The demo's database {name} is left: {type(error).__name__}.") from error
