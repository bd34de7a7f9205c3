"""`why`: the reason why one appointment has or has not expired, and what to do about it."""

from dataclasses import fields
from datetime import datetime, timedelta
from uuid import UUID

import typer

from app.cli.desk import age, connected, console, engine, show_json, shown
from app.settings import AppointmentTimeoutSettings, OutboxSettings
from app.store.why import CAP, Holder, Situation, Told
from app.why import Answer, Verdict, WhyOptions, diagnose

NOTHING = "There is nothing to do."
RUNBOOK = "ops/runbooks/appointment-timeout.md"


def why(appointment_id: UUID, *, as_json: bool) -> None:
    """Why this appointment has or has not expired, and the remedy."""
    with connected():  # refuses a schema that does not fit
        pass
    timeout = AppointmentTimeoutSettings.load()
    options = WhyOptions(
        interval_seconds=timeout.appointment_timeout_interval_seconds,
        max_duration_seconds=timeout.appointment_timeout_max_duration_seconds,
        batch_size=timeout.appointment_timeout_batch_size,
        retention_days=OutboxSettings.load().outbox_retention_days,
    )
    answer = diagnose(engine(), appointment_id, options)
    reason, remedy = words(answer, options)
    if as_json:
        told = {field.name: getattr(answer, field.name) for field in fields(answer)}
        show_json({"reason": reason, "remedy": remedy, **told})
    else:
        for line in (*reason, f"What to do: {remedy}"):
            console.print(line, soft_wrap=True, markup=False)
    raise typer.Exit(1 if answer.verdict is Verdict.MISSING else 0)


def words(answer: Answer, options: WhyOptions) -> tuple[list[str], str]:
    """The reason in plain sentences, and the remedy."""
    found = answer.situation
    if answer.verdict is Verdict.MISSING:
        return ["There is no such appointment."], "Check the id; perhaps its row was deleted."
    if answer.verdict in {Verdict.LOCKED, Verdict.IN_HAND} or found is None:
        return _held(answer)
    if found.status != "Pending":
        return _past(answer, found, options)
    if answer.verdict is Verdict.NO_DEADLINE:
        return [
            "It is Pending without a deadline (PendingExpiresAt is empty), and such a one never"
            " expires: "
            + (
                "its slot is auto-confirmed."
                if found.auto_confirm
                else "only auto-confirmed appointments may have none."
            )
        ], "Confirm, decline or cancel it, or give it its deadline (rule D1)."
    if answer.verdict is Verdict.NOT_DUE:
        left = _span(found.now, found.pending_expires_at)
        return [
            f"It is not due: its agent has time until {_at(found.pending_expires_at)}, for {left}."
        ], NOTHING
    overdue = f"It is overdue since {_at(found.pending_expires_at)}, for "
    overdue += f"{_span(found.pending_expires_at, found.now)}, and still Pending."
    reason, remedy = _waiting(answer, found, options)
    return [overdue, *reason], remedy


def _held(answer: Answer) -> tuple[list[str], str]:
    found = answer.situation
    reason = [_holder(holder) for holder in answer.holders]
    if answer.verdict is Verdict.IN_HAND and found is not None:
        return [
            "It is overdue, and in the hands of this product right now:",
            *reason,
            f"The cycle {found.running} is at work.",
        ], "Ask again in a moment."
    if len(answer.holders) > 1:
        reason.append("Several transactions have a part in it.")
    pids = {holder.pid for holder in answer.holders if holder.pid}
    end = " or ".join(f"SELECT pg_terminate_backend({pid})" for pid in sorted(pids))
    what = (
        "It is overdue, and locked by somebody else; a cycle passes over what is held:"
        if found
        else "Its table is locked as a whole: neither a cycle nor this command can work on it:"
    )
    return [what, *reason], (
        "The first cycle after the lock's end takes it."
        + (f" If its owner hangs, end it: {end}." if end else "")
    )


def _holder(holder: Holder) -> str:
    if holder.prepared_as:
        return (
            f"  the {holder.part} by the prepared transaction {holder.prepared_as!r},"
            f" since {_at(holder.since)}: COMMIT PREPARED or ROLLBACK PREPARED ends it"
        )
    state = holder.state or "in a state that this role may not see (it lacks pg_read_all_stats)"
    return (
        f"  the {holder.part} by backend {holder.pid} ({holder.application or 'no name'}),"
        f" in a transaction since {_at(holder.since)}, {state}, last statement"
        f" {holder.doing or 'unknown'}"
    )


