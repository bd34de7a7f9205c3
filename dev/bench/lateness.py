"""The model beside the product: how late appointments expire, with a small tick and batch."""

from sqlalchemy import text

from dev.bench import backlog
from dev.bench.figure import Measured, Ratio, Samples
from dev.bench.model import Pace, share, simulate
from dev.bench.stage import Stage

INTERVAL, BATCH = 1.0, 50
_LOADS = {"below what is sustained": 0.8, "above it": 1.5}

_SPREAD = """
UPDATE calendar.appointments a SET pending_expires_at = clock_timestamp() + place * :gap
    * interval '1 second'
FROM (SELECT id, row_number() OVER (ORDER BY pending_expires_at) AS place
      FROM calendar.appointments) line
WHERE line.id = a.id
"""


def beside_the_model(stage: Stage) -> Measured:
    """The same load once for the product and once for the simulation, at the product's pace."""
    found, ratios = {}, []
    for name, part in _LOADS.items():
        load = part * BATCH / INTERVAL
        count = int(load * stage.size(30, 5))
        with stage.database() as made, stage.worker(made) as worker:
            backlog.bookings(made.engine, count)
            with made.engine.begin() as connection:
                backlog.unlimited(connection)
                connection.execute(text(_SPREAD), {"gap": 1 / load})
            done = worker.do("ticks", interval=INTERVAL, items=BATCH, count=count)
            backlog.check_whole(made.engine, count)
        pace = Pace(count / done["busy"], batch=BATCH, interval=INTERVAL)
        modelled = simulate(pace, load, count / load)
        ratios.append(share(done["late"], 0.99) / share(modelled, 0.99))
        found[f"p99 {name}"] = Samples([share(done["late"], 0.99)], " s")
        found[f"p99 {name}, modelled"] = Samples([share(modelled, 0.99)], " s")
    return Measured(Ratio(ratios), found)
