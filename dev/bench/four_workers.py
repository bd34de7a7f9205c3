"""Four processes on one backlog, beside pgbench with four connections and the same SQL."""

import subprocess
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from uuid import UUID

from sqlalchemy import text

from app import database
from app.domain.outbox import TOPICS
from app.store import claims, endings
from dev.bench import backlog, rounds
from dev.bench.crew import side_by_side
from dev.bench.figure import Measured, StructureError
from dev.bench.stage import Database, Stage

WORKERS = 4
_FIELDS = ",".join(f'"{number}":"{"x" * 36}"' for number in range(9))
_HEADERS = ",".join(f'"{number}":"{"x" * 46}"' for number in range(2))

# What the law would decide stands here as constants: pgbench has no law.
_VALUES = {
    "as_of": "now()",
    "appointment_version": "2",
    "appointment_status": "'Expired'",
    "cancelled_by": "NULL",
    "slot_version": "2",
    "slot_status": "'Available'",
    "event_version": "2",
    "event_status": "'Cancelled'",
    "cancel_reason": "'expired'",
    "key_1": ":appointment_id",
    "key_2": ":event_id",
    **{f"message_id_{n}": "gen_random_uuid()" for n in (1, 2)},
    **{f"topic_{n}": f"'{TOPICS[n - 1]}'" for n in (1, 2)},
    **{f"payload_{n}": f"'{{{_FIELDS}}}'" for n in (1, 2)},
    **{f"headers_{n}": f"'{{{_HEADERS}}}'" for n in (1, 2)},
}
_SCRIPT = rf"""
BEGIN;
SELECT claim.*, appointment_pending_expires_at AS after_at, appointment_id AS after_id
FROM ({claims.CLAIM_NEXT.sql.replace(":as_of", "now()")}) claim
\gset
{{save}};
COMMIT;
"""


def _script() -> str:
    save = endings.SAVE_ENDING.sql
    for name, value in _VALUES.items():
        save = save.replace(f":{name}", value)
    return _SCRIPT.replace("{save}", save.strip())


def _expired(made: Database) -> int:
    with made.engine.begin() as connection:
        return int(
            connection.execute(
                text("SELECT count(*) FROM calendar.appointments WHERE status = 'Expired'")
            ).scalar_one()
        )


def _pgbench(stage: Stage, filled: Database, count: int) -> float:
    script = stage.directory / "pgbench.sql"
    script.write_text(_script())
    with stage.database(filled) as made:
        argv: list[str | Path] = [
            stage.postgres.bin_dir / "pgbench",
            "-n",
            "-M",
            "prepared",
            "-f",
            script,
        ]
        argv += ["-c", str(WORKERS), "-j", "2", "-t", str(count // WORKERS)]
        argv += ["-D", "after_at=-infinity", "-D", f"after_id={UUID(int=0)}", made.url]
        session = " ".join(f"-c {name}={value}" for name, value in database.SESSION.items())
        began = time.monotonic()
        ran = subprocess.run(
            argv,
            env={"PGOPTIONS": session, "LC_ALL": "C"},
            capture_output=True,
            text=True,
            check=False,
        )
        seconds = time.monotonic() - began
        if ran.returncode or _expired(made) != count:
            raise StructureError(f"pgbench expired {_expired(made)} of {count}: {ran.stderr}")
    return count / seconds


def _product(stage: Stage, filled: Database, count: int, processes: int = WORKERS) -> float:
    with stage.database(filled) as made, ExitStack() as closing:
        workers = [closing.enter_context(stage.worker(made)) for _ in range(processes)]
        began = time.monotonic()
        done = side_by_side(workers, "burn_down", items=200)
        seconds = time.monotonic() - began
        if sum(one["expired"] for one in done) != count:
            raise StructureError(f"{done} is not {count} together")
        backlog.check_whole(made.engine, count)
    return count / seconds


def four_workers(stage: Stage) -> Measured:
    """Each appointment once, whoever takes it."""
    count = stage.size(20_000, 1_000)
    with stage.database() as filled:
        backlog.bookings(filled.engine, count)
        filled.engine.dispose()
        found = rounds.side_by_side(
            stage.size(3, 1),
            {
                "pgbench": lambda: _pgbench(stage, filled, count),
                "four workers": lambda: _product(stage, filled, count),
            },
            warm_up=0,
        )
    return Measured(rounds.divide(found["four workers"], found["pgbench"]), found)


def by_processes(stage: Stage) -> Measured:
    """What further processes bring, on one backlog."""
    count, processes = stage.size(10_000, 400), stage.size((1, 2, 3, 4), (1, 4))
    with stage.database() as filled:
        backlog.bookings(filled.engine, count)
        filled.engine.dispose()
        sides = {
            f"{number} processes": partial(_product, stage, filled, count, number)
            for number in processes
        }
        found = rounds.side_by_side(stage.size(3, 1), sides, warm_up=0)
    line = [(number, side.median) for number, side in zip(processes, found.values(), strict=True)]
    ratio = rounds.divide(found["4 processes"], found["1 processes"])
    return Measured(ratio, found, series={"items/s by processes": line})
