"""What is shipped: the wheel's contents, and that they are enough to run from an empty folder."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.shipped import source_in
from tests.system.foreign.crm import Crm, included

ROOT = Path(__file__).parent.parent


def test_the_wheel_holds_every_module_and_migration(tmp_path: Path) -> None:
    source = source_in(tmp_path)
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--wheel-dir", str(tmp_path), str(source)], check=True)
    [wheel] = tmp_path.glob("*.whl")
    held = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    shipped = {
        str(path.relative_to(ROOT))
        for folder in ("app", "tasks")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in {".py", ".mako"}
    }
    assert held == shipped | {"celeryconfig.py"}


@pytest.mark.parametrize("command", ["python -m app --help", "celery -A tasks report"])
def test_each_entry_works_from_an_empty_folder_with_runtime_dependencies_only(
    installed: Path, tmp_path: Path, command: str
) -> None:
    program, *arguments = command.split()
    done = subprocess.run(
        [installed / program, *arguments],
        cwd=tmp_path,
        env={
            "PATH": "/usr/bin:/bin",
            "CELERY_BROKER_URL": "redis://127.0.0.1:1/0",
            "DATABASE_URL": "postgresql://127.0.0.1:1/x",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_a_foreign_app_includes_the_tasks_of_the_wheel(installed: Path, tmp_path: Path) -> None:
    """By the code of docs/foreign-app.md, in a folder that holds nothing of ours."""
    crm = Crm(tmp_path, "redis://127.0.0.1:1/0", included())
    told = subprocess.run(
        [installed / "celery", "-A", "crm.celery_app", "report"],
        cwd=tmp_path,
        env=crm.environment,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "'task': 'calendar.appointment_timeout'" in told
