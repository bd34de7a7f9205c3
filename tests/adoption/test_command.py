"""`python -m app migrate --adopt` as an operator runs it: one clear sentence, nothing half done."""

from collections.abc import Callable

import pytest
import typer

from app.cli.commands import migrate, sample
from app.schema import SchemaError
from tests.adoption.team import Team

Said = Callable[..., str]


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Said:
    """Run it on a team's schema; what it says, up to the sentence with which it ends."""

    def run(team: Team, **options: bool | str) -> str:
        monkeypatch.setenv("DATABASE_URL", team.url)
        monkeypatch.setenv("DATABASE_SCHEMA", team.flavour.schema)
        ends = ""
        try:
            migrate(**options)  # type: ignore[arg-type]
        except (SchemaError, SystemExit, typer.Exit) as end:
            ends = str(end)
        return capsys.readouterr().out + ends

    return run


def test_shown_first_then_done_then_nothing_is_left(viewings: Team, said: Said) -> None:
    before = viewings.shape()
    shown = said(viewings, adopt=True, dry_run=True)
    assert shown.count("would make") == 6
    assert shown.endswith("Nothing was changed.\n")
    assert viewings.shape() == before
    done = said(viewings, adopt=True)
    assert done.count("made  ") == 6
    assert "The schema timeout is adopted." in done
    assert "nothing is missing" in said(viewings, adopt=True)
    assert "nothing to do" in said(viewings)


def test_plain_migrate_says_what_to_do_and_back_is_refused(in_place: Team, said: Said) -> None:
    assert "`python -m app migrate --adopt --dry-run` shows how" in said(in_place)
    in_place.adopt()
    assert "This schema was adopted" in said(in_place, back_to="base")


def test_an_obstacle_is_told_with_its_remedy_and_nothing_is_changed(
    in_place: Team, said: Said
) -> None:
    in_place.run("ALTER TABLE booking.appointments ALTER created_at TYPE timestamp")
    before = in_place.shape()
    told = said(in_place, adopt=True)
    assert "booking.appointments.created_at is a timestamp without time zone" in told
    assert "remedy: `ALTER TABLE booking.appointments ALTER COLUMN created_at" in told
    assert told.endswith("The schema booking cannot be adopted as it is. Nothing was changed.")
    assert in_place.shape() == before


def test_guards_are_shown_made_and_those_that_rows_break_are_counted(
    in_place: Team, said: Said
) -> None:
    in_place.book(slot=in_place.book().slot)
    assert "NOT VALID" not in said(in_place, adopt=True, dry_run=True)
    shown = said(in_place, adopt=True, guards=True, dry_run=True)
    assert shown.count("NOT VALID") == 6
    told = said(in_place, adopt=True, guards=True)
    crowded = "index ux_appointments_one_active_per_slot on booking.appointments is missing"
    assert f"left      {crowded}: 1 row breaks it" in told
    assert "`python -m app verify` lists such rows" in told


@pytest.mark.parametrize(
    "options", [{"guards": True}, {"dry_run": True}, {"adopt": True, "back_to": "base"}]
)
def test_options_that_do_not_go_together_are_refused(
    in_place: Team, said: Said, options: dict[str, bool | str]
) -> None:
    before = in_place.shape()
    assert "--adopt" in said(in_place, **options)
    assert in_place.shape() == before


def test_no_samples_are_booked_in_an_adopters_tables(viewings: Team, said: Said) -> None:
    viewings.adopt()
    said(viewings)
    with pytest.raises(SchemaError, match="adopted: no samples"):
        sample(count=1)
    assert viewings.rows() == {}
