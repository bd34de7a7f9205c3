"""What the judges find: a kind that the scorecard counts, and a sentence with the identifier."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """The columns of the scorecard."""

    LOST = "lost"
    DOUBLE = "double effect"
    ORDER = "order violation"
    OTHER = "other"


@dataclass(frozen=True)
class Finding:
    """Something that must not be."""

    kind: Kind
    says: str
    identifier: str


def findings(kind: Kind, says: str, identifiers: Iterable[object]) -> list[Finding]:
    """One for each."""
    return [Finding(kind, says, str(identifier)) for identifier in identifiers]
