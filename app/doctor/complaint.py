"""What a patient's examination says."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Complaint:
    """One misconfiguration: what was found, and what mends it. No secret, no address.

    A serious one keeps the product from its work or from a promise; others deserve a look.
    Commands and statements of the remedy stand between backticks.
    """

    found: str
    remedy: str
    serious: bool = True


class NotExamined(Exception):
    """The patient could not be looked at at all; the reason is another patient's complaint."""
