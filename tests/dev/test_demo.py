"""`make demo` and `make up` as people meet them: what they show, how they end, what they leave."""

import os
import re
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from redis import Redis

from app.domain.outbox import TOPICS
from dev.demo_checks import REASON, check_all
from dev.demo_sample import CONFIRMED, LAPSED, SELLABLE, WAITING, Booked, Kind, State
from dev.servers.consumer import Record
from dev.servers.database import autocommit
from dev.servers.family import family, wait_gone
from dev.servers.port import LOOPBACK, free_port
from dev.servers.postgres import Postgres
from dev.servers.stack import CELERY_BROKER_URL, DATABASE_URL, KAFKA_BOOTSTRAP_SERVERS, Stack
from tests.world import World

ROOT = Path(__file__).parents[2]
GIVEN = (DATABASE_URL, CELERY_BROKER_URL, KAFKA_BOOTSTRAP_SERVERS)
END_SECONDS = 60.0  # generous: all of it is gone within a few
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="families are read out of /proc")


class Launched:
    """`python -m MODULE`, without a terminal, and every process that it was seen to start."""

    def __init__(self, module: str, *arguments: str, **environment: str) -> None:
        clean = {name: value for name, value in os.environ.items() if name not in GIVEN}
        self.process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            cwd=ROOT,
            env={**clean, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.output = ""
        self.members: set[int] = set()
        self.data: set[Path] = set()

    def until(self, wanted: str) -> str:
        """Read to the line that matches `wanted`, and return that line."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.output += line
            self.look_at_family()
            if re.search(wanted, line):
                return line
        pytest.fail(f"no {wanted!r} in:\n{self.output}\n{self.end()}")

    def look_at_family(self) -> None:
        """Remember who is there, and where PostgreSQL keeps its data."""
        for pid in family(self.process.pid):
            self.members.add(pid)
            with suppress(OSError):
                words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
                if "-D" in words and words[0].endswith("postgres"):
                    self.data.add(Path(words[words.index("-D") + 1]).parent)

    def pid_of(self, part: str) -> int:
        """The process of `celery -A tasks PART`."""
        return next(pid for pid in family(self.process.pid)[1:] if part in _command(pid))

    def end(self, number: signal.Signals | None = None) -> str:
        """Send a signal, wait for the end, and return what it wrote on stderr."""
        self.look_at_family()
        if number is not None:
            self.process.send_signal(number)
        output, errors = self.process.communicate(timeout=END_SECONDS * 2)
        self.output += output
        return errors

    @property
    def directory(self) -> Path | None:
        """The demo's own directory, if there is one."""
        found = list((ROOT / ".run" / "demo").glob(f"*-{self.process.pid}"))
        return found[0] if found else None

    def is_gone(self) -> bool:
        """Whether none of its processes is left."""
        return wait_gone(self.members, END_SECONDS)


def _command(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    except OSError:
        return []


Launch = Callable[..., Launched]


@pytest.fixture
def launch() -> Iterator[Launch]:
    """Start one; whatever the test does, nothing of it survives."""
    all_of_them: list[Launched] = []

    def start(module: str, *arguments: str, **environment: str) -> Launched:
        all_of_them.append(Launched(module, *arguments, **environment))
        return all_of_them[-1]

    yield start
    for one in all_of_them:
        one.process.kill()
        one.process.communicate()
        for directory in (one.directory, *one.data):
            if directory is not None:
                wait_gone(one.members, END_SECONDS)
                shutil.rmtree(directory, ignore_errors=True)


def test_the_demo_shows_the_expiries_and_leaves_nothing(launch: Launch) -> None:
    demo = launch("dev.demo")
    demo.until("stopped and removed")
    assert demo.end() == ""
    assert demo.process.returncode == 0
    for shown in (*TOPICS, REASON, "Pending → Expired", "Booked → Available", "Booked → Expired"):
        assert shown in demo.output
    assert "✓ All 16 overdue appointments are Expired." in demo.output
    assert "✗" not in demo.output
    assert max(map(len, demo.output.splitlines())) <= 80
    assert demo.is_gone()
    assert demo.data
    assert not [left for left in (demo.directory, *demo.data) if left and left.exists()]


@pytest.mark.parametrize(
    ("variable", "address"),
    [
        (KAFKA_BOOTSTRAP_SERVERS, "{}"),
        (CELERY_BROKER_URL, "redis://:secret@{}/0"),
        (DATABASE_URL, "postgresql://somebody:secret@{}/calendar"),
    ],
)
def test_the_demo_says_in_one_sentence_which_given_server_is_away(
    launch: Launch, variable: str, address: str
) -> None:
    demo = launch("dev.demo", **{variable: address.format(f"{LOOPBACK}:{free_port()}")})
    errors = demo.end()
    assert demo.process.returncode == 1
    assert errors.startswith("The demo failed: ")
    assert errors.count("\n") == 1
    assert variable in errors
    assert "secret" not in errors + demo.output
    assert demo.directory is None


def test_the_demo_says_who_died_and_where_the_logs_are(launch: Launch) -> None:
    demo = launch("dev.demo")
    demo.until("Kafka acknowledged")
    os.kill(demo.pid_of("worker"), signal.SIGKILL)
    errors = demo.end()
    assert demo.process.returncode == 1
    assert errors.startswith("The demo failed: worker exited")
    assert demo.directory is not None
    assert str(demo.directory.relative_to(ROOT)) in errors
    assert "appointment expired" in (demo.directory / "worker.log").read_text()
    assert demo.is_gone()


def test_an_interrupted_demo_leaves_given_servers_as_they_were(
    launch: Launch, tmp_path: Path, postgres: Postgres, database_name: str, world: World
) -> None:
    """Somebody else's overdue appointment and queued task are not the demo's to take."""
    theirs = world.appointment()
    given = {DATABASE_URL: postgres.url(database_name)}
    with Stack(tmp_path, topics=dict.fromkeys(TOPICS, 3), given=given) as stack:
        broker = Redis.from_url(stack.environment[CELERY_BROKER_URL])
        broker.lpush("calendar.appointment_timeout", "theirs")
        databases = _databases(postgres)
        demo = launch("dev.demo", **stack.environment)
        demo.until("Kafka acknowledged")
        demo.end(signal.SIGINT)
        assert demo.process.returncode == 130
        assert demo.is_gone()
        assert demo.directory is None
        assert world.status(theirs) == "Pending"
        assert broker.lrange("calendar.appointment_timeout", 0, -1) == [b"theirs"]
        assert list(broker.info("keyspace")) == ["db0"]
        assert _databases(postgres) - databases == set()


def _databases(postgres: Postgres) -> set[str]:
    with autocommit(postgres.url()) as cursor:
        cursor.execute("SELECT datname FROM pg_database WHERE datname LIKE 'calendar_demo%'")
        return {name for (name,) in cursor.fetchall()}


def test_nothing_of_the_demo_survives_its_sudden_death(launch: Launch) -> None:
    demo = launch("dev.demo")
    demo.until("Kafka acknowledged")
    demo.end(signal.SIGKILL)
    assert len(demo.members) > 8
    assert demo.is_gone()


def test_up_shows_where_everything_is_and_ends_on_ctrl_c(launch: Launch, tmp_path: Path) -> None:
    up = launch("dev.up", str(tmp_path))
    up.until("20 appointments booked")
    up.until("The product is up")
    for name in ("Flower", "Metrics"):
        address = up.until(name).split()[-1]
        with urllib.request.urlopen(address, timeout=END_SECONDS) as answer:  # noqa: S310
            assert answer.status == 200
    up.until("cycle completed.*ExpiredCount=14")
    exports = dict(re.findall(r"export (\w+)=(\S+)", up.output))
    status = subprocess.run(
        [sys.executable, "-m", "app", "status", "--json"],
        cwd=ROOT,
        env={**os.environ, **{name: exports[name] for name in GIVEN}},
        capture_output=True,
        text=True,
        check=True,
    )
    assert '"backlog": 0' in status.stdout
    assert up.end(signal.SIGINT) == ""
    assert up.process.returncode == 0
    assert up.is_gone()


def test_up_keeps_its_data_and_ends_when_a_part_dies(launch: Launch, tmp_path: Path) -> None:
    first = launch("dev.up", str(tmp_path))
    first.until("The product is up")
    first.end(signal.SIGTERM)
    assert first.is_gone()
    second = launch("dev.up", str(tmp_path))
    second.until("nothing to do")
    second.until("The product is up")
    assert "appointments booked" not in second.output
    os.kill(second.pid_of("beat"), signal.SIGKILL)
    errors = second.end()
    assert second.process.returncode == 1
    assert errors.startswith("beat exited")
    assert "Sending due task" in errors
    assert second.is_gone()


def test_nothing_of_up_survives_its_sudden_death(launch: Launch, tmp_path: Path) -> None:
    up = launch("dev.up", str(tmp_path))
    up.until("The product is up")
    up.end(signal.SIGKILL)
    assert len(up.members) > 8
    assert up.is_gone()


# What the demo checks at its end, on a small story that is right, and then wrong in one respect.

AS_OF = datetime(2026, 5, 4, 12, tzinfo=UTC)
PENDING = State(
    status="Pending",
    version=1,
    updated_at=AS_OF - timedelta(days=1),
    slot="Booked",
    slot_version=2,
    bookable_until=AS_OF + timedelta(days=1),
    event="Scheduled",
    event_version=1,
    cancel_reason=None,
    pending=2,
    skipped=0,
)
EXPIRED = replace(
    PENDING,
    status="Expired",
    version=2,
    updated_at=AS_OF,
    slot="Available",
    slot_version=3,
    event="Cancelled",
    event_version=2,
    cancel_reason=REASON,
    pending=0,
    skipped=2,
)
TOO_LATE = replace(EXPIRED, slot="Expired", bookable_until=AS_OF - timedelta(hours=1))
AGREED = replace(PENDING, status="Confirmed", version=2, updated_at=AS_OF)
STORY: Mapping[Kind, State] = {
    SELLABLE: EXPIRED,
    LAPSED: TOO_LATE,
    CONFIRMED: AGREED,
    WAITING: PENDING,
}


class Story:
    """One appointment of each kind, and its messages."""

    def __init__(self) -> None:
        self.booked = [Booked(kind, uuid4(), uuid4(), AS_OF) for kind in STORY]
        self.after = {one.id: STORY[one.kind] for one in self.booked}
        self.before = {
            one.id: replace(PENDING, bookable_until=self.after[one.id].bookable_until)
            for one in self.booked
        }
        self.records = [
            Record(topic, 0, 0, str(key), value, [("message-id", str(uuid4()).encode())])
            for one in self.booked[:2]
            for topic, key, value in zip(
                TOPICS,
                (one.id, one.event_id),
                (b'{"Reason": "Expired"}', b'{"Status": "Cancelled"}'),
                strict=True,
            )
        ]

    def change(self, kind: Kind, **columns: object) -> None:
        """Let the appointment of this kind have ended otherwise."""
        [one] = [one for one in self.booked if one.kind is kind]
        self.after[one.id] = replace(self.after[one.id], **columns)  # type: ignore[arg-type]

    def broken(self) -> list[str]:
        """The sentences that do not hold."""
        found = check_all(self.booked, self.before, self.after, self.records)
        return [check.sentence for check in found if check.broken]


def test_a_demo_as_promised_breaks_no_check() -> None:
    assert Story().broken() == []


@pytest.mark.parametrize(
    ("kind", "columns", "complaint"),
    [
        (SELLABLE, {"slot": "Expired"}, "slots are on sale again"),
        (LAPSED, {"slot": "Available"}, "slots are on sale again"),
        (SELLABLE, {"event": "Scheduled"}, "events are Cancelled"),
        (SELLABLE, {"cancel_reason": "Declined"}, "events are Cancelled"),
        (LAPSED, {"pending": 1, "skipped": 1}, "reminders are Skipped"),
        (CONFIRMED, {"slot": "Available"}, "confirmed in time"),
        (WAITING, {"version": 2}, "were not due"),
    ],
)
def test_a_check_breaks_when_an_appointment_ended_otherwise(
    kind: Kind, columns: dict[str, object], complaint: str
) -> None:
    story = Story()
    story.change(kind, **columns)
    [sentence] = story.broken()
    assert complaint in sentence


def test_a_check_breaks_when_a_message_is_missing_repeated_or_foreign() -> None:
    story = Story()
    story.records.pop()
    assert "exactly one pair" in story.broken()[0]
    story = Story()
    story.records.append(story.records[0])
    assert len(story.broken()) == 2
    story = Story()
    story.records.append(replace(story.records[0], key=str(story.booked[3].id), headers=[]))
    assert len(story.broken()) == 2
