"""`python -m app …` as a process of its own, as an operator runs it."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from sqlalchemy import Engine

ROOT = Path(__file__).parents[2]


def environment(engine: Engine, **more: str) -> Mapping[str, str]:
    """Nothing of the caller's settings, but this database."""
    kept = {name: v for name, v in os.environ.items() if name in {"PATH", "HOME", "LANG"}}
    return {**kept, "DATABASE_URL": engine.url.render_as_string(hide_password=False), **more}


def app(engine: Engine, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run it to its end."""
    return subprocess.run(
        [sys.executable, "-m", "app", *arguments],
        cwd=ROOT,
        env=environment(engine, **more),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
