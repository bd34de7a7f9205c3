"""`python -m dev.demo`: see the product at work in a minute, on real servers, and see it checked.

Starts PostgreSQL, Valkey and Kafka (or works in a corner of those that DATABASE_URL,
CELERY_BROKER_URL and KAFKA_BOOTSTRAP_SERVERS name), books appointments, lets beat and a worker
expire them, reads Kafka, and leaves nothing behind. Exit code 0 only if all of it was as promised.
"""

from dev.processes import end_on_signals


def main() -> None:
    """Play the demo."""
    end_on_signals()
    from dev import demo_stage  # noqa: PLC0415 - slow to import, and Ctrl-C may come meanwhile

    demo_stage.play()


if __name__ == "__main__":
    main()
