"""Kafka: one idempotent producer per process, and a verdict for every message.

Only a message's own delivery report is a verdict; a flush that returns proves nothing (O2).
"""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from functools import partial
from typing import NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from app.environment import SettingsError
from app.kafka_options import DELIVERY_SECONDS, configuration
from app.settings import KafkaSettings

# Refused for the sake of the topic: every message of it, and no neighbour.
_TOPIC_CODES = {
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.TOPIC_EXCEPTION,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
}
# Refused for a message's own sake; a broker refuses the whole batch it travelled in.
_MESSAGE_CODES = {
    KafkaError.MSG_SIZE_TOO_LARGE,
    KafkaError.INVALID_MSG,
    KafkaError.INVALID_MSG_SIZE,
    KafkaError.INVALID_TIMESTAMP,
    KafkaError.INVALID_RECORD,
    KafkaError.POLICY_VIOLATION,
    KafkaError.UNSUPPORTED_FOR_MESSAGE_FORMAT,
    KafkaError._BAD_MSG,
    KafkaError._INVALID_ARG,
}


class Answer(Enum):
    """What became of one message."""

    ACKNOWLEDGED = auto()
    REFUSED = auto()
    NONE = auto()


@dataclass(frozen=True, slots=True)
class Verdict:
    """An answer with its cause; `shared` when innocent neighbours may have got the same one."""

    answer: Answer
    error: str = ""
    shared: bool = False


class Record(NamedTuple):
    """What goes over the wire; without `headers` it is no valid record."""

    topic: str
    key: bytes
    value: bytes
    headers: Mapping[str, str | None] | None


ACKNOWLEDGED = Verdict(Answer.ACKNOWLEDGED)
UNANSWERED = Verdict(Answer.NONE, "no acknowledgement in time")


def check(settings: KafkaSettings) -> None:
    """Make a client and close it: what only shows then (a missing certificate) is told at once."""
    probe = Sender(configuration(settings))
    probe.connect()
    probe.close()


class Sender:
    """The process's producer: made on first use, replaced when it can no longer be trusted."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = dict(options)
        self._producer: Producer | None = None

    def send(
        self,
        records: Sequence[Record],
        deadline: float,
        stopping: Callable[[], bool] = lambda: False,
    ) -> list[Verdict]:
        """Send them all and wait for every verdict, until `deadline` (monotonic) or a stop.

        A message without a verdict may still have arrived: it is sent again later, identical.
        Those that share a refusal are sent again in halves, until each guilty one stands alone,
        while there is time for a whole delivery; where that ends it, the verdict stays `shared`.
        """
        verdicts = [UNANSWERED] * len(records)

        def over() -> bool:
            return time.monotonic() >= deadline or stopping()

        groups: list[Sequence[int]] = [range(len(records))]
        while groups:
            numbers = groups.pop()
            self._attempt(records, verdicts, numbers, over)
            suspects = [number for number in numbers if verdicts[number].shared]
            if suspects and len(numbers) == 1:
                verdicts[numbers[0]] = replace(verdicts[numbers[0]], shared=False)
            elif suspects:  # depth first: however little time there is, somebody is convicted
                half = len(suspects) // 2
                groups += [part for part in (suspects[half:], suspects[:half]) if part]
            late = time.monotonic() > deadline - DELIVERY_SECONDS
            if late or stopping() or any(verdicts[n].answer is Answer.NONE for n in numbers):
                break
        return verdicts

    def _attempt(
        self,
        records: Sequence[Record],
        verdicts: list[Verdict],
        numbers: Sequence[int],
        over: Callable[[], bool],
    ) -> None:
        producer = self._producer or self.connect()
        try:
            for number in numbers:
                verdicts[number] = UNANSWERED
                note = partial(_note, verdicts, number)
                refusal = self._produce(producer, records[number], note, over)
                verdicts[number] = refusal or verdicts[number]
            while producer.flush(0.1) and not over():
                pass
        except KafkaException as fatal:  # this producer sends nothing any more
            cause = verdict_of(fatal.args[0]).error
            verdicts[:] = [Verdict(Answer.NONE, cause) if v == UNANSWERED else v for v in verdicts]
        finally:  # also when a signal ends the process
            if any(verdicts[number].answer is Answer.NONE for number in numbers):
                self._abandon(producer)

    def connect(self) -> Producer:
        """Make the producer; a SettingsError when its options do not go together."""
        try:
            self._producer = Producer(self._options)
        except KafkaException as error:
            msg = f"Kafka client options are wrong: {error.args[0].str()}."
            raise SettingsError(msg) from None
        return self._producer

    @staticmethod
    def _produce(
        producer: Producer,
        record: Record,
        note: Callable[[KafkaError | None, Message], None],
        over: Callable[[], bool],
    ) -> Verdict | None:
        """Hand it over; what the client itself refuses is told at once."""
        if record.headers is None:
            return Verdict(Answer.REFUSED, "its headers are no flat object of texts")
        while True:
            try:
                producer.produce(
                    record.topic,
                    key=record.key,
                    value=record.value,
                    headers=dict(record.headers),
                    on_delivery=note,
                )
            except BufferError:  # the client's queue is full: let it work
                if over():
                    return UNANSWERED
                producer.poll(0.1)
            except KafkaException as error:
                return replace(verdict_of(error.args[0]), shared=False)
            except (TypeError, ValueError) as error:  # no record at all
                return Verdict(Answer.REFUSED, f"{type(error).__name__}: not a valid record")
            else:
                return None

    def _abandon(self, producer: Producer) -> None:
        """Nothing that is still in its hands may go out after its row was claimed again."""
        self._producer = None
        try:
            producer.purge()
            producer.flush(1)
        except KafkaException:  # already fatal: there is nothing to take back
            pass

    def close(self) -> None:
        """Every drain has waited for its verdicts, so nothing is pending; a later one connects."""
        if self._producer is not None:
            self._abandon(self._producer)


def _note(
    verdicts: list[Verdict], number: int, error: KafkaError | None, _message: Message
) -> None:
    if error is None:
        verdicts[number] = ACKNOWLEDGED
    elif error.code() not in (KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT):  # our own doing
        verdicts[number] = verdict_of(error)


def verdict_of(error: KafkaError) -> Verdict:
    """Told apart by code: `retriable()` is false on all final errors."""
    cause = f"{error.name()}: {error.str()}"
    if error.code() in _TOPIC_CODES:
        return Verdict(Answer.REFUSED, cause)
    if error.code() in _MESSAGE_CODES:
        return Verdict(Answer.REFUSED, cause, shared=True)
    return Verdict(Answer.NONE, cause)


_senders: dict[str, Sender] = {}
_inherited: list[Sender] = []


def sender(settings: KafkaSettings) -> Sender:
    """This process's sender; a wrong option is a SettingsError."""
    key = settings.kafka_bootstrap_servers
    if key not in _senders:
        _senders[key] = Sender(configuration(settings))
    return _senders[key]


def close_all() -> None:
    """Before the process ends."""
    for one in _senders.values():
        one.close()
    _senders.clear()


def _forget_after_fork() -> None:
    """A parent's producer has no threads here: never used, and never collected, in a child."""
    _inherited.extend(_senders.values())
    _senders.clear()


os.register_at_fork(after_in_child=_forget_after_fork)
