"""Prometheus' own programs, and one night for the tests of this package."""

import os
import shutil
from collections.abc import Iterator

import pytest

from dev.servers.postgres import Postgres
from tests.alerts.night import Night, night


def _needed(program: str) -> str:
    """Where it is; skipped where it is missing, but never in CI, which installs it."""
    found = shutil.which(program)
    if found is None:
        reason = f"{program} is not on the PATH (Debian's package prometheus has it)"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return found


@pytest.fixture(scope="session")
def promtool() -> str:
    """Prometheus' checker of rules."""
    return _needed("promtool")


@pytest.fixture(scope="package")
def watched(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Night]:
    """A quiet night."""
    _needed("prometheus")
    with night(tmp_path_factory.mktemp("night"), postgres) as one:
        yield one
