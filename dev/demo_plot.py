"""The demo's scenes, in their order."""

from collections.abc import Sequence
from uuid import UUID

from rich.text import Text

from app import database, operations
from app.settings import DatabaseSettings
from dev.demo_checks import Check, check_all, check_flower, check_run
from dev.demo_evidence import consume, flower_saw
from dev.demo_sample import AT_FIRST, BY_HAND, CONFIRMED, Booked, Kind, State, book_all, now, states
from dev.demo_show import appointments, checks, in_full, messages
from dev.demo_watch import Voice, Watch
from dev.processes import CeleryProcesses, Failure, command, place
from dev.servers.port import LOOPBACK, free_port
from dev.servers.stack import CELERY_BROKER_URL, DATABASE_URL, KAFKA_BOOTSTRAP_SERVERS, Stack

_CYCLE = "calendar.appointment_timeout"
_AGENT_ACTS = 8.0  # seconds before the deadline


class Plot:
    """One performance on a running stack, with the Celery processes that it starts."""

    def __init__(self, voice: Voice, stack: Stack, celery: CeleryProcesses) -> None:
        self.voice = voice
        self.console = voice.console
        self.stack = stack
        self.celery = celery
        url = DatabaseSettings(database_url=stack.environment[DATABASE_URL]).url
        self.engine = database.engine(url, 2)
        self.watch = Watch(voice, self.engine, self.look_after)
        self.flower_port = free_port()
        self.flower = f"http://{LOOPBACK}:{self.flower_port}"
        self.booked: list[Booked] = []
        self.before: dict[UUID, State] = {}
        self.confirmed: list[Booked] = []

    def play(self) -> None:
        """All scenes; Failure when a promise was not kept."""
        self.show_servers()
        self.book_first()
        self.let_celery_work()
        self.show_end(self.trigger_by_hand())

    def show_servers(self) -> None:
        """Where the servers are; the schema."""
        self.voice.chapter("Real servers")
        for name, variable, embedded, given in (
            ("PostgreSQL", DATABASE_URL, self.stack.postgres, "yours, in a database of its own"),
            ("Valkey", CELERY_BROKER_URL, self.stack.valkey, "yours, in an empty database"),
            ("Kafka", KAFKA_BOOTSTRAP_SERVERS, self.stack.kafka, "yours: the messages stay there"),
        ):
            whose = "" if embedded else f"  [dim]({given})[/]"
            self.voice.say(f"{name:10}  {place(self.stack.environment[variable])}{whose}")
        self.run("python -m app migrate")

    def book_first(self) -> None:
        """Appointments of every kind."""
        self.voice.chapter("Before")
        self.book(AT_FIRST)
        self.voice.say(
            f"{len(self.booked)} appointments are booked through the calendar's own operation."
        )
        self.console.print()
        self.console.print(appointments(self.booked, self.before, self.before, self.console.width))

    def book(self, kinds: Sequence[Kind]) -> None:
        """Book, and remember how they stood."""
        new = book_all(self.engine, kinds)
        self.before |= states(self.engine, new)
        self.booked += new

    def let_celery_work(self) -> None:
        """Beat, worker and Flower, until all that is due has expired and is published."""
        self.voice.chapter("Celery at work")
        self.voice.say(
            "A worker, the beat and Flower start. The schedule is shortened: a cycle every 5 s"
            " instead of every 60 s. Three of the appointments become due while you watch."
        )
        self.celery.start("worker", "-n", "demo@%h")
        self.celery.start("beat")
        self.celery.start("flower", f"--address={LOOPBACK}", f"--port={self.flower_port}")
        self.voice.say(f"Flower, to look around meanwhile: {self.flower}")
        self.watch.until(self.expiring, meanwhile=self.agent_confirms)

    @property
    def expiring(self) -> int:
        """How many of those booked so far are to expire."""
        return sum(one.kind.expires for one in self.booked)

    def agent_confirms(self) -> None:
        """One agent acts just in time."""
        moment = now(self.engine)
        for one in [one for one in self.booked if one.kind is CONFIRMED]:
            left = one.seconds_left(moment)
            if left < _AGENT_ACTS and one not in self.confirmed:
                operations.confirm(self.engine, one.id, moment)
                self.confirmed.append(one)
                self.voice.say(
                    f"The agent confirms {one.name}, [bold]{left:.0f} s before its deadline[/]:"
                    " it stays."
                )

    def trigger_by_hand(self) -> list[Check]:
        """Without the beat: the product's own commands, as an operator types them."""
        self.voice.chapter("One cycle by hand")
        self.celery.stop("beat")
        self.book(BY_HAND)
        self.voice.say(
            "The beat is stopped, and two more overdue appointments are booked: the next cycle"
            " starts only by hand."
        )
        run_id = self.run(f"celery -A tasks call {_CYCLE}")
        self.watch.until(self.expiring)
        run = self.watch.record(run_id)
        self.run(f"python -m app runs {run_id}")
        with self.voice.busy("Asking Flower for the same task"):
            state = flower_saw(self.flower, run_id)
        return [check_run(run, self.booked[-len(BY_HAND) :]), check_flower(state)]

    def show_end(self, evidence: Sequence[Check]) -> None:
        """After, the messages, and whether all is as promised."""
        with self.voice.busy("The worker ends its work (warm shutdown)"):
            self.celery.stop()
        after = states(self.engine, self.booked)
        with self.voice.busy("A plain consumer reads the topics from their beginning"):
            records = consume(
                self.stack.environment[KAFKA_BOOTSTRAP_SERVERS], self.booked, self.expiring * 2
            )
        self.voice.chapter("After")
        self.console.print(appointments(self.booked, self.before, after, self.console.width))
        self.voice.chapter("What a plain consumer read from Kafka")
        self.console.print(messages(records))
        self.voice.chapter("One pair of them in full")
        self.console.print(in_full(records, self.booked[0].id))
        found = [*check_all(self.booked, self.before, after, records), *evidence]
        self.voice.chapter("Checked")
        self.console.print(checks(found))
        if broken := [check for check in found if check.broken]:
            raise Failure(f"{len(broken)} of {len(found)} checks do not hold.")

    def run(self, line: str) -> str:
        """Run a command as one types it, and show both it and what it prints."""
        self.voice.say(f"[bold]$ {line}")
        environment = {**self.celery.environment, "COLUMNS": str(self.console.width)}
        printed = command(line.removeprefix("python -m ").split(), environment)
        self.console.print(Text(printed))
        return printed

    def look_after(self) -> None:
        """ServerError as soon as anything of ours has died."""
        self.celery.check()
        self.stack.check()
