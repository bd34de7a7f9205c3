"""Within a major version no change breaks a consumer (section 6); every kind is tried out."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace

import pytest

from app.domain.outbox import APPOINTMENT_CANCELLED, CONTRACT_VERSION
from tests.contracts.compatibility import breaking_changes
from tests.contracts.contract import CONTRACTS, Contract, Message, shipped, valid

RELEASED = CONTRACTS / "released"
Change = Callable[[Message], object]


def test_the_contract_as_it_stands_is_kept_under_its_version() -> None:
    """Whoever changes it gives it a new version and keeps a copy, beside the earlier ones."""
    kept = RELEASED / shipped().version
    for path in (CONTRACTS / "asyncapi.yaml", *(CONTRACTS / "schemas").iterdir()):
        assert (kept / path.relative_to(CONTRACTS)).read_text() == path.read_text()


@pytest.mark.parametrize("version", sorted(path.name for path in RELEASED.iterdir()))
def test_no_consumer_of_a_released_version_is_broken(version: str) -> None:
    assert breaking_changes(Contract.load(RELEASED / version), shipped()) == []


def test_a_breaking_change_would_need_topics_of_its_own() -> None:
    assert shipped().version.split(".")[0] == str(CONTRACT_VERSION)
    for topic, message in shipped().messages.items():
        assert topic.endswith(f".v{CONTRACT_VERSION}")
        assert message.payload["properties"]["ContractVersion"] == {"const": CONTRACT_VERSION}


def changed(change: Change) -> Contract:
    """The contract with a change of its first message."""
    message = deepcopy(shipped().messages[APPOINTMENT_CANCELLED])
    change(message)
    return replace(shipped(), messages={**shipped().messages, APPOINTMENT_CANCELLED: message})


def field(name: str, **keywords: object) -> Change:
    return lambda message: message.payload["properties"][name].update(keywords)


def drop(name: str, keyword: str) -> Change:
    return lambda message: message.payload["properties"][name].pop(keyword)


def new_field(message: Message) -> None:
    message.payload["properties"]["Channel"] = {"type": "string"}


def new_required_field(message: Message) -> None:
    new_field(message)
    message.payload["required"].append("Channel")


def renamed_field(message: Message) -> None:
    properties = message.payload["properties"]
    properties["Cause"] = properties.pop("Reason")


BREAKING: dict[str, tuple[Change, str]] = {
    "a field is gone": (lambda m: m.payload["properties"].pop("SlotId"), "SlotId is gone"),
    "a field is renamed": (renamed_field, "Reason is gone"),
    "a field may be missing": (lambda m: m.payload["required"].remove("AgentId"), "may be missing"),
    "a new field is required": (new_required_field, "Channel is required now"),
    "a new header is required": (lambda m: m.headers["required"].append("x"), "is required now"),
    "another type": (field("SlotId", type="integer"), "SlotId is not what it was"),
    "a wider type": (field("SlotId", type=["string", "null"]), "SlotId is not what it was"),
    "a narrower type": (field("CorrelationId", maxLength=36), "CorrelationId is not what it was"),
    "a value more": (field("Reason", enum=["Expired", "NoShow"]), "Reason is not what it was"),
    "a value less": (field("Reason", enum=["Expired"]), "Reason is not what it was"),
    "another constant": (field("ContractVersion", const=2), "ContractVersion is not what it was"),
    "another format": (field("OccurredAt", format="date"), "OccurredAt is not what it was"),
    "no format": (drop("SlotId", "format"), "SlotId is not what it was"),
    "another pattern": (field("OccurredAt", pattern="Z$"), "OccurredAt is not what it was"),
    "no pattern": (drop("OccurredAt", "pattern"), "OccurredAt is not what it was"),
    "no further fields": (
        lambda m: m.payload.update(additionalProperties=False),
        "fields are not held together",
    ),
    "fields that depend on others": (
        lambda m: m.payload.update(dependentRequired={"Reason": ["SlotId"]}),
        "fields are not held together",
    ),
    "no object": (lambda m: m.payload.update(type="array"), "fields are not held together"),
    "another key": (lambda m: m.key.update(description="SlotId"), "the key is another one"),
    "another kind of key": (lambda m: m.key.pop("format"), "the key is another one"),
    "a header is gone": (lambda m: m.headers["properties"].pop("message-id"), "message-id is gone"),
    "a header may be missing": (
        lambda m: m.headers["required"].remove("message-id"),
        "header message-id may be missing",
    ),
}


@pytest.mark.parametrize("kind", BREAKING)
def test_a_breaking_change_is_refused(kind: str) -> None:
    change, sentence = BREAKING[kind]
    [*found] = breaking_changes(shipped(), changed(change))
    assert any(sentence in one for one in found), found
    assert all(one.startswith(APPOINTMENT_CANCELLED) for one in found)


def test_documents_of_another_type_are_refused() -> None:
    binary = {
        topic: replace(message, content_type="application/avro")
        for topic, message in shipped().messages.items()
    }
    found = breaking_changes(shipped(), replace(shipped(), messages=binary))
    assert found == [f"{topic}: the documents are of another type" for topic in binary]


def test_another_topic_is_refused() -> None:
    moved = dict(shipped().messages)
    moved["pin.calendar.appointments.v1"] = moved.pop(APPOINTMENT_CANCELLED)
    found = breaking_changes(shipped(), replace(shipped(), messages=moved))
    assert found == [f"{APPOINTMENT_CANCELLED}: the topic is gone"]


def new_header(message: Message) -> None:
    message.headers["properties"]["tracestate"] = {"type": "string"}


def words_for_people(message: Message) -> None:
    message.payload.update(title="Another", description="Said better.", examples=[])
    field("Reason", description="Why.", deprecated=True)(message)


COMPATIBLE: dict[str, Change] = {
    "nothing": lambda _: None,
    "a field more": new_field,
    "a header more": new_header,
    "words for people": words_for_people,
    "another order": lambda m: m.payload["properties"]["Reason"]["enum"].reverse(),
    "required in another order": lambda m: m.payload["required"].reverse(),
}


@pytest.mark.parametrize("kind", COMPATIBLE)
def test_a_compatible_change_is_accepted_and_old_and_new_read_each_other(kind: str) -> None:
    new = changed(COMPATIBLE[kind])
    assert breaking_changes(shipped(), new) == []
    was, now = (one.messages[APPOINTMENT_CANCELLED] for one in (shipped(), new))
    [document], [headers] = was.payload["examples"], was.headers["examples"]
    valid(now.payload, document)
    valid(now.headers, headers)
    valid(
        was.payload, {**document, **dict.fromkeys(now.payload["properties"].keys() - document, "x")}
    )
    valid(
        was.headers, {**headers, **dict.fromkeys(now.headers["properties"].keys() - headers, "x")}
    )


def test_a_topic_more_is_accepted() -> None:
    more = {**shipped().messages, "pin.calendar.more.v1": shipped().messages[APPOINTMENT_CANCELLED]}
    assert breaking_changes(shipped(), replace(shipped(), messages=more)) == []
