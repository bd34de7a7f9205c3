"""Holds every item of a cycle inside its write, in whatever process, until the test lets go."""

from tests.neighbour import wait_until
from tests.world import World

_KEY = 4711
"""Every item that stands still holds this lock, shared with the others."""
_SETUP = f"""
CREATE TABLE calendar.hold (on_purpose boolean);
INSERT INTO calendar.hold VALUES (true);
CREATE FUNCTION calendar.hold_item() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared({_KEY});
    WHILE EXISTS (SELECT FROM calendar.hold) LOOP PERFORM pg_sleep(0.01); END LOOP;
    RETURN NEW;
END $$;
CREATE TRIGGER hold_item BEFORE UPDATE ON calendar.availability_slots
    FOR EACH ROW EXECUTE FUNCTION calendar.hold_item();
"""


class Hold:
    """From now on items stop in the middle of their write (until their statement timeout)."""

    def __init__(self, world: World) -> None:
        self._world = world
        world.execute(_SETUP)

    def wait_reached(self, items: int = 1) -> None:
        """Return when so many items stand still."""
        wait_until(lambda: self.held() >= items, f"{items} items in hand")

    def held(self) -> int:
        """How many items are held now, until their transaction has ended."""
        found: int = self._world.one(
            """SELECT count(*) AS n FROM pg_locks JOIN pg_database d ON d.oid = database
            WHERE locktype = 'advisory' AND objid = :key AND datname = current_database()""",
            key=_KEY,
        )["n"]
        return found

    def release(self) -> None:
        """Let them go on."""
        self._world.execute("DELETE FROM calendar.hold")

    def again(self) -> None:
        """Hold what comes from now on."""
        self._world.execute("INSERT INTO calendar.hold VALUES (true)")
