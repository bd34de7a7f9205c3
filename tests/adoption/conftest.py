"""A team's database of the test's own: as the team has made it, or adopted already."""

from collections.abc import Callable, Iterator
from uuid import uuid4

import pytest

from dev.servers.postgres import Postgres
from tests.adoption.team import BEHIND_VIEWS, FLAVOURS, IN_PLACE, Flavour, Team
from tests.conftest import every_message_fits

Found = Callable[..., Team]


@pytest.fixture(scope="session")
def templates(postgres: Postgres) -> Postgres:
    """Two of each flavour, to be copied."""
    for flavour in FLAVOURS:
        made = Team(postgres, postgres_database(postgres, flavour.name), flavour)
        made.run(flavour.sql)
        adopted = postgres_database(postgres, f"{flavour.name}_adopted", template=made.name)
        Team(postgres, adopted, flavour).adopt()
        Team(postgres, adopted, flavour).engine().dispose()
    return postgres


def postgres_database(postgres: Postgres, name: str, template: str | None = None) -> str:
    """Its name."""
    postgres.create_database(name, template)
    return name


@pytest.fixture
def found(templates: Postgres) -> Iterator[Found]:
    """Make one; what its product says in the end is by the contract."""
    teams = []

    def make(flavour: Flavour, *, adopted: bool = False) -> Team:
        template = f"{flavour.name}_adopted" if adopted else flavour.name
        name = postgres_database(templates, f"team_{uuid4().hex[:12]}", template)
        teams.append(Team(templates, name, flavour))
        return teams[-1]

    yield make
    for team in teams:
        team.engine().dispose()
        if team.run(f"SELECT to_regclass('{team.flavour.schema}.schema_level')") != [(None,)]:
            every_message_fits(team.url, team.flavour.schema)
        templates.drop_database(team.name)


@pytest.fixture(params=FLAVOURS, ids=["in place", "behind views"])
def team(found: Found, request: pytest.FixtureRequest) -> Team:
    """Of either flavour, before its adoption."""
    return found(request.param)


@pytest.fixture(params=FLAVOURS, ids=["in place", "behind views"])
def adopted(found: Found, request: pytest.FixtureRequest) -> Team:
    """Of either flavour, after its adoption."""
    return found(request.param, adopted=True)


@pytest.fixture
def in_place(found: Found) -> Team:
    """With tables of our names in a schema of its own."""
    return found(IN_PLACE)


@pytest.fixture
def viewings(found: Found) -> Team:
    """With tables of its own names, behind views."""
    return found(BEHIND_VIEWS)
