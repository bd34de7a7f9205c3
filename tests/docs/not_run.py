"""The commands of the documentation that no test can run: why, and what is looked at instead."""

import re
import shlex
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec

from app.domain.outbox import TOPICS
from dev.processes import ROOT
from tests.deployment import compose, kubernetes

_COMPOSE_VERBS = {"up", "exec", "config"}
_KUBECTL_VERBS = {"apply", "delete", "wait", "exec"}
_KINDS = {"job": "Job", "deploy": "Deployment"}


@dataclass(frozen=True)
class NotRun:
    """A kind of command, the reason, and what must be true of each one."""

    pattern: str
    reason: str
    check: Callable[[str], None]


def _exists(path: str) -> None:
    example = kubernetes.FOLDER / f"{path}.example"  # what a reader makes of it
    assert (ROOT / path).exists() or example.exists(), path


def _make(command: str) -> None:
    for target in (word for word in shlex.split(command)[1:] if "=" not in word):
        assert re.search(rf"^{target}:.*##", (ROOT / "Makefile").read_text(), re.MULTILINE), target
    for path in re.findall(r"tests/[\w/.]+", command):
        _exists(path)


def _pip(command: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = re.search(r'"([\w-]+)(?:\[([\w,]+)\])?', command)
    assert named
    assert named[1] == project["name"]
    extras = set((named[2] or "").split(",")) - {""}
    assert extras <= project["optional-dependencies"].keys()


def _module(command: str) -> None:
    name = command.split()[2]
    assert find_spec(name), name


def _compose(command: str) -> None:
    verb, *rest = [word for word in command.split()[2:] if not word.startswith("-")]
    assert verb in _COMPOSE_VERBS, verb
    assert set(rest[:1]) <= compose.SERVICES.keys(), rest


def _kubectl(command: str) -> None:
    assert command.split()[1] in _KUBECTL_VERBS, command
    for path in re.findall(r"-f (\S+)", command):
        _exists(path)
    for kind, name in re.findall(r"\b(job|deploy)[ /](\S+)", command):
        kubernetes.named(_KINDS[kind], name)


def _topic(command: str) -> None:
    [name] = re.findall(r"--topic (\S+)", command)
    assert name in TOPICS
    assert re.search(r"--partitions \d+ --replication-factor \d", command)


def _foreign(command: str) -> None:
    """Each option with its value stands in the tests that start such a worker."""
    started = "".join(one.read_text() for one in (ROOT / "tests/system/foreign").glob("*.py"))
    assert command.split()[3] in {"worker", "beat"}
    for option in re.findall(r" (--?[a-z][\w-]*)", command.partition(" -A ")[2]):
        assert f'"{option}"' in started, option


NOT_RUN = (
    NotRun(r"make( |$)", "builds environments and servers of its own; CI runs its targets", _make),
    NotRun(r"pip install ", "the package is installed by the fixture, from the same lock", _pip),
    NotRun(r"python -m (tests|dev)\.", "writes a page or takes minutes; has its own test", _module),
    NotRun(r"docker compose ", "no Docker engine runs here", _compose),
    NotRun(r"kubectl ", "no cluster runs here", _kubectl),
    NotRun(r"celery -A crm", "tests/system/foreign runs that app, and takes minutes", _foreign),
    NotRun(r"kafka-topics\.sh ", "a program of Apache Kafka's own: no wheel has it", _topic),
)


def not_run(command: str) -> NotRun | None:
    """Why this command is not run; None: it is."""
    return next((one for one in NOT_RUN if re.match(one.pattern, command)), None)
