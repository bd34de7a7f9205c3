"""Who may take part: the product's real operations, and writers from outside in plain SQL.

Each role knows what it does, and what the specification says becomes of it when its turn comes.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import Engine, text

from app import operations
from app.expire import run_cycle
from app.report import CycleOptions
from tests.interleaving.model import Model
from tests.world import Made

DAY = timedelta(days=1)


@dataclass(frozen=True)
class Scene:
    """One overdue appointment with all that hangs on it, and the time at which rivals act."""

    number: int
    made: Made
    now: datetime
    another_investor: UUID

    def run_id(self, actor: str) -> str:
        """The run, or the correlation, of this actor's doing."""
        return f"{actor}, scene {self.number}"


@dataclass(frozen=True)
class Role:
    """What an actor does; `law` tells the model (None: it is a cycle), given the act's result."""

    name: str
    act: Callable[[Engine, Scene, str], object]
    law: Callable[[Model, Scene, str, Any], None] | None = None


def _expire(engine: Engine, scene: Scene, me: str) -> object:
    return run_cycle(engine, CycleOptions(connections=1), scene.run_id(me))


def _outside(sql: str) -> Callable[[Engine, Scene, str], object]:
    def act(engine: Engine, scene: Scene, _me: str) -> object:
        values = {"id": scene.made.appointment, "event": scene.made.event, "now": scene.now}
        with engine.begin() as connection:
            return connection.execute(text(sql), values).rowcount

    return act


EXPIRY = Role("expiry", _expire)
CONFIRM = Role(
    "confirm",
    lambda engine, scene, _: operations.confirm(engine, scene.made.appointment, scene.now),
    lambda model, scene, _me, _: model.confirm(scene.made.appointment, scene.now),
)
DECLINE = Role(
    "decline",
    lambda engine, scene, me: operations.decline(
        engine, scene.made.appointment, scene.now, scene.run_id(me)
    ),
    lambda model, scene, me, _: model.decline(scene.made.appointment, scene.now, scene.run_id(me)),
)
CANCEL = Role(
    "cancel",
    lambda engine, scene, me: operations.cancel(
        engine, scene.made.appointment, scene.made.investor, scene.now, scene.run_id(me)
    ),
    lambda model, scene, me, _: model.cancel(
        scene.made.appointment, scene.made.investor, scene.now, scene.run_id(me)
    ),
)
BOOK = Role(
    "book the freed slot",
    lambda engine, scene, _: operations.book(
        engine, scene.made.slot, scene.another_investor, scene.now
    ),
    lambda model, scene, _, booked: model.book(
        scene.made.slot,
        (booked.id, booked.calendar_event_id) if booked else (scene.made.slot, scene.made.slot),
        scene.another_investor,
        scene.now,
    ),
)
REMINDER = Role(
    "reminder inserted",
    _outside(
        """INSERT INTO calendar.event_reminders (calendar_event_id, remind_at, updated_at)
        VALUES (:event, :now, :now)"""
    ),
    lambda model, scene, _me, _: model.remind(scene.made.event, scene.now, scene.now),
)
DEADLINE = Role(
    "deadline moved later",
    _outside(
        """UPDATE calendar.appointments SET pending_expires_at = :now + interval '1 day',
        updated_at = :now, version = version + 1 WHERE id = :id AND status = 'Pending'"""
    ),
    lambda model, scene, _me, _: model.move_deadline(
        scene.made.appointment, scene.now + DAY, scene.now
    ),
)
DELETE = Role(
    "row deleted",
    _outside("DELETE FROM calendar.appointments WHERE id = :id AND status = 'Pending'"),
    lambda model, scene, _me, _: model.delete(scene.made.appointment),
)
RIVALS = (CONFIRM, DECLINE, CANCEL, BOOK, EXPIRY, REMINDER, DEADLINE, DELETE)
