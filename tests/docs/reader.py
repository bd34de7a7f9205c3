"""A person who follows a page from top to bottom, on real servers, with the package installed."""

import re
import subprocess
from contextlib import ExitStack
from pathlib import Path

from sqlalchemy import make_url

from app import database, migrations
from app.domain.outbox import TOPICS
from dev.processes import ROOT
from dev.servers.port import free_port
from dev.servers.process import ServerProcess
from dev.servers.stack import Stack
from tests.docs.fences import Block
from tests.docs.not_run import not_run
from tests.docs.values import refused
from tests.neighbour import wait_until
from tests.world import World

OWNER = "calendar"
_DAEMON = re.compile(r"celery(?: -q)? -A [\w.]+ (worker|beat|flower)\b")
_READY = {"worker": "ready", "beat": "beat: Starting", "flower": "Visit me at"}
_VARIABLE = re.compile(r"(\w+)=(\S+)")


class Reader:
    """An empty database, topics, a broker; and a folder that holds what a checkout's reader has."""

    def __init__(self, running: ExitStack, directory: Path, installed: Path) -> None:
        self._running = running
        self.directory = directory
        self.stack = running.enter_context(
            Stack(
                directory / "stack",
                topics=dict.fromkeys(TOPICS, 3),
                postgres_settings={"fsync": "on", "full_page_writes": "on"},  # `doctor` looks
                given={},
            )
        )
        self.folder = directory / "folder"
        self.folder.mkdir()
        # No app/ and no tasks/: they must be the installed ones.
        for name in ("ops", ".env.example", "flowerconfig.py"):
            (self.folder / name).symlink_to(ROOT / name)
        assert self.stack.postgres
        self._url = make_url(self.stack.environment["DATABASE_URL"])
        self.world = self._furnished(self._url.database or "")
        programs = f"{installed}:{self.stack.postgres.bin_dir}:/usr/bin:/bin"
        self.environment = {
            "PATH": programs,
            "HOME": str(self.folder),
            "TMPDIR": str(directory),
            **self.stack.environment,
            "DATABASE_URL": self.as_role(OWNER),
            "FLOWER_PORT": str(free_port()),
            "FLOWER_ADDRESS": "127.0.0.1",
        }
        self.started: list[str] = []

    def _furnished(self, name: str) -> World:
        engine = database.engine(self._url.set(drivername="postgresql+psycopg2"), 8)
        self._running.callback(engine.dispose)
        world = World(engine)
        world.execute(f"CREATE ROLE {OWNER} LOGIN SUPERUSER")
        world.execute(f"ALTER DATABASE {name} OWNER TO {OWNER}")
        return world

    def as_role(self, role: str) -> str:
        """This stack's database as that role."""
        return self._url.set(username=role).render_as_string(hide_password=False)

    def move_in(self) -> None:
        """A calendar that has worked already, for pages that are not about its beginning.

        Four of its messages were refused by Kafka and set aside.
        """
        migrations.apply(self.world.engine)
        made = [self.world.appointment() for _ in range(4)]
        # On one connection, so that a pair stands together: the second one is of the other topic,
        # and stays aside when the page puts those of the first topic back.
        self.world.run("the-run", connections=1)
        messages = [str(row["message_id"]) for row in self.world.messages()]
        self.world.execute(
            """UPDATE calendar.outbox_messages SET attempts = 5, last_attempt_at = now(),
            set_aside_at = now(), last_error = 'MSG_SIZE_TOO_LARGE'
            WHERE message_id::text = ANY(:ids)""",
            ids=messages[:4],
        )
        self.environment |= {
            "APPOINTMENT_ID": str(made[0].appointment),
            "RUN_ID": "the-run",
            "MESSAGE_ID": messages[0],
            "HOPELESS_ID": messages[1],
        }

    def follow(self, block: Block) -> None:
        """Do what it says, one command after the other."""
        script: list[str] = []
        for command in block.commands:
            if not_run(command):
                continue
            if command.startswith("export "):
                self._export(command)
            elif daemon := _DAEMON.match(command):
                self._run(script)
                script = []
                self._start(daemon[1], command)
            else:
                script.append(command)
        self._run(script)

    def _run(self, script: list[str]) -> None:
        if not script:
            return
        done = subprocess.run(
            ["bash", "-euxo", "pipefail", "-c", "\n".join(script)],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=240,
            check=False,
        )
        assert done.returncode == 0, done.stdout

    def _export(self, command: str) -> None:
        """The example's value must be acceptable; the server behind it is the test's own."""
        values = dict(_VARIABLE.findall(command))
        assert refused(values) == []
        for name, value in values.items():
            if name.endswith("_URL") and value.startswith("postgresql://"):
                role = make_url(value).username
                assert role
                self.environment[name] = self.as_role(role)

    def _start(self, name: str, command: str) -> None:
        log = self.directory / f"{name}-{len(self.started)}.log"
        running = ServerProcess(
            name,
            ["env", "-C", self.folder, "bash", "-c", f"exec {command}"],
            log=log,
            grace=30,
            environment=self.environment,
        )
        self._running.callback(running.stop)
        running.wait_ready(lambda: _READY[name] in log.read_text(errors="replace"), 60)
        self.started.append(name)
        if {"worker", "beat"} <= set(self.started):
            cycles = "SELECT FROM calendar.job_runs WHERE finished_at IS NOT NULL"
            wait_until(lambda: self.world.all(cycles), "the first cycle")
