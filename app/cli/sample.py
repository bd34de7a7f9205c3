"""`sample`: book sample appointments through the calendar's own operations."""

from collections import Counter
from datetime import datetime, timedelta
from itertools import cycle, islice
from uuid import uuid4

from rich.progress import track
from sqlalchemy import Engine, text

from app import operations, schema
from app.cli.desk import connected, console, engine, table
from app.domain.appointment import Appointment
from app.store import bookings

HOUR = timedelta(hours=1)
LEAD_MINUTES = 60

# What it is -> (booked so long ago, slot starts in, auto-confirm)
KINDS: dict[str, tuple[timedelta, timedelta, bool]] = {
    "overdue, slot can be sold again": (25 * HOUR, 48 * HOUR, False),
    "overdue, lead time begun": (5 * HOUR, 0.5 * HOUR, False),
    "due within a minute": (24 * HOUR - timedelta(seconds=45), 72 * HOUR, False),
    "waits for its agent": (1 * HOUR, 96 * HOUR, False),
    "confirmed by itself": (1 * HOUR, 96 * HOUR, True),
}
MIX = (0, 1, 0, 2, 0, 1, 3, 0, 1, 4)
"""How often each kind comes, as places in `KINDS`: most of them have something to show."""


def sample(count: int) -> None:
    """Book sample appointments, some already overdue."""
    with connected() as connection:
        if schema.is_adopted(connection):
            raise schema.SchemaError("These tables were adopted: no samples are booked in them.")
        now: datetime = connection.execute(text("SELECT now()")).scalar_one()
    kinds = list(KINDS)
    chosen = [kinds[place] for place in islice(cycle(MIX), count)]
    for kind in track(chosen, "Booking", console=console, disable=not console.is_terminal):
        book(engine(), now, kind)
    console.print(
        table(f"{count} appointments booked", ["kind", "count"], Counter(chosen).most_common())
    )


def book(engine: Engine, now: datetime, kind: str) -> Appointment:
    """One appointment of this kind, made as an investor would have made it then."""
    ago, starts_in, auto_confirm = KINDS[kind]
    slot_id = uuid4()
    with engine.begin() as connection:
        bookings.offer_slot(
            connection,
            slot_id,
            tenant_id=uuid4(),
            agent_id=uuid4(),
            start_at=now + starts_in,
            end_at=now + starts_in + HOUR,
            min_lead_time_minutes=LEAD_MINUTES,
            auto_confirm=auto_confirm,
        )
    return operations.book(engine, slot_id, investor_id=uuid4(), as_of=now - ago)
