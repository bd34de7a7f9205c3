"""The pages themselves: fences, links, anchors, sizes, and what they are held equal to."""

import configparser
import json
import re
from collections import Counter
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from dev import states
from dev.processes import ROOT
from tests.docs.fences import ELSEWHERE, PAGES, Block, blocks, prose
from tests.docs.values import refused

LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
IDS = [str(page.relative_to(ROOT)) for page in PAGES]
A_SCREEN = 80  # lines


def anchors(page: Path) -> set[str]:
    """What a link can name in it, as the usual hosts spell it."""
    found: Counter[str] = Counter()
    for title in re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE):
        plain = re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", title)
        found[re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")] += 1
    return {f"{name}-{n}" if n else name for name, times in found.items() for n in range(times)}


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_every_link_leads_somewhere(page: Path) -> None:
    """Within the repository to a file and to a heading; outside only to what can be an address."""
    for target in LINK.findall(prose(page)):
        address = urlsplit(target)
        if address.scheme:
            assert address.scheme in {"http", "https"}, target
            assert address.hostname, target
            continue
        file = page.parent / address.path if address.path else page
        assert file.exists(), target
        assert file.resolve().is_relative_to(ROOT), target
        assert not address.fragment or address.fragment in anchors(file), target


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_every_file_that_is_named_exists(page: Path) -> None:
    named = re.findall(r"`((?:app|tasks|tests|ops|docs|dev)/[\w./-]+)`", prose(page))
    assert [name for name in named if not (ROOT / name.rstrip("/")).exists()] == []


def test_every_page_is_reached_from_the_readme() -> None:
    reached, waiting = set(), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        reached.add(page)
        for target in LINK.findall(prose(page)):
            file = (page.parent / target.partition("#")[0]).resolve()
            found = [*file.glob("*.md")] if file.is_dir() else [file]
            waiting += [one for one in found if one in PAGES and one not in reached]
    assert set(PAGES) - reached == set()


def test_readme_and_contributing_fit_a_screen() -> None:
    for name in ("README.md", "CONTRIBUTING.md"):
        assert len((ROOT / name).read_text().splitlines()) <= A_SCREEN, name


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_every_block_says_what_it_is_and_is_that(page: Path) -> None:
    for block in blocks(page):
        fits(block)


def fits(block: Block) -> None:
    match block.language:
        case "sh" | "text":  # the former is test_commands's, the latter a picture
            pass
        case "json":
            json.loads(block.text)
        case "yaml":
            yaml.safe_load(block.text)
        case "ini":
            configparser.ConfigParser(interpolation=None).read_string(block.text)
        case "env":
            assert refused(dict(line.split("=", 1) for line in block.text.splitlines())) == []
        case "mermaid":
            assert block.text in states.drawn()
        case language:
            assert language in {"python", "sql"}
            assert (block.page, language) in ELSEWHERE, "nobody runs this code"


def test_the_states_are_drawn_from_the_law() -> None:
    page = states.PAGE.read_text()
    assert states.drawn() in page, "`python -m dev.states` draws them anew"
