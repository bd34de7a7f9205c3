"""Environment variables that a page or a manifest shows, as the product reads them."""

import os
from collections.abc import Mapping

import pytest

from app import kafka_options
from app.environment import SettingsGroup
from app.settings import GROUPS, KafkaSettings, table

_OTHERS = ("FLOWER_", "OTEL_")
"""Flower's and OpenTelemetry's own."""
_MADE_UP = {"OWNER_URL"}
"""Names of a page's own: a second address of the same database."""


def refused(values: Mapping[str, str]) -> list[str]:
    """What the product would say to these values, and the names that nobody reads.

    A value that is an ellipsis is the reader's to fill in: only its name is looked at.
    """
    known = {name for name, _default, _meaning in table()}
    found = [
        f"{name}: nobody reads it"
        for name in values
        if name not in known | _MADE_UP and not name.startswith(("KAFKA_", *_OTHERS))
    ]
    values = {name: value for name, value in values.items() if value != "…"}
    with pytest.MonkeyPatch.context() as environment:
        for name in os.environ:
            environment.delenv(name)
        for name, value in values.items():
            environment.setenv(name, value)
        for group in GROUPS:
            found += _wrong(group, values)
        if "KAFKA_BOOTSTRAP_SERVERS" in values:
            options = kafka_options.configuration(KafkaSettings.load())
            names = KafkaSettings.load().overrides
            found += [f"{name}: no option of Kafka's client" for name in names.keys() - options]
    return found


def _wrong(group: type[SettingsGroup], values: Mapping[str, str]) -> list[str]:
    return [sentence for name, sentence in group.faults() if name in values]
