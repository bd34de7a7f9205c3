"""Kafka: the client's options, and the way to it."""

from collections.abc import Iterator, Mapping

from app import kafka, kafka_options
from app.doctor import cluster, topics
from app.doctor.cluster import NoAnswer
from app.doctor.complaint import Complaint
from app.doctor.settings import of
from app.domain.outbox import TOPICS
from app.environment import SettingsError
from app.settings import KafkaSettings

_UNWISE = (
    ("partitioner", "murmur2_random", "keys go elsewhere than a Java producer puts them"),
    ("allow.auto.create.topics", "false", "a misspelt topic is made by sending to it"),
    ("enable.ssl.certificate.verification", "true", "anybody can pretend to be the broker"),
    ("socket.keepalive.enable", "true", "a connection that a firewall has dropped goes unnoticed"),
)
_SAYS = {
    "_RESOLVE": "a host among KAFKA_BOOTSTRAP_SERVERS is unknown here",
    "_AUTHENTICATION": "it refuses the user, the password or the mechanism (KAFKA_SASL_…)",
    "_SSL": "TLS fails (KAFKA_SECURITY_PROTOCOL, KAFKA_SSL_…)",
}


def complaints() -> Iterator[Complaint]:
    """What is wrong with Kafka, or with the way there."""
    settings = of(KafkaSettings)
    if refused := kafka_options.faults(settings):
        yield from (Complaint(sentence, "Correct or unset it.") for sentence in refused)
        return
    try:
        kafka.check(settings)
    except SettingsError as error:
        yield Complaint(str(error), "Correct the KAFKA_… variables that it names.")
        return
    options = kafka_options.configuration(settings)
    yield from _options(options)
    try:
        found = cluster.look(options, TOPICS)
    except NoAnswer as error:
        cause = _SAYS.get(str(error), f"nobody answers ({error})")
        yield Complaint(
            f"Kafka cannot be reached: {cause}.",
            "Correct KAFKA_BOOTSTRAP_SERVERS and KAFKA_SECURITY_PROTOCOL, or start Kafka, or let"
            " this host through the firewall.",
        )
        return
    yield from topics.judged(found, options)


def _options(options: Mapping[str, str]) -> Iterator[Complaint]:
    for name, wanted, otherwise in _UNWISE:
        if options.get(name, wanted).lower() != wanted:
            variable = "KAFKA_" + name.upper().replace(".", "_")
            yield Complaint(f"{variable} is set: {otherwise}.", "Unset it.", serious=False)
