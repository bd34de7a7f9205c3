"""Verb 4: what the next cycle would change and publish; each item is written and rolled back."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from app import schema
from app.domain.booking import Ending
from app.domain.law import Refusal
from app.store import claims, endings, errors, failures
from app.store.claims import Wanted

RUN_ID = "dry-run"
"""Stands where a cycle's messages have its run id."""


@dataclass(frozen=True, slots=True)
class Prospect:
    """What would become of one overdue appointment: an ending, or an objection in plain words."""

    appointment_id: UUID
    pending_expires_at: datetime
    ending: Ending | None
    objection: str | None = None


def prospects(engine: Engine, batch_size: int) -> Iterator[Prospect]:
    """The next cycle's appointments, oldest first, then those that failed before.

    Up to `batch_size` of them would expire. What somebody else holds is not seen, as in a cycle.
    Each is locked for as long as its own transaction takes, not for the whole look.
    """
    with engine.begin() as connection:
        schema.check(connection)
        as_of = claims.open_cycle(connection, batch_size).as_of
        failed = failures.failed_before(connection, as_of)
    with engine.connect() as connection:
        for statement in (claims.CLAIM_NEXT, claims.CLAIM_ONE, endings.SAVE_ENDING):
            statement.prepare(connection)
        connection.commit()
        expiring = 0
        for claim in _claims(connection, as_of, failed):
            prospect = _prospect(connection, claim, as_of)
            connection.rollback()
            yield prospect
            expiring += prospect.ending is not None
            if expiring == batch_size:
                return


def _claims(
    connection: Connection, as_of: datetime, failed: Sequence[UUID]
) -> Iterator[claims.Claim]:
    cursor = claims.START
    while claim := claims.claim(connection, Wanted(as_of, cursor)):
        cursor = claim.position
        yield claim
    for appointment_id in failed:
        if retry := claims.claim(connection, Wanted(as_of, cursor, appointment_id)):
            yield retry


def _prospect(connection: Connection, claim: claims.Claim, as_of: datetime) -> Prospect:
    appointment_id, deadline = claim.position.appointment_id, claim.position.pending_expires_at
    if claim.held_part:
        held = f"somebody else holds its {claim.held_part}: it would be passed over"
        return Prospect(appointment_id, deadline, None, held)
    try:
        ending = claim.booking.expire(as_of, RUN_ID)
        endings.save_ending(connection, ending)
    except Refusal as refusal:
        return Prospect(appointment_id, deadline, None, str(refusal))
    except endings.VersionConflictError as rival:
        return Prospect(appointment_id, deadline, None, str(rival))
    except SQLAlchemyError as error:
        if errors.is_everybodys(error):
            raise
        return Prospect(appointment_id, deadline, None, errors.sentence(error))
    return Prospect(appointment_id, deadline, ending)
