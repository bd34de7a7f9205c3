"""The doctor on an adopted schema: each thing missing is named there, and its remedy mends it."""

from collections.abc import Callable

import pytest

from app.adoption.needs import CLAIM, FORGETS, REMINDERS, SLOT
from app.adoption.plan import plan
from app.doctor import examine
from app.doctor.complaint import Complaint
from tests.adoption.conftest import Found
from tests.adoption.team import IN_PLACE, Team
from tests.doctor.patient import prescribed

Told = Callable[[], list[Complaint]]


@pytest.fixture
def told(adopted: Team, monkeypatch: pytest.MonkeyPatch) -> Told:
    """What is said of PostgreSQL beyond what is said of a healthy one of the tests' own."""
    monkeypatch.setenv("DATABASE_URL", adopted.url)
    monkeypatch.setenv("DATABASE_SCHEMA", adopted.flavour.schema)
    before = list(examine("postgresql"))
    assert not [one for one in before if one.serious and "is off: a crash" not in one.found]
    return lambda: [one for one in examine("postgresql") if one not in before]


def on(adopted: Team, sql: str) -> str:
    """With the team's own names, and the schema's."""
    return sql.format(
        schema=adopted.flavour.schema,
        own=adopted.flavour.tables["appointments"].partition(".")[0],
        reminders=adopted.flavour.tables["event_reminders"],
        appointments=adopted.flavour.tables["appointments"],
    )


@pytest.mark.parametrize(
    ("planted", "said"),
    [
        (f"DROP INDEX {{own}}.{CLAIM}", f"{{schema}}.appointments lacks the index {CLAIM}."),
        (f"DROP INDEX {{own}}.{SLOT}", f"{{schema}}.appointments lacks the index {SLOT}."),
        (
            f"DROP INDEX {{own}}.{REMINDERS}",
            f"{{schema}}.event_reminders lacks the index {REMINDERS}.",
        ),
        *(
            (
                f"DROP TRIGGER {trigger} ON {{appointments}}",
                f"{{schema}}.appointments lacks the trigger {trigger} (C4).",
            )
            for trigger in FORGETS
        ),
        (
            f"ALTER TABLE {{appointments}} DISABLE TRIGGER {FORGETS[0]}",
            f"The trigger {FORGETS[0]} of {{schema}}.appointments is switched off (C4).",
        ),
        (
            "ALTER TABLE {schema}.outbox_messages ADD COLUMN region text NOT NULL",
            (
                "{schema}.outbox_messages.region is NOT NULL without a default, and not ours: no"
                " row can be added."
            ),
        ),
        (
            "DROP INDEX {schema}.ix_job_runs_started_at",
            (
                "The index ix_job_runs_started_at on {schema}.job_runs is missing: every statement"
                " that relies on it grows slow with the table (D3)."
            ),
        ),
        (
            "ALTER TABLE {schema}.job_runs SET (autovacuum_enabled = off)",
            "autovacuum is off on {schema}.job_runs: it grows, and the cycle grows slow.",
        ),
    ],
)
def test_what_is_missing_is_named_and_its_remedy_mends_it(
    adopted: Team, told: Told, planted: str, said: str
) -> None:
    adopted.run(on(adopted, planted))
    [complaint] = told()
    assert complaint.found.removeprefix("Adoption is not complete: ") == on(adopted, said)
    assert complaint.serious
    adopted.run(prescribed(complaint)[0])
    assert told() == []


def test_what_has_become_of_the_teams_own_columns_is_named(adopted: Team, told: Told) -> None:
    """D2: here by a migration of the team's; a view keeps its columns from such."""
    if adopted.flavour is not IN_PLACE:
        with pytest.raises(Exception, match="used by a view"):
            adopted.run('ALTER TABLE calendar."Slots" ALTER "StartAt" TYPE timestamp')
        return
    adopted.run("ALTER TABLE booking.availability_slots ALTER start_at TYPE timestamp")
    [complaint] = told()
    assert "booking.availability_slots.start_at is a timestamp without time zone" in complaint.found
    adopted.run(prescribed(complaint)[0])
    assert told() == []


def test_a_guard_that_is_missing_is_a_warning_until_it_is_made(
    found: Found, monkeypatch: pytest.MonkeyPatch
) -> None:
    team = found(IN_PLACE, adopted=True)
    monkeypatch.setenv("DATABASE_URL", team.url)
    monkeypatch.setenv("DATABASE_SCHEMA", "booking")
    with team.engine().begin() as connection:
        missing = {guard.named for guard in plan(connection).guards}

    def guards() -> dict[str, bool]:
        said = [one for one in examine("postgresql") if "--guards" in one.remedy]
        return {one.found: one.serious for one in said}

    assert len(missing) == 9
    assert {found.removeprefix("The ").partition(" is ")[0] for found in guards()} == missing
    assert set(guards().values()) == {False}
    team.adopt(guarded=True)
    assert guards() == {}
