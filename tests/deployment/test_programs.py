"""What compose file, manifests, units and image start: each exists in the installed package."""

import re
from pathlib import Path

import pytest

from app import database
from app.kafka_options import DELIVERY_SECONDS
from app.relay import BATCH_SECONDS
from tests.deployment import compose, image, kubernetes, systemd
from tests.shipped import known

STATEMENT = float(database.STATEMENT_TIMEOUT.removesuffix("s")) + database.ANSWER_SECONDS
"""The longest that an item waits for PostgreSQL, one that never answers included."""
A_STOP = max(STATEMENT, BATCH_SECONDS + DELIVERY_SECONDS)
"""An item in hand, or a batch and its last wait for Kafka."""
UNITS = systemd.units()
STARTED = sorted(
    {
        tuple(words)
        for words in (
            *compose.commands(),
            *kubernetes.commands(),
            *map(systemd.command, UNITS.values()),
            *image.commands(),
        )
    }
)


@pytest.mark.parametrize("command", STARTED, ids=" ".join)
def test_the_installed_package_knows_every_command_and_option(
    installed: Path, tmp_path: Path, command: tuple[str, ...]
) -> None:
    if command[1] == "-c":  # no command of ours: test_image runs it
        return
    asked = known(installed, command, tmp_path)
    assert asked.returncode == 0, asked.stderr
    assert "Usage:" in asked.stdout


def test_every_stop_waits_for_what_is_in_hand() -> None:
    """S5, and longer than the pool needs for its goodbyes."""
    graces = {
        "compose": compose.seconds(compose.SERVICES["worker"]["stop_grace_period"]),
        "kubernetes": kubernetes.templates()["appointment-timeout-worker"]["spec"][
            "terminationGracePeriodSeconds"
        ],
        "systemd": float(UNITS["calendar-worker.service"]["TimeoutStopSec"]),
    }
    assert all(grace > 2 * A_STOP for grace in graces.values()), (graces, A_STOP)


def test_no_probe_gives_up_before_the_command_does() -> None:
    patience = [
        probe["timeoutSeconds"]
        for pod in kubernetes.containers().values()
        for probe in kubernetes.probes(pod)
    ]
    patience.append(compose.seconds(image.healthcheck()["timeout"]))
    assert min(patience) > STATEMENT


def test_a_worker_is_killed_alone_so_that_it_can_stop_its_children() -> None:
    for name, unit in UNITS.items():
        assert unit["KillMode"] == "mixed", name
        assert unit["Restart"] == "always", name
        assert re.fullmatch(r"/etc/\S+", unit["EnvironmentFile"])
