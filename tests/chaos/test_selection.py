"""A bounded selection of `make chaos`: one fault of each kind, durations scaled down."""

import os
import shutil
import subprocess
import sys

import pytest

from dev.processes import ROOT

EMBEDDED = (
    "postgres-immediate",
    "backends-terminated",
    "valkey-killed",
    "kafka-down",
    "children-killed",
    "postgres-half-open",
)
APACHE = ("kafka-down", "kafka-frozen")
MISSING = [program for program in ("mvn", "java") if shutil.which(program) is None]


def survives(*arguments: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "dev.chaos", "--short", "--seed", "1", *arguments],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout


def test_the_product_survives_faults_of_every_kind() -> None:
    survives("--kafka", "embedded", "--only", *EMBEDDED)


@pytest.mark.skipif(
    bool(MISSING) and "CI" not in os.environ, reason=f"Apache Kafka needs {' and '.join(MISSING)}"
)
def test_the_product_survives_apache_kafka_killed_and_frozen() -> None:
    survives("--kafka", "apache", "--only", *APACHE)


def test_a_fault_that_does_not_exist_is_refused_in_one_sentence() -> None:
    with pytest.raises(AssertionError, match="there is no fault earthquake"):
        survives("--only", "earthquake")
