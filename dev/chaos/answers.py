"""What a user is told when something is asked of the calendar."""

from collections.abc import Callable
from typing import TypeVar

from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from app.domain.law import Refusal
from app.store.endings import VersionConflictError
from app.store.errors import sqlstate
from dev.chaos.ledger import Answer

T = TypeVar("T")

_BUSY = ("55P03", "57014")  # lock timeout, statement timeout
_DEADLOCK = ("40P01",)
_BROKEN = ("08", "57P", "53", "25P03")  # connection, shutdown, resources, idle in transaction


def ask(work: Callable[[], T]) -> tuple[T | None, Answer, str]:
    """Do it: what came of it, what the user is told, and the error's name."""
    try:
        return work(), Answer.DONE, ""
    except (Refusal, VersionConflictError):
        return None, Answer.REFUSED, ""
    except SQLAlchemyError as error:
        return None, _meaning(error), f"{type(error).__name__} {sqlstate(error)}"
    except Exception as error:  # noqa: BLE001 - whatever else a user would see is a finding
        return None, Answer.SURPRISE, type(error).__name__


def _meaning(error: SQLAlchemyError) -> Answer:
    code = sqlstate(error)
    if code is None:
        return Answer.UNKNOWN if _was_connected(error) else Answer.AWAY
    kinds = {Answer.BUSY: _BUSY, Answer.DEADLOCK: _DEADLOCK, Answer.UNKNOWN: _BROKEN}
    fitting = (answer for answer, codes in kinds.items() if code.startswith(codes))
    return next(fitting, Answer.SURPRISE)


def _was_connected(error: SQLAlchemyError) -> bool:
    """Whether it can have happened: a connection broke, and not merely could not be made."""
    return isinstance(error, DBAPIError) and error.connection_invalidated
