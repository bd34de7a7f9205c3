"""The tick, and the wake-up, of the outbox publisher."""

from celery import Task, shared_task

from app import kafka, publish
from app.report import DrainOptions, DrainReport
from app.settings import AppointmentTimeoutSettings, KafkaSettings, OutboxSettings
from app.store.runs import Job
from app.telemetry import traces
from tasks.doors import Standing, ended, engine, one_at_a_time, telling
from tasks.process import instance

LINGER_SECONDS = 10
"""Beyond its budget a cycle finishes what it holds; so long it may still be followed."""


@shared_task(name="calendar.outbox_publisher", base=Standing, bind=True)
def outbox_publisher(self: "Task[[], dict[str, int]]") -> dict[str, int]:
    """Drain the outbox to Kafka (section 7). Takes no argument."""
    run_id = str(self.request.id)
    cycle = AppointmentTimeoutSettings.load().appointment_timeout_max_duration_seconds

    def drain() -> dict[str, int]:
        with traces.here().run("drain", run_id):
            report = publish.drain(
                engine(),
                kafka.sender(KafkaSettings.load()),
                DrainOptions(
                    batch_size=OutboxSettings.load().outbox_publisher_batch_size,
                    cycle_seconds=cycle + LINGER_SECONDS,
                ),
                run_id,
                stopping=instance().stopping,
                tell=telling(),
            )
        return ended(report.outcome, report.detail, report.result())

    return one_at_a_time(self, Job.OUTBOX_PUBLISHER, DrainReport(run_id).result(), drain)
