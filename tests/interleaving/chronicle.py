"""What a random history keeps: the product's database and the model beside it, which must agree.

A rule draws a number and takes the slot or appointment at that place, so that most rules meet
something: three of four times one that is still active.
"""

from collections.abc import Callable
from uuid import UUID

from hypothesis.stateful import RuleBasedStateMachine, invariant
from sqlalchemy.exc import IntegrityError

from app.domain.law import Refusal
from app.kafka import Sender
from tests.interleaving.invariants import ACTIVE, broken
from tests.interleaving.model import Model, Refused
from tests.interleaving.rows import Row, Rows, differences, look
from tests.interleaving.stage import CLEAR
from tests.world import World


class Chronicle(RuleBasedStateMachine):
    """From an empty database on; at the end `keep` is told of the rows."""

    def __init__(self, world: World, sender: Sender, keep: Callable[[Rows], None]) -> None:
        super().__init__()
        self.world, self.sender, self.keep = world, sender, keep
        self.made: list[UUID] = []
        self.spoiled: set[UUID] = set()
        world.execute(CLEAR)
        self.model = Model(self.look())

    def look(self) -> Rows:
        with self.world.engine.connect() as connection:
            return look(connection)

    def slot(self, place: int) -> UUID:
        slots = list(self.model.rows.slots)
        return slots[place % len(slots)]

    def one(self, place: int) -> Row:
        """The appointment at a place, of the active ones or of all."""
        all_ = [self.model.rows.appointments[one] for one in self.made]
        active = [row for row in all_ if row["status"] in ACTIVE]
        chosen = active if active and place % 4 else all_
        return chosen[place // 4 % len(chosen)]

    def agree(self, law: Callable[[], None], act: Callable[[], object]) -> None:
        """The product refuses exactly what the model refuses."""
        allowed = True
        try:
            act()
        except (Refusal, IntegrityError):
            allowed = False
        try:
            law()
        except Refused:
            assert not allowed, "done, although it is forbidden"
        else:
            assert allowed, "refused, although it is allowed"

    @invariant()
    def the_database_is_what_the_specification_says(self) -> None:
        rows = self.look()
        told = differences(rows, self.model.rows)
        told += [text for text in broken(rows) if not any(str(one) in text for one in self.spoiled)]
        assert not told, "\n".join(told)

    def teardown(self) -> None:
        self.keep(self.look())
