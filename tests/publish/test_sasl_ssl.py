"""A real Kafka by TLS for a user with a password, as managed ones are."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme
from sqlalchemy import Engine

from app.doctor import examine
from app.domain.outbox import TOPICS
from app.kafka import Sender
from app.kafka_options import configuration
from app.publish import drain
from app.report import DrainOptions
from app.settings import KafkaSettings
from app.store.runs import Outcome
from dev.servers.apache_kafka import ApacheKafka
from dev.servers.port import LOOPBACK, free_port
from tests.certificates import Certificates, issue
from tests.programs import needed
from tests.world import World

USER, SECRET = "publisher", "k4fka-s3cret"
_LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"


class SecuredKafka(ApacheKafka):
    """One that has a second listener, `secured`, by TLS for `USER` alone."""

    def __init__(self, directory: Path, certificates: Certificates) -> None:
        super().__init__(directory, topics=dict.fromkeys(TOPICS, 3))
        self._certificates = certificates
        self.secured = f"{LOOPBACK}:{free_port()}"

    def _settings(self, port: int) -> dict[str, str]:
        keys = self.directory / "keystore.pem"
        keys.write_text(self._certificates.key.read_text() + self._certificates.chain.read_text())
        plain, listener = super()._settings(port), f",SASL_SSL://{self.secured}"
        return {
            **plain,
            "listeners": plain["listeners"] + listener,
            "advertised.listeners": plain["advertised.listeners"] + listener,
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT"
            ",SASL_SSL:SASL_SSL",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(keys),
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl_ssl.plain.sasl.jaas.config": f'{_LOGIN} user_{USER}="{SECRET}";',
        }


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    """With a certificate of `ca.pem`, in its directory."""
    needed("java", "default-jre-headless")
    needed("mvn", "maven")
    directory = tmp_path_factory.mktemp("secured")
    with SecuredKafka(directory, issue(directory)) as server:
        yield server


@pytest.fixture
def told(secured: SecuredKafka, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The environment tells how to get there."""
    for option, value in {
        "BOOTSTRAP_SERVERS": secured.secured,
        "SECURITY_PROTOCOL": "SASL_SSL",
        "SSL_CA_LOCATION": str(secured.directory / "ca.pem"),
        "SASL_MECHANISM": "PLAIN",
        "SASL_USERNAME": USER,
        "SASL_PASSWORD": SECRET,
    }.items():
        monkeypatch.setenv(f"KAFKA_{option}", value)
    return monkeypatch


def test_messages_are_published_by_tls_for_a_user_with_a_password(
    world: World, engine: Engine, told: pytest.MonkeyPatch
) -> None:
    world.appointment()
    world.run()
    sender = Sender(configuration(KafkaSettings.load()))
    report = drain(engine, sender, DrainOptions(), "by TLS")
    sender.close()
    assert (report.outcome, report.published) == (Outcome.COMPLETED, 2)
    assert [one.found for one in examine("kafka") if one.serious] == []


@pytest.mark.parametrize(
    ("option", "wrong", "why"),
    [
        ("KAFKA_SASL_PASSWORD", "wr0ng", "it refuses the user, the password or the mechanism"),
        ("KAFKA_SSL_CA_LOCATION", "other.pem", "TLS fails"),
    ],
)
def test_the_doctor_tells_a_wrong_password_from_a_wrong_authority(
    told: pytest.MonkeyPatch, tmp_path: Path, option: str, wrong: str, why: str
) -> None:
    trustme.CA().cert_pem.write_to_path(tmp_path / "other.pem")
    told.chdir(tmp_path)
    told.setenv(option, wrong)
    [complaint] = examine("kafka")
    assert complaint.serious
    assert why in complaint.found
    assert SECRET not in complaint.found