def _waiting(answer: Answer, found: Situation, options: WhyOptions) -> tuple[list[str], str]:
    """Overdue and held by nobody."""
    last = (
        "none is kept"
        if found.last_success is None
        else f"the last one ended {_at(found.last_success)}"
    )
    match answer.verdict:
        case Verdict.POISON:
            rule = answer.objection or found.rule
            state = (
                f" (SQLSTATE {found.sqlstate})" if found.sqlstate and not answer.objection else ""
            )
            return [f"It cannot expire: {rule}{state}.", *_failures(found)], (
                f"Mend the data; the next cycle then takes it. See {RUNBOOK}, poison item."
            )
        case Verdict.PAUSED if answer.brake:
            return [f"No appointment expires now: {answer.brake.sentence}."], (
                "`python -m app resume`, when it is meant to go on."
            )
        case Verdict.NO_CYCLE:
            return [f"No cycle has succeeded since: {last}."], (
                "Check that beat and a worker of queue calendar.appointment_timeout run and reach"
                f" the broker, and see `python -m app runs` for failed ones. See {RUNBOOK}."
            )
        case _:
            cycles = found.due_before // options.batch_size + 1
            more = " or more" if found.due_before >= CAP else ""
            retried = (
                [*_failures(found), "The law objects to nothing any more."] if found.rule else []
            )
            return [
                *retried,
                (
                    f"Cycles succeed ({last}), nobody holds it, and {found.due_before}{more} are"
                    f" due before it: it should be taken within {cycles} cycle{'s' * (cycles > 1)},"
                    f" about {age(cycles * options.interval_seconds)}."
                ),
            ], NOTHING


def _failures(found: Situation) -> list[str]:
    if not found.rule:
        return ["No cycle has tried it yet."]
    return [
        (
            f"It failed {found.attempts} time{'s' * (found.attempts != 1)} since"
            f" {_at(found.failing_since)}, last {_at(found.last_failed_at)} in run"
            f" {found.last_run_id}: {found.rule}."
        )
    ]


def _past(answer: Answer, found: Situation, options: WhyOptions) -> tuple[list[str], str]:
    """It has left Pending."""
    since = f"since {_at(found.updated_at)}, {_span(found.updated_at, found.now)} ago"
    if answer.verdict is Verdict.CONFIRMED:
        how = "by itself (auto-confirm)" if found.pending_expires_at is None else "in time"
        return [f"It was confirmed {how}, {since}: it never expires."], NOTHING
    if answer.verdict is Verdict.UNKNOWN_STATUS:
        return [f"It is {found.status}, {since}: a status that expiry does not touch."], NOTHING
    runs = sorted({told.correlation_id for told in answer.messages if told.correlation_id})
    by = f", by {'run' if found.status == 'Expired' else 'operation'} {' and '.join(runs)}"
    reason = [f"It is {found.status} {since}{by if runs else ''}."]
    reason += [f"  {told.topic}: {_state(told)}" for told in answer.messages]
    if len(answer.messages) < 2:  # noqa: PLR2004 - a pair
        kept = found.now - found.updated_at < timedelta(days=options.retention_days)
        return [*reason, "Its messages, or one of them, are not in the outbox."], (
            "They must be there: run `python -m app verify`."
            if kept
            else "Nothing: published messages leave the outbox after OUTBOX_RETENTION_DAYS."
        )
    if any(told.set_aside_at and not told.discarded_at for told in answer.messages):
        return reason, (
            "Mend the cause, then `python -m app outbox requeue MESSAGE` (or discard)."
            " See ops/runbooks/outbox-backlog.md."
        )
    return reason, NOTHING


def _state(told: Told) -> str:
    """What has become of a message."""
    if told.published_at:
        return f"published {_at(told.published_at)}"
    if told.discarded_at:
        return f"discarded by a person {_at(told.discarded_at)} ({told.last_error})"
    if told.set_aside_at:
        return f"message {told.message_id} set aside {_at(told.set_aside_at)}: {told.last_error}"
    if told.in_hand:
        return "being published right now"
    tried = f", refused so far: {told.last_error}" if told.last_error else ""
    return f"waiting for the publisher since {_at(told.created_at)}{tried}"


def _at(moment: datetime | None) -> str:
    return "an unknown time" if moment is None else f"{shown(moment)} UTC"


def _span(earlier: datetime | None, later: datetime | None) -> str:
    return age((later - earlier).total_seconds()) if earlier and later else "an unknown time"
