"""Every message fits the shipped contract (section 6): AsyncAPI 3 with JSON Schema."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from app import operations
from app.domain import outbox
from dev.servers.consumer import read_topics
from dev.servers.kafka import Kafka
from tests.world import MINUTE, World

CONTRACTS = Path(__file__).parent.parent / "ops" / "contracts"
API: dict[str, Any] = yaml.safe_load((CONTRACTS / "asyncapi.yaml").read_text())


def message_of(topic: str) -> dict[str, Any]:
    [channel] = [c for c in API["channels"].values() if c["address"] == topic]
    [reference] = channel["messages"].values()
    found: dict[str, Any] = API["components"]["messages"][reference["$ref"].rsplit("/", 1)[1]]
    return found


def validate(document: Any, reference: dict[str, str]) -> None:
    schema = json.loads((CONTRACTS / reference["$ref"]).read_text())
    checker = jsonschema.Draft202012Validator.FORMAT_CHECKER
    jsonschema.Draft202012Validator(schema, format_checker=checker).validate(document)


def test_the_contract_names_our_topics_and_its_examples_are_valid() -> None:
    assert {c["address"] for c in API["channels"].values()} == set(outbox.TOPICS)
    for path in (CONTRACTS / "schemas").glob("*.json"):
        schema = json.loads(path.read_text())
        jsonschema.Draft202012Validator.check_schema(schema)
        for example in schema["examples"]:
            validate(example, {"$ref": f"schemas/{path.name}"})


def test_every_message_of_every_operation_fits_its_contract(world: World) -> None:
    world.appointment()
    world.appointment(starts_in=30 * MINUTE)
    declined, by_investor, by_agent = (world.appointment() for _ in range(3))
    operations.decline(world.engine, declined.appointment, world.now())
    for made, who in ((by_investor, by_investor.investor), (by_agent, by_agent.agent)):
        operations.cancel(world.engine, made.appointment, who, world.now())
    world.run()
    stored = world.messages()
    assert len(stored) == 10
    for row in stored:
        message = message_of(row["topic"])
        validate(row["payload"], message["payload"])
        key_field = message["bindings"]["kafka"]["key"]["description"]
        assert row["key"] == row["payload"][key_field]
        validate({"message-id": str(row["message_id"]), **row["headers"]}, message["headers"])


@pytest.mark.parametrize("wrong", ["Reason", "OccurredAt", "ContractVersion"])
def test_the_contract_can_refuse(wrong: str) -> None:
    message = message_of(outbox.APPOINTMENT_CANCELLED)
    schema = json.loads((CONTRACTS / message["payload"]["$ref"]).read_text())
    with pytest.raises(jsonschema.ValidationError):
        validate({**schema["examples"][0], wrong: "nonsense"}, message["payload"])


def test_what_a_consumer_gets_fits_the_contract(world: World, kafka: Kafka) -> None:
    from app.kafka import Sender  # noqa: PLC0415 - the one test here that needs a producer
    from app.publish import DrainOptions, drain  # noqa: PLC0415

    world.appointment()
    world.run()
    sender = Sender({"bootstrap.servers": kafka.bootstrap})
    assert drain(world.engine, sender, DrainOptions(), "contract").published == 2
    for record in read_topics(kafka.bootstrap, outbox.TOPICS, expected=2, timeout=60):
        message = message_of(record.topic)
        validate(json.loads(record.value), message["payload"])
        headers = {name: value.decode() for name, value in record.headers}
        validate(headers, message["headers"])
    sender.close()
