"""Prometheus' own programs, and one night for the tests of this package."""

from collections.abc import Iterator

import pytest

from dev.servers.postgres import Postgres
from tests.alerts.night import Night, night
from tests.programs import needed


@pytest.fixture(scope="session")
def promtool() -> str:
    """Prometheus' checker of rules."""
    return needed("promtool", "prometheus")


@pytest.fixture(scope="package")
def watched(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Night]:
    """A quiet night."""
    needed("prometheus", "prometheus")
    with night(tmp_path_factory.mktemp("night"), postgres) as one:
        yield one
