"""What the user of `CELERY_BROKER_URL` may do there, asked by commands that change nothing."""

from collections.abc import Iterator

from redis import Redis
from redis.exceptions import NoPermissionError, ResponseError

from app.doctor.complaint import Complaint

CHANNELS = ("calendar.pidbox", "celeryev/worker.*")
"""What every worker subscribes to: what it is told, and what it hears of its neighbours."""


def rights(client: Redis, prefix: str) -> Iterator[Complaint]:
    """What a worker needs and may not, under this prefix."""
    try:
        client.llen(f"{prefix}calendar.appointment_timeout")
    except NoPermissionError:
        yield Complaint(
            f"The user of CELERY_BROKER_URL may not use the keys {prefix}*: no tick arrives.",
            f"`ACL SETUSER … ~{prefix}*`, or set CELERY_BROKER_KEY_PREFIX to the prefix that it"
            " may use.",
        )
    except ResponseError:  # no keys at all: a cluster, which has been told
        return
    database = client.get_connection_kwargs().get("db", 0)
    channels = [f"{prefix}/{database}.{name}" for name in CHANNELS]
    forbidden = [channel for channel in channels if not _may_listen(client, channel)]
    if forbidden:
        yield Complaint(
            f"The user of CELERY_BROKER_URL may not listen to {' and '.join(forbidden)}: a worker"
            " ends as soon as it tries.",
            f"`ACL SETUSER … &{prefix}* {' '.join(f'&{one}' for one in forbidden)}`: Redis grants"
            " the pattern of a subscription only when it is named letter by letter.",
        )


def _may_listen(client: Redis, channel: str) -> bool:
    with client.pubsub() as listener:  # type: ignore[no-untyped-call]
        listener.psubscribe(channel)
        try:
            listener.parse_response()
        except NoPermissionError:
            return False
    return True
