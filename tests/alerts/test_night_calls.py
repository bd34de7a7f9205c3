"""Each fault on the real stack: its alert fires, its runbook names the cause and ends it."""

import re

import pytest

from tests.alerts.faults import FAULTS, Fault
from tests.alerts.night import REPOSITORY, Night
from tests.alerts.runbook import Section, linked
from tests.neighbour import wait_until


def called(night: Night, alert: str) -> Section:
    """The section that the alert's link leads to, once it fires."""
    found: list[str] = []

    def fires() -> bool:
        found.extend(
            notes["runbook_url"]
            for name, notes in night.prometheus.firing().items()
            if name == alert
        )
        return bool(found)

    wait_until(fires, f"the alert {alert}")
    assert found[0].startswith(REPOSITORY)
    return linked(found[0].removeprefix(REPOSITORY))


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_its_alert_fires_and_its_runbook_names_the_cause_and_ends_it(
    watched: Night, fault: Fault
) -> None:
    wait_until(lambda: not watched.prometheus.firing(), "the end of what went before")
    with fault(watched) as trouble:
        steps = called(watched, FAULTS[fault]).steps

        def named() -> bool:
            said = watched.run(*steps["Confirm"], **trouble.variables)
            return all(re.search(pattern, said) for pattern in trouble.cause)

        wait_until(named, f"the cause: {trouble.cause}")
        trouble.mend()
        watched.run(*steps["Do"], **trouble.variables)
        wait_until(lambda: FAULTS[fault] not in watched.prometheus.firing(), "the end of the alert")
        wait_until(
            lambda: re.search(trouble.over, watched.run(*steps["Over"], **trouble.variables)),
            f"the runbook's own sign of the end: {trouble.over}",
        )


def test_the_first_look_tells_a_quiet_night(watched: Night) -> None:
    wait_until(lambda: not watched.prometheus.firing(), "no alert")
    first = linked("ops/runbooks/appointment-timeout.md#first-look").steps[""]
    quiet = (r"Poison items +│ 0 ", "completed", "celery@.*OK", "celerybeat@.*OK")

    def told() -> bool:
        said = watched.run(*first)
        return all(re.search(pattern, said) for pattern in quiet)

    wait_until(told, f"{quiet}")
