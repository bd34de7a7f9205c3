"""Connections that are open and dead: nobody is told, new ones work."""

from dev.chaos.fault import fault
from dev.chaos.stage import LOG, Stage
from dev.servers.proxy import Proxy

_UNDONE = "never: the product must find out by itself (what hangs is reset after the judgement)"


def _cut(stage: Stage, proxy: Proxy) -> None:
    proxy.freeze()
    stage.afterwards.append(proxy.thaw)


@fault(
    "postgres-half-open",
    does="all open connections to PostgreSQL hang for ever; the host acknowledges every byte",
    undone=_UNDONE,
)
def postgres_half_open(stage: Stage) -> None:
    """Keepalives are answered: only a bound of our own ends it."""
    _cut(stage, stage.to_postgres)


@fault(
    "valkey-half-open",
    does="all open connections to Valkey hang for ever",
    undone=_UNDONE,
)
def valkey_half_open(stage: Stage) -> None:
    """Beat and workers wait for an answer that never comes."""
    _cut(stage, stage.to_valkey)


@fault("kafka-half-open", does="all open connections to Kafka hang for ever", undone=_UNDONE)
def kafka_half_open(stage: Stage) -> None:
    """The listener's too, which starts anew."""
    _cut(stage, stage.to_kafka)
    stage.listener.listen(stage.bootstrap, LOG)
