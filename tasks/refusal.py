"""What reaches the queues may be anything: refused in one line, where it would end the worker.

Celery refuses what it can read; what it cannot even take apart (no JSON, no envelope, a body of
another shape) it lets through as an error of the worker's own. Only JSON is ever deserialized.
"""

from collections.abc import Callable
from typing import Any

from celery.exceptions import InvalidTaskError
from celery.worker.strategy import default
from kombu.exceptions import OperationalError
from kombu.transport import redis
from redis.exceptions import ConnectionError as ConnectionLostError

from app.telemetry import logs

log = logs.logger()


class Channel(redis.Channel):
    """Redis' channel, which survives an item that is no JSON; it has left its queue by then."""

    def _brpop_read(self, **options: Any) -> Any:
        try:
            return super()._brpop_read(**options)  # type: ignore[misc]
        except ValueError as error:  # JSON's and UTF-8's errors: nothing here can be delivered
            log.error("message refused", error=type(error).__name__, reason="it is no JSON")  # noqa: TRY400
            return True

    def _connparams(self, *arguments: Any, **options: Any) -> Any:
        """Where Redis is; a channel outlives its connection, and may still ask.

        Kombu gives back what a lost connection had taken when it closes its channels: after the
        connection, whose address is gone by then. The worker would take that for the end.
        """
        if self.connection.client is None:
            raise ConnectionLostError("the connection to the broker is closed")
        return super()._connparams(*arguments, **options)  # type: ignore[misc]


class Transport(redis.Transport):
    """Redis as the broker, on that channel.

    Kombu tells some lost connections by an error of its own, which the worker would take for the
    end: a broker that dies while the worker says hello to its neighbours would end it.
    """

    Channel = Channel

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.connection_errors = (*self.connection_errors, OperationalError)


def strategy(task: Any, app: Any, consumer: Any, **options: Any) -> Callable[..., Any]:
    """Celery's own way of taking a message in, behind a look at the message's shape."""
    take_in = default(task, app, consumer, **options)

    def guarded(message: Any, body: Any, *callbacks: Any, **more: Any) -> Any:
        if not _has_the_shape_of_a_task(message.payload, message.headers):
            raise InvalidTaskError("not a task message")
        return take_in(message, body, *callbacks, **more)

    return guarded


def _has_the_shape_of_a_task(payload: Any, headers: Any) -> bool:
    """Arguments, keyword arguments and options (protocol 2), or one object of them (protocol 1)."""
    match payload:
        case [list(), dict(), dict() | None]:
            return "id" in headers
        case {"id": str(), "args": list(), "kwargs": dict()}:
            return True
        case _:
            return False
