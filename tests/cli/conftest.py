"""The operator's commands on the test's own database."""

import os
import subprocess
import sys
from collections.abc import Callable

import pytest

from dev.servers.postgres import Postgres

App = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def app(postgres: Postgres, database_name: str) -> App:
    """Run `python -m app …` on the test's database."""

    def run(*arguments: str, code: int = 0, **variables: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "DATABASE_URL": postgres.url(database_name), **variables}
        done = subprocess.run(
            [sys.executable, "-m", "app", *arguments],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, (done.stdout, done.stderr)
        return done

    return run
