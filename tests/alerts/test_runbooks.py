"""Every command of the runbooks is run by a test."""

from pathlib import Path

import pytest

from tests.alerts.faults import FAULTS
from tests.alerts.runbook import PAGES, Section, linked, sections
from tests.alerts.test_rules import ALERTS, BASE

FIRST_LOOK = linked("ops/runbooks/appointment-timeout.md#first-look")


def test_every_alert_is_proven_by_a_fault_on_the_real_stack() -> None:
    assert set(FAULTS.values()) == set(ALERTS)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_section_is_run_for_an_alert(page: Path) -> None:
    """`test_night_calls` runs all three steps of what an alert links to, and the first look."""
    called = [linked(r["annotations"]["runbook_url"].removeprefix(BASE)) for r in ALERTS.values()]
    for title, section in sections(page).items():
        assert section in (*called, FIRST_LOOK), title
        assert set(section.steps) == ({""} if section == FIRST_LOOK else {"", *NAMES}), title
        assert bool(section.steps[""]) == (section == FIRST_LOOK), title


NAMES = ("Confirm", "Do", "Over")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_block_hides_a_command(page: Path) -> None:
    """What stands in a fence is in a section and is taken for a command."""
    found = [one for section in sections(page).values() for one in commands(section)]
    assert page.read_text().count("```") == 2 * len(found)


def commands(section: Section) -> list[str]:
    return [command for below in section.steps.values() for command in below]
