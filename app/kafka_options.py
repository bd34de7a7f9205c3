"""The Kafka client's options: ours, the operator's, and those that nobody may change (O2)."""

from confluent_kafka import KafkaException, Producer

from app.environment import SettingsError
from app.settings import KafkaSettings

DELIVERY_SECONDS = 8.0
"""After so long without an acknowledgement a message has failed; it is sent again later."""

OWNED = {
    "acks": "all",
    "enable.idempotence": "true",
}
"""What O2 promises; an override is refused."""

DEFAULTS: dict[str, str] = {
    "client.id": "calendar.outbox_publisher",
    "partitioner": "murmur2_random",  # a key goes where Java's default partitioner puts it
    "linger.ms": "5",
    "allow.auto.create.topics": "false",
    "topic.metadata.propagation.max.ms": "2000",  # an unknown topic is told well before a time-out
    "socket.keepalive.enable": "true",
    "log_level": "2",  # librdkafka's own lines on stderr; causes are told by verdicts
}

_SYNONYMS = {"request.required.acks": "acks", "metadata.broker.list": "bootstrap.servers"}
_NO_OPTION = "option.that.does.not.exist"
_BOUND_BY_US = (
    "delivery.timeout.ms",
    "message.timeout.ms",
    "transactional.id",
    "delivery.report.only.error",
)
_NO_TEXT = ("logger", "default.topic.config")  # Python's own options: no variable can mean them


def configuration(settings: KafkaSettings) -> dict[str, str]:
    """The client's options; unrelated `KAFKA_…` variables are left alone, wrong ones refused."""
    options = {**DEFAULTS, "bootstrap.servers": settings.kafka_bootstrap_servers}
    for name, value in settings.overrides.items():
        options |= _override(name, value)
    return {**options, **OWNED, "delivery.timeout.ms": str(int(DELIVERY_SECONDS * 1000))}


def faults(settings: KafkaSettings) -> list[str]:
    """The sentence of every override that is refused; `configuration` raises the first."""
    found = []
    for name, value in settings.overrides.items():
        try:
            _override(name, value)
        except SettingsError as error:
            found.append(str(error))
    return found


def _override(name: str, value: str) -> dict[str, str]:
    """The option that a variable sets; nothing when it is not meant for the client."""
    option = _SYNONYMS.get(name, name)
    variable = "KAFKA_" + name.upper().replace(".", "_")
    if option in _BOUND_BY_US:
        msg = f"{variable} is refused: the outbox bounds its own sending."
        raise SettingsError(msg)
    if not value or option in _NO_TEXT or not _is_option(name, value, variable):
        return {}
    if option in OWNED and value.lower() not in {OWNED[option], "-1"}:
        msg = f"{variable} is refused: the outbox relies on {option}={OWNED[option]}."
        raise SettingsError(msg)
    return {option: value}


def _is_option(name: str, value: str, variable: str) -> bool:
    """Ask the client itself, which refuses the first option that it does not like.

    The second one does not exist, so that no client is ever made by asking.
    """
    try:
        Producer({name: value, _NO_OPTION: ""})
    except KafkaException as refusal:
        text = refusal.args[0].str()
    if _NO_OPTION in text:
        return True
    if "No such configuration property" in text:
        return False
    msg = f"{variable} is wrong: the Kafka client refuses this value for {name}."
    raise SettingsError(msg)
