"""The proxy carries, cuts, and leaves hanging; the other broker says what it lacks."""

import socket
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from dev.servers.apache_kafka import ApacheKafka
from dev.servers.port import LOOPBACK, free_port
from dev.servers.process import ServerError
from dev.servers.proxy import Proxy

SECONDS = 10.0


def echo(connection: socket.socket) -> None:
    with closing(connection), suppress(OSError):
        while data := connection.recv(1024):
            connection.sendall(data)


@pytest.fixture
def target() -> Iterator[int]:
    """A server that sends back what it gets."""
    with socket.create_server((LOOPBACK, 0)) as server:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    threading.Thread(target=echo, args=server.accept()[:1], daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]
        with suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def proxy(target: int) -> Iterator[Proxy]:
    with Proxy(target) as running:
        yield running


def client(proxy: Proxy) -> socket.socket:
    return socket.create_connection((LOOPBACK, proxy.port), timeout=SECONDS)


def answered(connection: socket.socket) -> bytes:
    connection.sendall(b"hello")
    return connection.recv(1024)


def test_bytes_go_both_ways(proxy: Proxy) -> None:
    with client(proxy) as one, client(proxy) as two:
        assert answered(one) == answered(two) == b"hello"


def test_frozen_connections_swallow_and_stay_open_and_new_ones_work(proxy: Proxy) -> None:
    with client(proxy) as old:
        assert answered(old) == b"hello"
        assert proxy.freeze() == 1
        old.settimeout(0.3)
        with pytest.raises(TimeoutError):
            answered(old)
        with client(proxy) as new:
            assert answered(new) == b"hello"
        with pytest.raises(TimeoutError):
            old.recv(1)
        old.settimeout(SECONDS)
        proxy.thaw()
        with pytest.raises(ConnectionResetError):
            old.recv(1)


def test_cut_resets_every_connection_until_it_is_mended(proxy: Proxy) -> None:
    with client(proxy) as old:
        assert answered(old) == b"hello"
        proxy.cut()
        with pytest.raises(ConnectionError):
            answered(old)
        with pytest.raises(ConnectionError), client(proxy) as new:
            answered(new)
    proxy.mend()
    with client(proxy) as later:
        assert answered(later) == b"hello"


def test_a_target_that_refuses_is_a_reset() -> None:
    with Proxy(free_port()) as proxy, pytest.raises(ConnectionError), client(proxy) as one:
        answered(one)


def test_apache_kafka_says_in_one_sentence_what_it_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ServerError, match=r"^Apache Kafka needs java, which is not on the PATH$"):
        ApacheKafka(tmp_path)
