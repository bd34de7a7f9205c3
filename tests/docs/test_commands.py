"""Every command of the documentation is run, or stands in the list of those that cannot be."""

import re
import shlex
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

import pytest

from dev.processes import ROOT
from tests.docs.fences import ELSEWHERE, commands_in_sentences, shell_blocks
from tests.docs.not_run import NOT_RUN, not_run
from tests.docs.reader import Reader
from tests.shipped import known

FOUND = shell_blocks()
COMMANDS = [
    (page, one) for page, found in FOUND.items() for block in found for one in block.commands
]
RUN = sorted({page for page, command in COMMANDS if not not_run(command)})
NOT_TO_RUN = sorted({command for _page, command in COMMANDS if not_run(command)})


@pytest.fixture
def reader(tmp_path: Path, installed: Path) -> Iterator[Reader]:
    with ExitStack() as running:
        yield Reader(running, tmp_path, installed)


@pytest.mark.parametrize("page", RUN)
def test_whoever_follows_the_page_gets_what_it_promises(reader: Reader, page: str) -> None:
    """Top to bottom, with the installed package; a command that fails, fails the page."""
    if not any("app migrate" in block.text for block in FOUND[page]):
        reader.move_in()
    for block in FOUND[page]:
        reader.follow(block)


@pytest.mark.parametrize("command", NOT_TO_RUN)
def test_what_is_not_run_is_there(command: str) -> None:
    reason = not_run(command)
    assert reason
    reason.check(command)


@pytest.mark.parametrize("command", commands_in_sentences())
def test_a_command_within_a_sentence_exists(installed: Path, tmp_path: Path, command: str) -> None:
    if reason := not_run(command):
        reason.check(command)
        return
    said = shlex.split(command)
    words = [
        word
        for before, word in pairwise(["", *said])
        if before.startswith("--") or not re.fullmatch("[A-Z_]{2,}", word)
    ]
    asked = known(installed, words, tmp_path)
    assert asked.returncode == 0, asked.stderr


@pytest.mark.parametrize(("page", "language"), ELSEWHERE)
def test_who_runs_a_block_elsewhere_takes_it_from_the_page(page: str, language: str) -> None:
    """By its name, or with all of its folder."""
    module = (ROOT / ELSEWHERE[page, language]).read_text()
    assert f'"{Path(page).name}"' in module or f'"{Path(page).parent.name}"' in module


def test_every_reason_not_to_run_a_command_is_needed() -> None:
    needed = {not_run(command) for command in NOT_TO_RUN}
    assert needed == set(NOT_RUN)
