"""A Kafka broker that fails on demand: librdkafka's mock cluster, inside the Python client.

It speaks the real protocol on a loopback port, to other processes too, and answers with the
errors it is told to. It keeps 5 MB a partition and has no topic administration.
"""

import ctypes
from collections.abc import Callable, Mapping
from ctypes import c_char_p, c_int, c_int16, c_int32, c_size_t, c_void_p
from types import TracebackType
from typing import Any, Self, cast

from confluent_kafka import cimpl

from dev.servers.process import ServerError

# Kinds of request that `fail` can hit, by their numbers in the Kafka protocol.
PRODUCE = 0
FETCH = 1
METADATA = 3
INIT_PRODUCER_ID = 22

_BROKER = 1  # number of the only one
_NOBODY = -1
_PRODUCER = 0  # a kind of client in librdkafka; the mock cluster lives inside one
_PREFIX = "rd_kafka_"
# Looking a name up in the extension also finds it in the librdkafka that it is linked to.
_library = ctypes.CDLL(cimpl.__file__)


def _function(name: str, result: type[Any] | None, *arguments: type[Any]) -> Callable[..., Any]:
    function = getattr(_library, _PREFIX + name, None)
    if function is None:
        raise ServerError(f"this confluent-kafka has no mock cluster: {_PREFIX}{name} is missing")
    function.restype = result
    function.argtypes = arguments
    return cast("Callable[..., Any]", function)


_conf_new = _function("conf_new", c_void_p)
_conf_set = _function("conf_set", c_int, c_void_p, c_char_p, c_char_p, c_char_p, c_size_t)
_client_new = _function("new", c_void_p, c_int, c_void_p, c_char_p, c_size_t)
_client_destroy = _function("destroy", None, c_void_p)
_cluster_new = _function("mock_cluster_new", c_void_p, c_void_p, c_int)
_cluster_destroy = _function("mock_cluster_destroy", None, c_void_p)
_bootstraps = _function("mock_cluster_bootstraps", c_char_p, c_void_p)
_topic_create = _function("mock_topic_create", c_int, c_void_p, c_char_p, c_int, c_int)
_topic_set_error = _function("mock_topic_set_error", None, c_void_p, c_char_p, c_int)
_push_errors = _function(
    "mock_push_request_errors_array", None, c_void_p, c_int16, c_size_t, ctypes.POINTER(c_int)
)
_clear_errors = _function("mock_clear_request_errors", None, c_void_p, c_int16)
_set_leader = _function("mock_partition_set_leader", c_int, c_void_p, c_char_p, c_int32, c_int32)
_set_down = _function("mock_broker_set_down", c_int, c_void_p, c_int32)
_set_up = _function("mock_broker_set_up", c_int, c_void_p, c_int32)
_set_rtt = _function("mock_broker_set_rtt", c_int, c_void_p, c_int32, c_int)


class MockKafka:
    """One mock broker with `topics`, name to number of partitions, from now until `close`."""

    def __init__(self, topics: Mapping[str, int] | None = None) -> None:
        reason = ctypes.create_string_buffer(512)
        conf = _conf_new()
        _conf_set(conf, b"log_level", b"0", reason, len(reason))
        self._client = _client_new(_PRODUCER, conf, reason, len(reason))
        self._cluster = _cluster_new(self._client, 1) if self._client else None
        if not self._cluster:
            raise ServerError(f"librdkafka cannot make a mock cluster: {reason.value.decode()}")
        self.bootstrap: str = _bootstraps(self._cluster).decode()
        """`127.0.0.1:PORT`, what clients call `bootstrap.servers`."""
        for topic, partitions in (topics or {}).items():
            if code := _topic_create(self._cluster, topic.encode(), partitions, 1):
                self.close()
                raise ServerError(f"the mock cluster cannot create topic {topic}: error {code}")

    def fail(self, *codes: int, api: int = PRODUCE) -> None:
        """Answer the next requests of the kind `api` with `codes`, one each, in this order.

        A code is a Kafka error number such as `KafkaError.TOPIC_AUTHORIZATION_FAILED`;
        `KafkaError._TRANSPORT` closes the connection instead.
        """
        _push_errors(self._cluster, api, len(codes), (c_int * len(codes))(*codes))

    def mend(self) -> None:
        """Forget what `fail` was told and has not come to pass yet."""
        for api in (PRODUCE, FETCH, METADATA, INIT_PRODUCER_ID):
            _clear_errors(self._cluster, api)

    def leaderless(self, topic: str, partition: int = 0) -> None:
        """Let a partition have no leader, until `lead`."""
        _set_leader(self._cluster, topic.encode(), partition, _NOBODY)

    def lead(self, topic: str, partition: int = 0) -> None:
        """Let it have one again."""
        _set_leader(self._cluster, topic.encode(), partition, _BROKER)

    def topic_error(self, topic: str, code: int) -> None:
        """Answer questions about `topic` with `code` from now on; 0 ends it.

        A producer that knows the topic notices when it asks again for its metadata.
        """
        _topic_set_error(self._cluster, topic.encode(), code)

    def down(self) -> None:
        """Close all connections and refuse new ones until `up`; what was stored stays."""
        _set_down(self._cluster, _BROKER)

    def up(self) -> None:
        """End what `down` began."""
        _set_up(self._cluster, _BROKER)

    def round_trip(self, milliseconds: int) -> None:
        """Let every request take this long from now on."""
        _set_rtt(self._cluster, _BROKER, milliseconds)

    def close(self) -> None:
        """End the broker; its port is closed and its messages are gone. Harmless when repeated."""
        if self._cluster:
            _cluster_destroy(self._cluster)
            _client_destroy(self._client)
            self._cluster = None

    def __enter__(self) -> Self:
        """Return the broker, which runs already."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it, whatever happened."""
        self.close()
