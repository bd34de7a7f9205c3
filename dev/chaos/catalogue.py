"""Every fault, in the order in which they are tried.

Kafka's come last: once messages lie with another broker, `app verify --kafka` has no topics left
to compare the whole outbox with.
"""

from dev.chaos import (
    faults_kafka,
    faults_links,
    faults_neighbours,
    faults_postgres,
    faults_processes,
    faults_valkey,
)
from dev.chaos.fault import Fault

_MODULES = (
    faults_postgres,
    faults_neighbours,
    faults_processes,
    faults_valkey,
    faults_links,
    faults_kafka,
)

FAULTS: dict[str, Fault] = {
    one.name: one for module in _MODULES for one in vars(module).values() if isinstance(one, Fault)
}
