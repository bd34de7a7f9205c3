"""The workers' role, as the shipped file makes it."""

import subprocess
from pathlib import Path

from dev.servers.postgres import Postgres

FILE = Path(__file__).parent.parent / "ops" / "postgres" / "worker-role.sql"


def make(server: Postgres, database: str, role: str) -> None:
    """Run the file in this database, as an owner would."""
    psql = [str(server.bin_dir / "psql"), server.url(database), "-q", "-v", "ON_ERROR_STOP=1"]
    made = subprocess.run(
        [*psql, "-v", f"role={role}", "-f", str(FILE)], capture_output=True, text=True, check=False
    )
    assert made.returncode == 0, made.stderr
