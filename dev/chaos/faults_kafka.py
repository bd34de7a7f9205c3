"""Kafka goes away, hangs, or refuses."""

from dev.chaos.errors import refusing_broker
from dev.chaos.fault import fault
from dev.chaos.kafkas import APACHE
from dev.chaos.stage import Stage

KAFKA_STORAGE_ERROR = 56
NOT_ENOUGH_REPLICAS = 19
MSG_SIZE_TOO_LARGE = 10
BURST = 12


@fault(
    "kafka-down",
    does="Kafka is killed and stays down for many drains"
    " (the embedded broker, which would forget all, is cut off instead)",
    undone="it is started again",
)
def kafka_down(stage: Stage) -> None:
    """Messages wait, and spend no tries."""
    with stage.kafka_away():
        stage.pace.hold(full=150, short=10)


@fault(
    "kafka-restarted",
    does="Kafka is shut down in good order and started again, again and again",
    undone="it is back at once",
    kinds=(APACHE,),
)
def kafka_restarted(stage: Stage) -> None:
    """The log stays."""
    for _ in stage.pace.times(full=3, short=1):
        stage.kafka.restart()


@fault("kafka-frozen", does="Kafka hangs (SIGSTOP) for many drains", undone="it goes on (SIGCONT)")
def kafka_frozen(stage: Stage) -> None:
    """What was sent may yet be written, after it was given up."""
    stage.kafka.freeze()
    try:
        stage.pace.hold(full=60, short=10)
    finally:
        stage.kafka.thaw()


@fault(
    "kafka-refuses",
    does="the workers talk to a broker that answers a burst of writes every second with an error,"
    " in turn: disk full (56), too few replicas (19), message too large (10)",
    undone="the workers go back to Kafka; what was set aside is put back (`outbox requeue --all`)",
)
def kafka_refuses(stage: Stage) -> None:
    """Retried, retried, and tried alone."""
    with refusing_broker(stage) as broker:
        codes = (KAFKA_STORAGE_ERROR, NOT_ENOUGH_REPLICAS, MSG_SIZE_TOO_LARGE)
        for number, _ in enumerate(stage.pace.beats(1, full=60, short=6)):
            broker.fail(*[codes[number % len(codes)]] * BURST)
