"""The compose file, statically: Compose's own schema, and the product behind each of its words."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from app.domain.outbox import TOPICS
from dev.processes import ROOT
from tests.deployment import compose, image
from tests.docs.values import refused

EACH = pytest.mark.parametrize("name", compose.SERVICES)
ONCE = {"migrate", "topics"}


def test_composes_own_schema_accepts_it() -> None:
    """Compose itself refuses what its schema does, and a word that it does not know."""
    check = Path(sys.executable).parent / "check-jsonschema"
    done = subprocess.run(
        [check, "--builtin-schema", "vendor.compose-spec", compose.FILE],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("name", compose.OURS)
def test_each_of_our_services_is_told_what_it_understands(name: str) -> None:
    told = compose.environment(name)
    assert refused(told) == []
    needed = {"worker": {"DATABASE_URL", "CELERY_BROKER_URL", "KAFKA_BOOTSTRAP_SERVERS"}}
    assert needed.get(name, set()) <= told.keys()


@pytest.mark.parametrize("name", compose.OURS)
def test_each_of_our_services_can_write_to_tmp_only_and_has_no_rights(name: str) -> None:
    service = compose.SERVICES[name]
    assert service["read_only"]
    assert service["tmpfs"] == [compose.SCRATCH]
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert "volumes" not in service


@EACH
def test_each_service_has_a_limit_and_is_started_again(name: str) -> None:
    service = compose.SERVICES[name]
    assert re.fullmatch(r"\d+[mg]", service["mem_limit"])
    assert service.get("restart", "no") == ("no" if name in ONCE else "unless-stopped")


@EACH
def test_each_service_waits_for_the_health_or_the_end_of_those_before(name: str) -> None:
    for before, how in compose.SERVICES[name].get("depends_on", {}).items():
        other = compose.SERVICES[before]
        if before in ONCE:
            assert how["condition"] == "service_completed_successfully"
        else:
            assert how["condition"] == "service_healthy"
            assert "healthcheck" in other


def test_a_worker_is_started_last() -> None:
    before = compose.SERVICES["worker"]["depends_on"].keys()
    assert before == {"migrate", "topics", "redis"}
    assert compose.SERVICES["migrate"]["depends_on"].keys() == {"postgres"}
    assert compose.SERVICES["topics"]["depends_on"].keys() == {"kafka"}


@EACH
def test_what_it_mounts_is_there(name: str) -> None:
    for volume in compose.SERVICES[name].get("volumes", []):
        source, _, _ = volume.partition(":")
        assert not source.startswith(".") or (ROOT / source).is_dir(), volume


@EACH
def test_only_this_host_reaches_its_ports(name: str) -> None:
    for port in compose.SERVICES[name].get("ports", []):
        assert port.startswith("127.0.0.1:"), port


@pytest.mark.parametrize("topic", TOPICS)
def test_it_creates_the_topics_since_the_publisher_never_does(topic: str) -> None:
    script = compose.SERVICES["topics"]["command"][-1]
    assert topic in script
    assert re.search(r"--partitions \d+", script)


def test_the_broker_evicts_nothing_and_wants_a_password() -> None:
    words = compose.SERVICES["redis"]["command"]
    assert words[words.index("--maxmemory-policy") + 1] == "noeviction"
    assert "REDIS_PASSWORD" in words[words.index("--requirepass") + 1]


def test_the_example_names_every_secret_and_holds_none() -> None:
    wanted = set(re.findall(r"\$\{(\w+):\?", compose.FILE.read_text()))
    assert set(re.findall(r"\$\{(\w+)", compose.FILE.read_text())) == wanted
    lines = [one for one in compose.EXAMPLE.read_text().splitlines() if not one.startswith("#")]
    assert {line.partition("=")[0] for line in lines} == wanted
    assert all(line.endswith("=") for line in lines)


def test_worker_and_beat_are_probed_by_the_image() -> None:
    """As `docker compose ps` shows it; the image's own probe needs a database to ask."""
    assert "health" in image.only("HEALTHCHECK")
    for name in ("worker", "beat"):
        assert "healthcheck" not in compose.SERVICES[name]
        assert "DATABASE_URL" in compose.environment(name)
