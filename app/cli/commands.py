"""The commands as they are typed. What each does is imported when it does it.

So `--help`, and a mistyped option, wait for neither the database's library nor the settings'.
"""

from typing import Annotated
from uuid import UUID

import typer

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
desk = typer.Typer(
    help="Work the messages that Kafka refused for their own sake.", no_args_is_help=True
)

AsJson = Annotated[bool, typer.Option("--json", help="As one JSON document.")]
Chosen = Annotated[
    str | None, typer.Argument(metavar="[MESSAGE]", help="One message, by its message id.")
]
Topic = Annotated[str | None, typer.Option(help="Those of this topic.")]
All = Annotated[bool, typer.Option("--all", help="All that are set aside.")]


def _tell_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(version("appointment-timeout"))
        raise typer.Exit


@app.callback()
def _options(
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_tell_version, is_eager=True, help="Say which it is."),
    ] = False,
) -> None:
    """Look after the running product: appointment expiry and its outbox."""


@app.command()
def migrate(
    back_to: Annotated[
        str | None,
        typer.Option(
            metavar="REVISION",
            help="Go back to this older revision instead ('base' removes the schema's tables "
            "with all their data).",
        ),
    ] = None,
    adopt: Annotated[
        bool,
        typer.Option("--adopt", help="Work on appointments that are there: make what is missing."),
    ] = False,
    guards: Annotated[
        bool,
        typer.Option("--guards", help="With --adopt: refuse what the rules forbid, from now on."),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="With --adopt: show it and change nothing.")
    ] = False,
) -> None:
    """Bring the schema up to date. Safe to repeat, and when several start it at once."""
    from app.cli.migrate import migrate

    migrate(back_to, adopt=adopt, guards=guards, dry_run=dry_run)


@app.command()
def sample(
    count: Annotated[int, typer.Option(min=1, max=1_000_000, help="How many to book.")] = 20,
) -> None:
    """Book sample appointments, some already overdue."""
    from app.cli.sample import sample

    sample(count)


@app.command()
def status(
    limit: Annotated[int, typer.Option(min=1, help="Show so many appointments of a kind.")] = 20,
    as_json: AsJson = False,
) -> None:
    """Backlog and when it is empty, poison items with reasons, outbox, last successful cycle."""
    from app.cli.status import status

    status(limit, as_json=as_json)


@app.command()
def runs(
    run_id: Annotated[
        str | None, typer.Argument(help="One run, by the task id that `celery call` printed.")
    ] = None,
    count: Annotated[int, typer.Option(min=1, max=10_000, help="How many of the last.")] = 20,
    job: Annotated[
        str | None, typer.Option(help="Only 'appointment_timeout' or 'outbox_publisher'.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """The last cycles and drains, or one of them: times, outcome, figures."""
    from app.cli.runs import runs

    runs(run_id, count, job, as_json=as_json)


@app.command()
def pause(
    reason: Annotated[
        str, typer.Option(help="Why: shown by `status`, in every skipped run and in the alert.")
    ],
) -> None:
    """Pull the brake: no appointment expires until `resume`; a running cycle obeys in a second."""
    from app.cli.brake import pause

    pause(reason)


@app.command()
def resume() -> None:
    """Release the brake: the next cycle goes on with the oldest appointments first."""
    from app.cli.brake import resume

    resume()


@app.command()
def health(
    live: Annotated[
        bool,
        typer.Option(
            "--live/--ready",
            help="--ready: the database is reachable and its schema fits. --live: moreover some "
            "cycle, on whatever worker, has ended within the last five intervals.",
        ),
    ] = False,
) -> None:
    """Whether the work can be done (--ready), or is being done (--live)."""
    from app.cli.health import health

    health(live=live)


@app.command()
def verify(
    kafka: Annotated[
        bool, typer.Option("--kafka", help="Compare the outbox with Kafka's topics as well.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Audit every rule on the live database: exit 1 if one is violated. Warnings do not fail."""
    from app.cli.verify import verify

    verify(kafka=kafka, as_json=as_json)


@app.command()
def why(
    appointment_id: Annotated[UUID, typer.Argument(metavar="APPOINTMENT_ID")],
    as_json: AsJson = False,
) -> None:
    """Why this appointment has or has not expired, and the remedy."""
    from app.cli.why import why

    why(appointment_id, as_json=as_json)


@app.command()
def expire(
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show it and change nothing (must be given).")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="As one JSON document, messages and all.")
    ] = False,
) -> None:
    """What the next cycle would do, per appointment: each is written and rolled back."""
    from app.cli.expire import expire

    expire(dry_run=dry_run, as_json=as_json)


@app.command()
def doctor(as_json: AsJson = False) -> None:
    """Report each misconfiguration with its remedy: exit 1 if one is serious. Changes nothing."""
    from app.cli.doctor import doctor

    doctor(as_json=as_json)


app.add_typer(desk, name="outbox")


@desk.command("list")
def listing(
    topic: Topic = None,
    limit: Annotated[int, typer.Option(min=1, help="Show so many.")] = 100,
    as_json: AsJson = False,
) -> None:
    """The refused messages: those still being tried, and those set aside."""
    from app.cli import outbox

    outbox.listing(topic, limit, as_json=as_json)


@desk.command()
def requeue(message: Chosen = None, topic: Topic = None, every: All = False) -> None:
    """Put messages back into the outbox, in their order, once their cause is mended."""
    from app.cli import outbox

    outbox.requeue(message, topic, every=every)


@desk.command()
def discard(message: Chosen = None, topic: Topic = None, every: All = False) -> None:
    """Give messages up for good: they are never sent, and later ones of their keys may go."""
    from app.cli import outbox

    outbox.discard(message, topic, every=every)
