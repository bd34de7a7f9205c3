"""Redis as the broker, each fault planted on a real server."""

import shutil
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from app.doctor import examine
from app.doctor.complaint import Complaint
from app.doctor.redis import judged
from dev.servers.port import free_port
from dev.servers.valkey import Valkey
from tests.doctor.patient import prescribed
from tests.neighbour import wait_until

Start = Callable[..., Valkey]


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Start a broker that `CELERY_BROKER_URL` names."""
    with ExitStack() as running:

        def started(**options: Any) -> Valkey:
            place = tmp_path / str(free_port())
            server: Valkey = running.enter_context(Valkey(place, **options))
            monkeypatch.setenv("CELERY_BROKER_URL", server.url)
            return server

        yield started


def found() -> list[Complaint]:
    return list(examine("redis"))


def command(server: Valkey, *words: str) -> Any:
    with Redis.from_url(server.url) as client:
        return client.execute_command(*words)


def mend(server: Valkey, complaint: Complaint, user: str = "…") -> None:
    for statement in prescribed(complaint):
        words = statement.replace("…", user).split()
        command(server, *[word.strip('"') for word in words])


def test_a_broker_as_it_should_be(start: Start) -> None:
    start(password="p ä/ss@word")  # noqa: S106
    assert found() == []


@pytest.mark.parametrize("login", [":wr0ng@", ""])
def test_a_password_that_is_refused(
    start: Start, monkeypatch: pytest.MonkeyPatch, login: str
) -> None:
    server = start(password="right")  # noqa: S106
    monkeypatch.setenv("CELERY_BROKER_URL", server.url.replace(":right@", login))
    [complaint] = found()
    assert "the user or the password is refused" in complaint.found
    assert complaint.serious
    assert "wr0ng" not in f"{complaint}"


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("redis://127.0.0.1:{free}/0", "nobody answers at its host and port"),
        ("redis://no-such-host.invalid/0", "nobody answers at its host and port"),
        ("redis://:s3cret/@127.0.0.1/0", "it cannot be understood"),
        ("redis://127.0.0.1/0?s3cret=1", "it cannot be understood"),
    ],
)
def test_an_address_that_leads_nowhere(
    monkeypatch: pytest.MonkeyPatch, url: str, told: str
) -> None:
    monkeypatch.setenv("CELERY_BROKER_URL", url.format(free=free_port()))
    [complaint] = found()
    assert told in complaint.found
    assert complaint.serious
    assert "s3cret" not in f"{complaint}"


def test_a_host_that_never_answers_costs_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        monkeypatch.setenv("CELERY_BROKER_URL", f"redis://{address}/0")
        [complaint] = found()
    assert "its host does not answer" in complaint.found


def test_a_socket_is_an_address_too(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    path = Path(f"/tmp/doctor-{free_port()}.sock")  # noqa: S108 - its length is limited
    start(settings={"unixsocket": str(path)})
    monkeypatch.setenv("CELERY_BROKER_URL", f"redis+socket://{path}?virtual_host=1")
    assert found() == []


def test_a_replica_takes_no_tick(start: Start) -> None:
    primary, replica = start(), start()
    command(replica, "REPLICAOF", "127.0.0.1", str(primary.port))
    [complaint] = found()
    assert complaint.found == "It is a replica: no tick can be sent there."
    assert complaint.serious


def test_a_cluster_is_not_for_celery(start: Start) -> None:
    start(settings={"cluster-enabled": "yes", "cluster-port": str(free_port())})
    [complaint] = found()
    assert complaint.found.startswith("It is a Redis Cluster")
    assert complaint.serious


def test_a_policy_that_drops_messages_is_changed_by_the_remedy(start: Start) -> None:
    server = start(settings={"maxmemory-policy": "allkeys-lru"})
    assert found() == []  # without a limit nothing is dropped
    command(server, "CONFIG", "SET", "maxmemory", "1gb")
    [complaint] = found()
    assert complaint.found.startswith("maxmemory-policy is allkeys-lru")
    assert complaint.serious
    mend(server, complaint)
    assert found() == []


def test_memory_that_is_nearly_full_or_full(start: Start) -> None:
    server = start()
    used = int(command(server, "INFO", "memory")["used_memory"])
    command(server, "CONFIG", "SET", "maxmemory", str(used * 21 // 20))
    [complaint] = found()
    assert "of its memory are used" in complaint.found
    assert not complaint.serious
    command(server, "CONFIG", "SET", "maxmemory", str(used // 2))
    assert [complaint.serious for complaint in found()] == [True]
    command(server, "CONFIG", "SET", "maxmemory", "1gb")
    assert found() == []


def test_a_snapshot_that_fails_is_given_up_by_the_remedy(start: Start) -> None:
    server = start(settings={"save": "3600 1000000"})
    shutil.rmtree(server.directory)
    command(server, "BGSAVE")
    wait_until(found, "the snapshot has failed")
    [complaint] = found()
    assert complaint.found.startswith("Its last snapshot failed")
    assert complaint.serious
    mend(server, complaint)
    assert found() == []


def test_what_a_managed_redis_forbids_is_no_complaint(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = start()
    command(server, "ACL", "SETUSER", "managed", "on", ">pw", "~*", "&*", "+@all", "-config")
    monkeypatch.setenv("CELERY_BROKER_URL", server.url.replace("//", "//managed:pw@"))
    assert found() == []
    command(server, "ACL", "SETUSER", "managed", "-info")
    [complaint] = found()
    assert "may not call INFO" in complaint.found
    assert not complaint.serious


@pytest.mark.parametrize("prefix", ["", "calendar:"])
def test_a_user_whose_rights_do_not_suffice_gets_them_by_the_remedies(
    start: Start, monkeypatch: pytest.MonkeyPatch, prefix: str
) -> None:
    """Under the prefix, if there is one: rights on the same names without it do not help."""
    server = start()
    makes = ("on", ">pw", "+@all", "~calendar.*", "resetchannels", f"&{prefix}*")
    command(server, "ACL", "SETUSER", "narrow", *makes, *(() if prefix else ("resetkeys",)))
    monkeypatch.setenv("CELERY_BROKER_URL", server.url.replace("//", "//narrow:pw@"))
    monkeypatch.setenv("CELERY_BROKER_KEY_PREFIX", prefix)
    keys, *channels = found()
    assert f"may not use the keys {prefix}*" in keys.found
    mend(server, keys, user="narrow")
    if prefix:
        [complaint] = channels
        assert f"may not listen to {prefix}/0.calendar.pidbox and {prefix}/0." in complaint.found
        mend(server, complaint, user="narrow")
    assert found() == []


def test_a_version_that_nobody_maintains(start: Start) -> None:
    """No such server can be had any more: what one says of itself is altered."""
    with Redis.from_url(start().url) as client:
        said = client.info()
    assert list(judged(said)) == []
    [complaint] = judged({**said, "redis_version": "5.0.14"})
    assert complaint.found.startswith("Redis is of version 5.0.14")
    assert not complaint.serious
