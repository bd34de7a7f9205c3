"""Valkey goes away, or hangs."""

from dev.chaos.fault import fault
from dev.chaos.stage import Stage


@fault(
    "valkey-killed",
    does="Valkey is killed five times in ten seconds, and comes back empty each time",
    undone="it is started again at once",
)
def valkey_killed(stage: Stage) -> None:
    """Ticks and connections are gone each time."""
    for _ in range(5):
        stage.valkey.kill()
        stage.valkey.start()
        stage.pace.hold(full=1.8, short=1)


@fault(
    "valkey-down",
    does="Valkey is down for several ticks, and comes back empty",
    undone="it is started again",
)
def valkey_down(stage: Stage) -> None:
    """Nothing ticks."""
    stage.valkey.kill()
    try:
        stage.pace.hold(full=60, short=5)
    finally:
        stage.valkey.start()


@fault("valkey-frozen", does="Valkey hangs (SIGSTOP)", undone="it goes on (SIGCONT)")
def valkey_frozen(stage: Stage) -> None:
    """Connections stay open and nothing answers."""
    stage.valkey.freeze()
    try:
        stage.pace.hold(full=40, short=5)
    finally:
        stage.valkey.thaw()
