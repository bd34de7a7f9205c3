"""Every message fits the shipped contract (section 6): AsyncAPI 3 with JSON Schema."""

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator, ValidationError

from app import operations
from app.domain import outbox
from app.kafka import Sender
from app.publish import drain
from app.report import DrainOptions
from dev.servers.consumer import read_topics
from dev.servers.kafka import Kafka
from tests.contracts.contract import CONTRACTS, Message, shipped, valid
from tests.world import MINUTE, World

FIRST = shipped().messages[outbox.APPOINTMENT_CANCELLED]


def example(message: Message) -> tuple[str, dict[str, Any], dict[str, str]]:
    """The contract's own: key, document, headers."""
    [document], [headers] = message.payload["examples"], message.headers["examples"]
    return document[message.key_field], document, headers


def test_the_contract_names_our_topics_and_its_examples_are_valid() -> None:
    assert shipped().messages.keys() == set(outbox.TOPICS)
    for path in (CONTRACTS / "schemas").glob("*.json"):
        Draft202012Validator.check_schema(json.loads(path.read_text()))
    for message in shipped().messages.values():
        message.validate(*example(message))


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
        headers = {"message-id": str(row["message_id"]), **row["headers"]}
        shipped().messages[row["topic"]].validate(row["key"], row["payload"], headers)


@pytest.mark.parametrize("wrong", ["Reason", "OccurredAt", "ContractVersion", "AgentId"])
def test_the_contract_can_refuse(wrong: str) -> None:
    key, document, headers = example(FIRST)
    for spoilt in (
        {**document, wrong: "nonsense"},
        {k: document[k] for k in document.keys() - {wrong}},
    ):
        with pytest.raises(ValidationError):
            FIRST.validate(key, spoilt, headers)


def test_a_consumer_lets_pass_what_the_contract_does_not_name_and_we_never_send_it() -> None:
    key, document, headers = example(FIRST)
    valid(FIRST.payload, {**document, "New": 1})
    for more in ((key, {**document, "New": 1}, headers), (key, document, {**headers, "new": "1"})):
        with pytest.raises(ValidationError, match="not in the contract"):
            FIRST.validate(*more)
    with pytest.raises(ValidationError, match="the key is not the AppointmentId"):
        FIRST.validate(document["SlotId"], document, headers)


def test_what_a_consumer_gets_fits_the_contract(world: World, kafka: Kafka) -> None:
    world.appointment()
    world.run()
    sender = Sender({"bootstrap.servers": kafka.bootstrap})
    assert drain(world.engine, sender, DrainOptions(), "contract").published == 2
    records = read_topics(kafka.bootstrap, outbox.TOPICS, expected=2, timeout=60)
    assert len(records) == 2
    for record in records:
        headers = {name: value.decode() for name, value in record.headers}
        shipped().messages[record.topic].validate(record.key, json.loads(record.value), headers)
    sender.close()
