"""docker-compose.yml, read as Compose reads it."""

import re
from collections.abc import Iterator
from typing import Any

import yaml

from dev.processes import ROOT

FILE = ROOT / "docker-compose.yml"
EXAMPLE = ROOT / ".env.example"
SCRATCH = "/tmp"  # noqa: S108 - of a container's own
OURS = ("migrate", "worker", "beat", "flower")
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load(FILE.read_text())["services"]


def environment(name: str) -> dict[str, str]:
    """What a service is told, with a word for each secret."""
    given = SERVICES[name]["environment"]
    return {key: re.sub(r"\$\{[^}]*\}", "word", value) for key, value in given.items()}


def probe(name: str) -> list[str]:
    """The program that tells whether a service is well."""
    kind, *words = map(str, SERVICES[name]["healthcheck"]["test"])
    assert kind == "CMD", "no shell in between"
    return words


def commands() -> Iterator[list[str]]:
    """Every command and probe of our services."""
    for name in OURS:
        yield SERVICES[name]["command"]
        if "healthcheck" in SERVICES[name]:
            yield probe(name)


def seconds(text: str) -> float:
    """A duration as Compose spells the ones that stand there."""
    number, unit = re.fullmatch(r"(\d+)(s|m)", text).groups()  # type: ignore[union-attr]
    return float(number) * {"s": 1, "m": 60}[unit]
