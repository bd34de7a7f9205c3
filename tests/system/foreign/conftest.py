"""A foreign app beside the product, on the test's Valkey."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from dev.servers.valkey import Valkey
from tests.system.foreign.crm import ALONE, Crm, included


@pytest.fixture
def crm(tmp_path: Path, valkey: Valkey) -> Iterator[Crm]:
    """It knows nothing of our tasks."""
    made = Crm(tmp_path / "alone", valkey.url, ALONE)
    yield made
    made.close()


@pytest.fixture
def crm_with_ours(tmp_path: Path, valkey: Valkey) -> Iterator[Crm]:
    """It includes our tasks, by the page's own code."""
    made = Crm(tmp_path / "included", valkey.url, included())
    yield made
    made.close()


@pytest.fixture
def our_environment(environment: dict[str, str]) -> dict[str, str]:
    """What a worker needs to serve our tasks; the broker is the foreign app's own affair."""
    hurried = {"APPOINTMENT_TIMEOUT_INTERVAL_SECONDS": "1"}
    return {name: v for name, v in environment.items() if name != "CELERY_BROKER_URL"} | hurried
