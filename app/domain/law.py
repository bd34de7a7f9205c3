"""What every noun's law shares: how a move is refused, and what counts as a point in time."""

from datetime import UTC, datetime
from uuid import UUID


class Refusal(Exception):
    """A move that the law forbids. Raised before anything is changed.

    Names the noun, its id, what was found and what was wanted (identifiers and statuses only, D5).
    """

    def __init__(self, noun: str, noun_id: UUID | None, *, found: object, wanted: str) -> None:
        self.noun = noun
        self.noun_id = noun_id
        self.found = str(found)
        self.wanted = wanted
        super().__init__(f"{noun} {noun_id}: found {self.found}, wanted {wanted}")

    @property
    def rule(self) -> str:
        """The broken rule without the id, so that equal failures can be counted together."""
        return f"{self.noun}: found {self.found}, wanted {self.wanted}"


class NaiveTimeError(ValueError):
    """A point in time without its offset (D2)."""


def instant(moment: datetime) -> datetime:
    """The same point in time in UTC; a naive one is refused (D2)."""
    if moment.tzinfo is None:
        raise NaiveTimeError(f"{moment.isoformat()} has no offset: give an aware point in time")
    return moment.astimezone(UTC)
