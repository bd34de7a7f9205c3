"""An adopter's tables: what adoption would still do there, or cannot; in their own names."""

from collections.abc import Iterator

from sqlalchemy import Connection

from app.doctor import objects
from app.doctor.complaint import Complaint


def complaints(connection: Connection) -> Iterator[Complaint]:
    """What is missing. Guards are warnings: they are the adopter's to want."""
    if not objects.is_adopted(connection):
        return
    from app.adoption.plan import plan  # noqa: PLC0415 - Alembic, which is slow to import

    found = plan(connection)
    for obstacle in found.obstacles:
        yield Complaint(obstacle.found, obstacle.remedy)
    for step in found.steps:
        yield Complaint(
            f"Adoption is not complete: {step.lacks}.",
            f"`{step.sql}`, or `python -m app migrate --adopt` again",
        )
    for guard in found.guards:
        yield Complaint(
            f"The {guard.named} is {guard.state}: the database does not refuse what the domain"
            " forbids (D4).",
            "`python -m app migrate --adopt --guards`, or mend the rows that `verify` lists first.",
            serious=False,
        )
