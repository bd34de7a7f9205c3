"""How many statements a cycle sends, and that the two of an item are planned but once."""

from sqlalchemy import Engine

from tests.gate import statements
from tests.world import World


def test_an_item_costs_two_statements_and_two_round_trips(world: World, engine: Engine) -> None:
    for _ in range(25):
        world.appointment()
    with statements(engine) as sent:
        assert world.run(connections=1).expired == 25
    assert [s.split(" (")[0] for s in sent.of_lane()[: 25 * 2 + 1]] == [
        "EXECUTE claim_next",
        *["EXECUTE save_ending", "COMMIT AND CHAIN; EXECUTE claim_next"] * 25,
    ]


def test_s3_the_last_of_a_batch_claims_nothing_behind_it(world: World, engine: Engine) -> None:
    for _ in range(3):
        world.appointment()
    with statements(engine) as sent:
        assert world.run(connections=1, batch_size=2).expired == 2
    assert [s.split(" (")[0] for s in sent.of_lane()] == [
        "EXECUTE claim_next",
        "EXECUTE save_ending",
        "COMMIT AND CHAIN; EXECUTE claim_next",
        "EXECUTE save_ending",
        "COMMIT",
    ]


def test_the_cycle_around_its_items_costs_a_fixed_handful(world: World, engine: Engine) -> None:
    world.run()
    with statements(engine) as sent:
        world.run()
    # schema, AsOf with the due count, brake, the run's begin, commit; the run's end, commit
    assert len(sent) == 7, sent
    assert not [s for s in sent.texts() if s.startswith(("EXECUTE", "PREPARE"))]


def test_a_connection_plans_the_hot_statements_once(world: World, engine: Engine) -> None:
    prepared: list[str] = []
    for _ in range(3):
        world.appointment()
        with statements(engine) as sent:
            world.run(connections=1)
        prepared += [s.split(" ")[1] for s in sent.texts() if s.startswith("PREPARE")]
    assert sorted(prepared) == ["claim_next", "claim_one", "save_ending"]
