"""Every check finds the violation of its rule, by rule and id, and nothing else."""

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

import pytest

from app import audit
from app.domain.outbox import APPOINTMENT_CANCELLED, EVENT_STATUS_CHANGED, message_id
from tests.audit.lawful import LawfulWorld
from tests.audit.plants import PLANTS, Plant

RULES = {check.name: (check.rule, str(check.severity)) for check in audit.CHECKS}


def values_for(lawful: LawfulWorld, subject: str) -> Mapping[str, Any]:
    """What a plant's statements can name."""
    new, made = uuid4(), lawful.names[subject]
    ended = lawful.messages_of(subject)
    return {
        **lawful.ids(subject),
        "cancelled": ended.get(APPOINTMENT_CANCELLED),
        "changed": ended.get(EVENT_STATUS_CHANGED),
        "first_version": message_id(APPOINTMENT_CANCELLED, made.id, 1),
        "new": new,
        "new_text": str(new),
    }


@pytest.mark.parametrize("planted", PLANTS, ids=str)
def test_a_planted_violation_is_reported_by_its_rule_and_id_and_nothing_else_is(
    lawful: LawfulWorld, planted: Plant
) -> None:
    values = values_for(lawful, planted.subject)
    lawful.plant(*planted.sql, **values)
    found = lawful.audit()
    expected = str(values.get(planted.id, planted.id))
    rule, severity = RULES[planted.check]
    [own] = [one for one in found if one.check == planted.check and one.id == expected]
    assert (own.rule, own.severity) == (rule, severity)
    assert planted.found in {"", own.found}
    assert {one.check for one in found} == {planted.check, *planted.also}
    assert len([one for one in found if one.check == planted.check]) == 1


def test_every_check_has_a_violation_planted_for_it() -> None:
    assert {planted.check for planted in PLANTS} == {check.name for check in audit.CHECKS}
    assert len({check.name for check in audit.CHECKS}) == len(audit.CHECKS)
