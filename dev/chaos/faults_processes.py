"""The product's own processes die, hang, double, restart, or live in another time."""

import shutil
from pathlib import Path

from dev.chaos import skewed_clock
from dev.chaos.fault import fault
from dev.chaos.product import BEAT, WORKERS
from dev.chaos.stage import Stage

_HOUR = 3600


@fault(
    "children-killed",
    does="every half second all children of one of the workers are killed (SIGKILL)",
    undone="they are left alone",
)
def children_killed(stage: Stage) -> None:
    """In the middle of whatever they do."""
    for _ in stage.pace.beats(0.5, full=60, short=6):
        stage.product.kill_children(stage.random.choice(WORKERS))


@fault(
    "workers-killed",
    does="the workers are killed in turn (SIGKILL, with their children), again and again",
    undone="each is started again at once",
)
def workers_killed(stage: Stage) -> None:
    """One works while the other one starts."""
    for _ in stage.pace.times(full=5, short=1):
        for name in WORKERS:
            stage.product.kill(name)
            stage.product.start(name)


@fault("worker-frozen", does="one worker hangs (SIGSTOP)", undone="it goes on (SIGCONT)")
def worker_frozen(stage: Stage) -> None:
    """It wakes in the middle of what others have long done."""
    with stage.product.frozen(stage.random.choice(WORKERS)):
        stage.pace.hold(full=60, short=6)


@fault("two-beats", does="a second beat runs beside the first", undone="it is stopped")
def two_beats(stage: Stage) -> None:
    """Every tick comes twice."""
    stage.product.start("beat-2")
    try:
        stage.pace.hold(full=40, short=5)
    finally:
        stage.product.stop("beat-2")


@fault(
    "beat-killed",
    does="beat is killed (SIGKILL) and started again beside a torn schedule file, again and again",
    undone="it runs",
)
def beat_killed(stage: Stage) -> None:
    """Ticks go on, at once."""
    for _ in stage.pace.times(full=5, short=2):
        stage.product.kill(BEAT)
        stage.product.start(BEAT)


@fault(
    "rolling-restart",
    does="the workers are stopped (TERM) and started in turn, again and again",
    undone="both run",
)
def rolling_restart(stage: Stage) -> float:
    """As every deployment does; the longest shutdown."""
    longest = 0.0
    for _ in stage.pace.times(full=5, short=1):
        for name in WORKERS:
            longest = max(longest, stage.product.stop(name))
            stage.product.start(name)
    return longest


def _in_another_time(stage: Stage, seconds: int) -> None:
    path = stage.directory / "skewed"
    path.mkdir(exist_ok=True)
    shutil.copyfile(Path(skewed_clock.__file__), path / "sitecustomize.py")
    stage.product.start("worker-c", PYTHONPATH=str(path), CHAOS_CLOCK_SHIFT=str(seconds))
    try:
        stage.pace.hold(full=40, short=5)
    finally:
        stage.product.stop("worker-c")


@fault(
    "clock-ahead",
    does="a third worker, whose Python clocks are an hour ahead, takes its share of the ticks",
    undone="it is stopped",
)
def clock_ahead(stage: Stage) -> None:
    """It takes every tick for stale, and must not expire anything early."""
    _in_another_time(stage, _HOUR)


@fault(
    "clock-behind",
    does="a third worker, whose Python clocks are an hour behind, takes its share of the ticks",
    undone="it is stopped",
)
def clock_behind(stage: Stage) -> None:
    """The one clock is PostgreSQL's."""
    _in_another_time(stage, -_HOUR)
