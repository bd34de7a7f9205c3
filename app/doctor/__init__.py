"""The doctor: what is wrong with the configuration, patient by patient, each with its remedy.

Nothing is written anywhere, every wait is bounded, and no patient hides what another one has.
"""

from collections.abc import Callable, Iterator, Mapping

from app.doctor import celery, kafka, postgres, redis, settings, work
from app.doctor.complaint import Complaint, NotExamined

PATIENTS: Mapping[str, Callable[[], Iterator[Complaint]]] = {
    "settings": settings.complaints,
    "celery": celery.complaints,
    "postgresql": postgres.complaints,
    "redis": redis.complaints,
    "kafka": kafka.complaints,
    "work": work.complaints,
}


def examine(patient: str) -> Iterator[Complaint]:
    """The patient's complaints, as they are found; NotExamined when it cannot be looked at."""
    try:
        yield from PATIENTS[patient]()
    except NotExamined:
        raise
    except Exception as error:  # noqa: BLE001 - whatever it is, the others are still to be examined
        yield Complaint(
            f"The examination ended with an unforeseen {type(error).__name__}.",
            "Report it as a fault of `python -m app doctor`.",
        )
