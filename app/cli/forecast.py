"""How long the backlog will take, and what says so: shown by `status`."""

from dataclasses import dataclass

from app.cli.desk import age
from app.store.brake import Brake
from app.store.pace import Pace
from app.store.runs import MISSED_TICKS


@dataclass(frozen=True)
class Forecast:
    """Seconds until those in line have expired, None when that is unknown; and why."""

    seconds: float | None
    because: str

    def __str__(self) -> str:
        """For the table."""
        known = "unknown" if self.seconds is None else f"about {age(self.seconds)}"
        return f"{known}: {self.because}"


def forecast(count: int, pace: Pace | None, brake: Brake | None, interval: float) -> Forecast:
    """For so many, from the pace of the last cycles; who comes meanwhile is not foreseen."""
    if brake:
        return Forecast(None, "the brake is on")
    if pace is None:
        return Forecast(None, "fewer than two cycles have begun since the oldest is overdue")
    if pace.idle_seconds > MISSED_TICKS * interval:
        return Forecast(None, f"no cycle has begun for {age(pace.idle_seconds)}")
    cycles = f"the last {pace.cycles} cycles" if pace.cycles > 1 else "the last cycle"
    seconds = pace.seconds_for(count)
    if seconds is None:
        return Forecast(None, f"{cycles} expired nothing")
    minute = pace.expired / pace.seconds * 60
    return Forecast(seconds, f"{cycles} expired {minute:,.0f} a minute, and no others come")
