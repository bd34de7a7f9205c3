"""A process of the product, without Celery around it: `python -m dev.bench.worker [--observed]`.

It reads what it is to do from its input, a JSON object a line, and answers in the same way.
"""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

from app import database, facts, kafka, publish
from app.expire import run_cycle
from app.report import CycleOptions, DrainOptions
from app.settings import KafkaSettings, TracingSettings
from app.telemetry import logs, otlp, traces
from dev.bench import by_hand, limits

Answer = dict[str, Any]

_LANES, _MOST_LANES = 4, 6


class Worker:
    """What it can do; each method is a command."""

    def __init__(self, *, observed: bool) -> None:
        self.engine = database.configured(_MOST_LANES + 2)
        self.telling: Callable[[], facts.Tell] = lambda: facts.nobody
        if observed:  # as in a worker of Celery
            from tasks.doors import telling  # noqa: PLC0415 - brings Celery

            logs.configure("json")
            self.telling = telling
            if TracingSettings.load().on:
                otlp.set_up()

    def ready(self) -> Answer:
        """It has started."""
        return {}

    def cycle(self, items: int, lanes: int = _LANES) -> Answer:
        """One cycle, as the task runs it."""
        run_id = str(uuid4())
        began = time.monotonic()
        with traces.here().run("cycle", run_id):
            report = run_cycle(
                self.engine,
                CycleOptions(batch_size=items, connections=lanes),
                run_id,
                tell=self.telling(),
                trace=traces.here().item,
            )
        seconds = time.monotonic() - began
        return {"seconds": seconds, "outcome": report.outcome, **report.result()}

    def burn_down(self, items: int) -> Answer:
        """Cycle after cycle, until one finds nothing."""
        began, line, expired = time.monotonic(), [], 0
        while (done := self.cycle(items))["ExpiredCount"]:
            expired += int(done["ExpiredCount"])
            line.append((expired, done["seconds"] * 1000 / int(done["ExpiredCount"])))
        return {"seconds": time.monotonic() - began, "expired": expired, "line": line}

    def cycles(self, count: int, items: int) -> Answer:
        """So many cycles; how large the process is then."""
        for _ in range(count):
            self.cycle(items)
        return self.memory()

    def ticks(self, interval: float, items: int, count: int) -> Answer:
        """A cycle at each tick, until so many have expired; how late each was."""
        late: list[float] = []
        busy, began = 0.0, time.monotonic()

        def note(fact: facts.Fact) -> None:
            if isinstance(fact, facts.AppointmentExpired):
                late.append(fact.late_seconds)

        while len(late) < count:
            time.sleep(interval - (time.monotonic() - began) % interval)
            start = time.monotonic()
            run_cycle(self.engine, CycleOptions(batch_size=items), str(uuid4()), tell=note)
            busy += time.monotonic() - start
        return {"late": late, "busy": busy}

    def by_hand(self, items: int) -> Answer:
        """The job as written by hand, on the same engine."""
        return {"rate": by_hand.run(self.engine, items)}

    def drain(self, batch: int) -> Answer:
        """Drain after drain, until one finds nothing."""
        sender = kafka.sender(KafkaSettings.load())
        began, published = time.monotonic(), 0
        while True:
            run_id = str(uuid4())
            options = DrainOptions(batch_size=batch)
            with traces.here().run("drain", run_id):
                report = publish.drain(self.engine, sender, options, run_id, tell=self.telling())
            published += report.published
            if report.published == 0:
                return {
                    "seconds": time.monotonic() - began,
                    "published": published,
                    "outcome": report.outcome,
                    "detail": report.detail,
                }

    def send_only(self, count: int) -> Answer:
        """The same producer, from memory."""
        return {"rate": limits.send_from_memory(kafka.sender(KafkaSettings.load()), count)}

    def mark_only(self, batch: int) -> Answer:
        """Reading and marking without sending."""
        return {"rate": limits.read_and_mark(self.engine, batch)}

    def memory(self) -> Answer:
        """Bytes now, and at the highest: of this program, not of the one that started it."""
        status = Path("/proc/self/status").read_text()
        now, peak = (_kilobytes(status, name) * 1024 for name in ("VmRSS", "VmHWM"))
        return {"now": now, "peak": peak}


def _kilobytes(status: str, name: str) -> int:
    line = next(line for line in status.splitlines() if line.startswith(f"{name}:"))
    return int(line.split()[1])


def main() -> None:
    """Answer until the input ends."""
    worker = Worker(observed="--observed" in sys.argv[1:])
    for line in sys.stdin:
        wish = json.loads(line)
        answer = getattr(worker, wish.pop("do"))(**wish)
        print(json.dumps(answer), flush=True)
    kafka.close_all()
    otlp.flush()


if __name__ == "__main__":
    main()
