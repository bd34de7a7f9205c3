"""The units that docs/deployment.md shows."""

import re
import shlex
from collections.abc import Mapping

from dev.processes import ROOT

PAGE = ROOT / "docs" / "deployment.md"


def units() -> dict[str, Mapping[str, str]]:
    """Each one's [Service] section, by the file's name."""
    found: dict[str, Mapping[str, str]] = {}
    for text in re.findall(r"(?ms)^```ini\n(.*?)^```$", PAGE.read_text()):
        [name] = re.findall(r"^# /etc/systemd/system/(\S+)$", text, re.MULTILINE)
        section = text.partition("[Service]\n")[2].partition("\n\n")[0]
        pairs = [line.split("=", 1) for line in section.splitlines()]
        found[name] = dict(pairs)
        assert len(found[name]) == len(pairs), name
    return found


def command(unit: Mapping[str, str]) -> list[str]:
    """What it runs, the program by its name alone."""
    program, *arguments = shlex.split(unit["ExecStart"])
    return [program.rpartition("/bin/")[2], *arguments]
