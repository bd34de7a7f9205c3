"""The lanes of a cycle: a few connections side by side; commits share the disk's flushes."""

from concurrent.futures import ThreadPoolExecutor, wait
from contextvars import copy_context

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from app.cycle import Cycle
from app.lane import Lane
from app.store import brake, claims, errors
from app.store.runs import Outcome

LOOK_AT_THE_BRAKE_SECONDS = 0.5


def run(engine: Engine, cycle: Cycle, count: int) -> None:
    """Work on so many connections until the agenda is over; then count who was passed over."""
    with (
        engine.connect() as beside,
        engine.connect() as first,
        ThreadPoolExecutor(count, "lane") as threads,
    ):
        # in copies of this thread's context, so that whoever follows the cycle follows on
        lanes = [threads.submit(copy_context().run, Lane(cycle, first).work)]
        lanes += [
            threads.submit(copy_context().run, _further_lane, engine, cycle)
            for _ in range(count - 1)
        ]
        try:
            while wait(lanes, LOOK_AT_THE_BRAKE_SECONDS).not_done:
                _obey_the_brake(beside, cycle)
        except BaseException:  # a signal, or the brake cannot be asked: finish what is held
            cycle.agenda.end(Outcome.STOPPED)
            raise
        for lane in lanes:
            lane.result()
        cycle.report.outcome = cycle.agenda.outcome
        with beside.begin():
            cycle.report.skipped_locked = _count_passed_over(beside, cycle)


def _further_lane(engine: Engine, cycle: Cycle) -> None:
    """A lane that need not be: without a connection for it the cycle is slower, not failed."""
    try:
        opened = engine.connect()
    except SQLAlchemyError as error:
        cycle.report.detail = f"fewer lanes than asked for: {errors.sentence(error)}"
        return
    with opened as connection:
        Lane(cycle, connection).work()


def _obey_the_brake(connection: Connection, cycle: Cycle) -> None:
    """Stop between items once somebody has pulled it."""
    with connection.begin():
        pulled = brake.current(connection)
    if pulled:
        cycle.report.detail = pulled.sentence
        cycle.agenda.end(Outcome.STOPPED)


def _count_passed_over(connection: Connection, cycle: Cycle) -> int:
    upto = claims.END if cycle.agenda.exhausted else cycle.cursor
    return claims.count_passed_over(connection, cycle.opening, upto, cycle.unkept, cycle.held)
