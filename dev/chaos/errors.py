"""A broker that refuses what it is told to, in the place of Kafka for a while."""

from collections.abc import Iterator
from contextlib import contextmanager

from dev.chaos import records
from dev.chaos.product import WORKERS
from dev.chaos.stage import LOG, PARTITIONS, Stage
from dev.processes import command
from dev.servers.mock_kafka import MockKafka

_LOG = "refusing broker"


@contextmanager
def refusing_broker(stage: Stage) -> Iterator[MockKafka]:
    """Workers and listener move over to it for the block; never both brokers at once."""
    with MockKafka(PARTITIONS) as broker:
        stage.topics_are_whole = False
        move(stage, broker.bootstrap, _LOG)
        try:
            yield broker
        finally:
            move(stage, stage.bootstrap, LOG)
    if _set_aside(stage):
        command(["app", "outbox", "requeue", "--all"], stage.product.environment)


def _set_aside(stage: Stage) -> bool:
    with stage.judges.connect() as connection:
        return bool(
            records.value(
                connection,
                """SELECT EXISTS (SELECT FROM calendar.outbox_messages
                WHERE set_aside_at IS NOT NULL AND published_at IS NULL)""",
            )
        )


def move(stage: Stage, bootstrap: str, log: str) -> None:
    """Stop the workers, hear the last of the one broker, and go on with the other."""
    stage.product.stop(*WORKERS)
    stage.heard_all()
    stage.listener.listen(bootstrap, log)
    stage.product.start(*WORKERS, KAFKA_BOOTSTRAP_SERVERS=bootstrap)
