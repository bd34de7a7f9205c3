"""The environment variables of the product, in the groups in which its parts need them."""

import os
from typing import Any, Literal

from pydantic import AliasChoices, Field
from sqlalchemy.engine import URL, make_url

from app.environment import (
    Headers,
    HttpAddress,
    PlainName,
    PostgresqlAddress,
    Prefix,
    RedisAddress,
    SettingsGroup,
)


class DatabaseSettings(SettingsGroup):
    """Where the appointments are."""

    database_url: PostgresqlAddress = Field(
        description="PostgreSQL, as postgresql://user:password@host:port/database", repr=False
    )
    database_schema: PlainName = Field(
        default="calendar",
        description="The schema of the tables, or of the views that stand for them",
    )
    database_pool_mode: Literal["session", "transaction"] = Field(
        default="session",  # by its name, for those who make this group themselves
        description="transaction: `DATABASE_URL` leads to a pooler in transaction mode (PgBouncer)",
    )

    @property
    def url(self) -> URL:
        """The same address for `database.engine`, with the schema in its query.

        SQLAlchemy's bare postgresql:// would mean another driver.
        """
        url = make_url(self.database_url).set(drivername="postgresql+psycopg2")
        return url.update_query_dict({"schema": self.database_schema})

    @property
    def session(self) -> bool:
        """Whether a connection is one session from its beginning to its end."""
        return self.database_pool_mode == "session"


class BrokerSettings(SettingsGroup):
    """Where the ticks travel."""

    celery_broker_url: RedisAddress = Field(
        description="Redis (or Valkey) as the Celery broker, and nothing else", repr=False
    )
    celery_broker_key_prefix: Prefix | None = Field(
        None, description="What every key and channel there begins with"
    )


class AppointmentTimeoutSettings(SettingsGroup):
    """How appointments expire (`AppointmentTimeoutOptions`)."""

    appointment_timeout_interval_seconds: float = Field(
        60, gt=0, le=86_400, description="Seconds from tick to tick"
    )
    appointment_timeout_batch_size: int = Field(
        200, ge=1, le=100_000, description="At most so many appointments expire in one cycle"
    )
    appointment_timeout_max_duration_seconds: float = Field(
        30, gt=0, le=3600, description="After so many seconds a cycle takes no further appointment"
    )
    appointment_timeout_connections: int = Field(
        4, ge=1, le=32, description="Database connections that one cycle works on side by side"
    )
    appointment_timeout_pause_above_overdue: int | None = Field(
        None, ge=0, description="Pull the brake when more than so many are overdue"
    )
    appointment_timeout_pause_above_seconds: float | None = Field(
        None, gt=0, description="Pull the brake when the oldest is overdue for more than so long"
    )
    appointment_timeout_catch_up: bool = Field(
        False, description="After a full cycle start the next one at once"
    )


class OutboxSettings(SettingsGroup):
    """How the outbox drains and is kept small."""

    outbox_publisher_interval_seconds: float = Field(
        10,
        gt=0,
        le=86_400,
        description="Seconds between two drains; a cycle's first commit wakes one too",
    )
    outbox_publisher_batch_size: int = Field(
        1000, ge=1, le=10_000, description="Messages that one transaction of a drain holds"
    )
    outbox_retention_days: float = Field(
        7, gt=0, le=3650, description="Published messages are kept for so many days"
    )
    job_runs_retention_days: float = Field(
        7, gt=0, le=3650, description="Records of cycles and drains are kept for so many days"
    )


class TelemetrySettings(SettingsGroup):
    """How the product speaks to those who watch it."""

    log_format: Literal["json", "console"] = Field(
        "json", description="json: one document a line; console: for eyes"
    )
    metrics_port: int | None = Field(
        None, ge=1, le=65535, description="Serve Prometheus metrics of a worker on this port"
    )
    metrics_host: str = Field("127.0.0.1", description="The address that the metrics listen on")


def _otlp(name: str) -> AliasChoices:
    """OpenTelemetry's own rule: the variable for traces alone wins."""
    return AliasChoices(f"otel_exporter_otlp_traces_{name}", f"otel_exporter_otlp_{name}")


class TracingSettings(SettingsGroup):
    """Whether and where spans go. OpenTelemetry reads the rest of the `OTEL_*` by itself."""

    otel_exporter_otlp_endpoint: HttpAddress | None = Field(
        None,
        validation_alias=_otlp("endpoint"),
        description="Send traces to this OpenTelemetry collector, as http://host:4318",
    )
    otel_exporter_otlp_headers: Headers | None = Field(
        None,
        validation_alias=_otlp("headers"),
        description="Headers for it, as name=value,name=value",
        repr=False,
    )
    otel_exporter_otlp_protocol: Literal["http/protobuf"] = Field(
        "http/protobuf",
        validation_alias=_otlp("protocol"),
        description="How it is spoken to; nothing else is supported",
    )
    otel_traces_exporter: Literal["otlp", "none"] | None = Field(
        None, description="otlp: also without an endpoint, to this host; none: no traces"
    )
    otel_sdk_disabled: bool = Field(False, description="No traces, whatever else is set")

    @property
    def on(self) -> bool:
        """Whether traces are wanted."""
        if self.otel_sdk_disabled or self.otel_traces_exporter == "none":
            return False
        return bool(self.otel_exporter_otlp_endpoint or self.otel_traces_exporter)


class KafkaSettings(SettingsGroup):
    """Where the messages go. Further client options: `KAFKA_<OPTION_WITH_UNDERSCORES>`."""

    kafka_bootstrap_servers: str = Field(
        min_length=1, description="Kafka brokers, as host:port,host:port"
    )

    @property
    def overrides(self) -> dict[str, str]:
        """All other `KAFKA_…` variables by client option name; not all need be meant for us."""
        prefix, own = "KAFKA_", "KAFKA_BOOTSTRAP_SERVERS"
        return {
            name.removeprefix(prefix).lower().replace("_", "."): value
            for name, value in sorted(os.environ.items())
            if name.startswith(prefix) and name != own
        }


GROUPS: tuple[type[SettingsGroup], ...] = (
    DatabaseSettings,
    BrokerSettings,
    KafkaSettings,
    AppointmentTimeoutSettings,
    OutboxSettings,
    TelemetrySettings,
    TracingSettings,
)


def table() -> list[tuple[str, Any, str]]:
    """Every variable with its default (None: must be set or is off) and what it means."""
    return [
        (name.upper(), None if field.is_required() else field.default, field.description or "")
        for group in GROUPS
        for name, field in group.model_fields.items()
    ]
