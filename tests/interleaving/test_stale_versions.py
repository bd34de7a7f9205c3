"""R2: who has read an older version writes nothing, whatever let the other one in between."""

from tests.interleaving import stale
from tests.world import World


def test_r2_a_write_with_an_old_version_of_any_part_changes_nothing(world: World) -> None:
    assert stale.violations(world) == []
