"""The Dockerfile, as its instructions."""

import json
import re
from collections.abc import Iterator

from dev.processes import ROOT

FILE = ROOT / "Dockerfile"


def instructions(stage: int | None = None) -> list[tuple[str, str]]:
    """Name and rest of each one; of one stage, or of all."""
    text = re.sub(r"(?m)^#.*\n", "", FILE.read_text()).replace("\\\n", "")
    found = [(line.split(" ", 1)[0], line.split(" ", 1)[1]) for line in text.splitlines() if line]
    if stage is None:
        return found
    begins = [at for at, (name, _) in enumerate(found) if name == "FROM"] + [len(found)]
    return found[begins[stage] : begins[stage + 1]]


def only(name: str, stage: int = -2) -> str:
    """The rest of the one instruction of this name in a stage; by default in the last one."""
    [rest] = [rest for found, rest in instructions(stage) if found == name]
    return rest


def healthcheck() -> dict[str, str]:
    """Its options."""
    return dict(re.findall(r"--([\w-]+)=(\S+)", only("HEALTHCHECK")))


def commands() -> Iterator[list[str]]:
    """What it runs, in the form that has no shell in between, so that signals arrive."""
    yield json.loads(only("CMD"))
    yield json.loads(only("HEALTHCHECK").partition("CMD ")[2])
