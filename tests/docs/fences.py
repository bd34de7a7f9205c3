"""The Markdown pages of the repository: their fenced blocks, and the commands in them."""

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from dev.processes import ROOT

PAGES = sorted(
    page for place in ("*.md", "docs/**/*.md", "ops/**/*.md") for page in ROOT.glob(place)
)
ELSEWHERE = {
    ("docs/adopting.md", "sh"): "tests/adoption/test_page.py",
    ("docs/adopting.md", "sql"): "tests/adoption/test_page.py",
    ("docs/consumers.md", "python"): "tests/contracts/test_consumer.py",
    ("docs/consumers.md", "sql"): "tests/contracts/test_consumer.py",
    ("docs/foreign-app.md", "python"): "tests/system/foreign/crm.py",
    ("ops/runbooks/appointment-timeout.md", "sh"): "tests/alerts/runbook.py",
    ("ops/runbooks/outbox-backlog.md", "sh"): "tests/alerts/runbook.py",
}
"""Blocks that need a world of their own, and the module that takes them from their page.

For the runbooks it is a fault; `tests/alerts/test_runbooks.py` sees that no command is left out.
"""
_FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """What stands between two fences."""

    page: str
    language: str
    text: str

    @property
    def commands(self) -> list[str]:
        """A shell block's commands, each as long as the shell takes it to be, without comments."""
        found, begun = [], ""
        for line in self.text.splitlines(keepends=True):
            begun += line
            if not begun.strip() or begun.lstrip().startswith("#"):
                begun = ""
            elif _whole(begun):
                found.append(re.sub(r"\s+#\s.*", "", begun).strip())
                begun = ""
        assert not begun, f"{self.page}: {begun!r} does not end"
        return found


def blocks(page: Path) -> list[Block]:
    """Every block of a page; each fence must have its pair."""
    text, name = page.read_text(), str(page.relative_to(ROOT))
    found = [Block(name, *match.groups()) for match in _FENCE.finditer(text)]
    assert len(re.findall(r"^\s*(?:```|~~~)", text, re.MULTILINE)) == 2 * len(found), name
    return found


def shell_blocks() -> dict[str, list[Block]]:
    """By page, for the pages that have any; without those that are run elsewhere."""
    found: dict[str, list[Block]] = {}
    for block in (one for page in PAGES for one in blocks(page)):
        if block.language == "sh" and (block.page, "sh") not in ELSEWHERE:
            found.setdefault(block.page, []).append(block)
    return found


def prose(page: Path) -> str:
    """A page without its blocks."""
    return _FENCE.sub("", page.read_text())


def commands_in_sentences() -> list[str]:
    """What stands in code within a sentence and begins as a command does."""
    code = r"`((?:make|docker compose|kubectl|python -m|celery -A) [^`…]+)`"
    return sorted({one for page in PAGES for one in re.findall(code, prose(page))})


def _whole(text: str) -> bool:
    """Whether the shell would wait for nothing more."""
    if text.rstrip("\n").endswith("\\"):
        return False
    read = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True, check=False)
    return read.returncode == 0 and not read.stderr
