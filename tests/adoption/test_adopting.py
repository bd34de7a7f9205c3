"""Adoption makes what is missing and can be repeated; migrations build on it afterwards."""

import re
from pathlib import Path

import pytest

from app import migrations, schema
from app.adoption.needs import FORGETS
from tests.adoption.team import Team


def test_adoption_can_be_repeated_and_looking_changes_nothing(team: Team) -> None:
    before = team.shape()
    assert len(team.look().steps) == 5
    assert team.shape() == before
    assert len(team.adopt()) == 6
    adopted = team.shape()
    assert team.adopt() == []
    assert team.shape() == adopted


def test_what_the_team_has_already_under_other_names_is_not_made_again(in_place: Team) -> None:
    in_place.run(
        """CREATE INDEX by_slot ON booking.appointments (slot_id, created_at);
        CREATE INDEX by_event ON booking.event_reminders (calendar_event_id)"""
    )
    assert [
        re.findall("(?:INDEX CONCURRENTLY|TRIGGER) (\\w+)", one.sql)[0]
        for one in (in_place.look().steps)
    ] == ["ix_appointments_pending_expires_at", *FORGETS]


def test_an_index_that_failed_half_way_is_made_anew(team: Team) -> None:
    team.adopt()
    team.run(
        """UPDATE pg_index SET indisvalid = false
        FROM pg_class WHERE oid = indexrelid AND relname = 'ix_appointments_pending_expires_at'"""
    )
    dropped, made = team.adopt()
    assert dropped.startswith("DROP INDEX CONCURRENTLY")
    assert made.startswith("CREATE INDEX CONCURRENTLY")
    assert team.look().steps == ()


def test_plain_migrate_builds_on_an_adopted_schema_and_never_back(
    team: Team, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(schema.SchemaError, match="--adopt --dry-run"):
        migrations.apply(team.engine())
    team.adopt()
    (tmp_path / "0003_later.py").write_text(
        """from alembic import op
revision, down_revision = "0003", "0002"
def upgrade():
    op.execute("ALTER TABLE calendar.job_runs ADD COLUMN host text")
    op.execute("UPDATE calendar.schema_level SET level = 2")
"""
    )
    own = migrations._config

    def with_a_later_one(*arguments: object) -> object:
        config = own(*arguments)  # type: ignore[arg-type]
        places = [Path(migrations.__file__).parent / "versions", tmp_path]
        config.set_main_option("path_separator", "os")
        config.set_main_option("version_locations", ":".join(map(str, places)))
        return config

    monkeypatch.setattr(migrations, "_config", with_a_later_one)
    migrations.apply(team.engine())
    assert migrations.revision(team.engine()) == "0003"
    team.book()
    assert team.world().run().expired == 1
    before = team.shape()
    with pytest.raises(schema.SchemaError, match="was adopted"):
        migrations.revert(team.engine(), "base")
    assert team.shape() == before


def test_the_teams_own_alembic_is_left_alone(in_place: Team) -> None:
    in_place.adopt()
    assert in_place.run("SELECT version_num FROM booking.alembic_version") == [("theirs",)]
