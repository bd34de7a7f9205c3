"""The hourly tick of retention."""

from celery import Task, shared_task
from sqlalchemy.exc import SQLAlchemyError

from app import retention
from app.settings import OutboxSettings
from app.store import errors
from app.store.runs import Job
from tasks.doors import RunFailedError, Standing, engine, one_at_a_time
from tasks.process import instance


@shared_task(name="calendar.retention", base=Standing, bind=True)
def retention_sweep(self: "Task[[], dict[str, int]]") -> dict[str, int]:
    """Remove what is past its retention (O5): a few seconds per run. Takes no argument."""
    settings = OutboxSettings.load()
    options = retention.RetentionOptions(
        outbox_days=settings.outbox_retention_days, job_runs_days=settings.job_runs_retention_days
    )

    def sweep() -> dict[str, int]:
        try:
            return retention.sweep(engine(), options, stopping=instance().stopping)
        except SQLAlchemyError as error:  # the next hour tries again
            raise RunFailedError(errors.sentence(error)) from None

    return one_at_a_time(self, Job.RETENTION, {}, sweep)
