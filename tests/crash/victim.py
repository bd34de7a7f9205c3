"""The process that dies: it runs the product's real cycle or drain, watched at every point."""

from collections.abc import Callable
from dataclasses import asdict, astuple, dataclass
from typing import Any

import psycopg2
from sqlalchemy import make_url

from app import database, kafka, kafka_options
from app.expire import run_cycle
from app.publish import drain
from app.report import CycleOptions, DrainOptions
from app.settings import KafkaSettings
from tests.crash.points import NOWHERE, Point, Points, die, terminate, watch_engine, watch_kafka
from tests.interleaving import plants

KILL, TERMINATE, NOTHING = "kill", "terminate", "nothing"


@dataclass(frozen=True)
class Order:
    """What a victim is to do, and where what strikes it; `plant` names a planted bug."""

    job: str
    url: str
    run_id: str
    bootstrap: str = ""
    connections: int = 1
    strike: str = NOTHING
    at: Point = NOWHERE
    plant: str = ""


def live(order: Order, say: Callable[[dict[str, Any]], None]) -> None:
    """Do it, and `say` where it was struck and, if it lives to tell, what came of it."""
    if order.plant:
        getattr(plants, order.plant)(setattr)

    def strike(backend: int) -> None:
        say({"struck": True})
        if order.strike == KILL:
            die()
        try:
            terminate(order.url, backend)
        except psycopg2.Error as error:  # ours, not the product's: it must not be taken for one
            say({"error": f"the neighbour could not strike: {error}"})

    points = Points(order.at, strike)
    url = make_url(order.url).set(drivername="postgresql+psycopg2")
    engine = database.engine(url, order.connections + 2)
    watch_engine(engine, points)
    if order.job == "cycle":
        report = run_cycle(engine, CycleOptions(connections=order.connections), order.run_id)
        told = {"outcome": report.outcome, **report.result()}
    else:
        settings = KafkaSettings(kafka_bootstrap_servers=order.bootstrap)
        sender = kafka.Sender(kafka_options.configuration(settings))
        watch_kafka(points)
        ended = drain(engine, sender, DrainOptions(), order.run_id)
        told = {"outcome": ended.outcome, **ended.result()}
    say({"report": told, "points": [astuple(point) for point in points.met]})


def order_of(values: dict[str, Any]) -> Order:
    """An order as it came over a pipe."""
    return Order(**{**values, "at": Point(**values["at"])})


def values_of(order: Order) -> dict[str, Any]:
    """The same on its way there."""
    return asdict(order)
