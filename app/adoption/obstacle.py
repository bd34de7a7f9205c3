"""What keeps a schema from being adopted, or an adopted one from being worked on."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Obstacle:
    """One sentence, and what the adopter can do; statements stand between backticks."""

    found: str
    remedy: str
