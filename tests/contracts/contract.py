"""The shipped contract: which topic carries what, by which key, with which headers (section 6)."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Self

import yaml
from jsonschema import Draft202012Validator, ValidationError

Schema = dict[str, Any]
CONTRACTS = Path(__file__).parents[2] / "ops" / "contracts"


@dataclass(frozen=True)
class Message:
    """What one topic carries: documents, the field that is their key, headers."""

    content_type: str
    key: Schema
    payload: Schema
    headers: Schema

    @property
    def key_field(self) -> str:
        """The document's field that is the record's key."""
        return str(self.key["description"])

    def validate(self, key: str, payload: Any, headers: Mapping[str, str | None]) -> None:
        """Refuse what its consumer would refuse (ValidationError), and what its sender must.

        To a consumer a field that the contract does not name is nothing; ours to send it is not.
        """
        for schema, found in ((self.payload, payload), (self.headers, headers)):
            valid(schema, found)
            if more := found.keys() - schema["properties"].keys():
                raise ValidationError(f"not in the contract: {sorted(more)}")
        if key != payload[self.key_field]:
            raise ValidationError(f"the key is not the {self.key_field}")


def valid(schema: Schema, document: Any) -> None:
    """Plain JSON Schema with its formats, as a consumer has it; ValidationError."""
    checker = Draft202012Validator.FORMAT_CHECKER
    Draft202012Validator(schema, format_checker=checker).validate(document)


@dataclass(frozen=True)
class Contract:
    """One version of the contract: its messages by their topics."""

    version: str
    messages: dict[str, Message]

    @classmethod
    def load(cls, directory: Path = CONTRACTS) -> Self:
        """Read `asyncapi.yaml` and the schemas that it names; a channel has one kind of message."""
        api = yaml.safe_load((directory / "asyncapi.yaml").read_text())
        messages = {}
        for channel in api["channels"].values():
            [reference] = channel["messages"].values()
            found = api["components"]["messages"][reference["$ref"].rpartition("/")[2]]
            payload, headers = (
                json.loads((directory / found[part]["$ref"]).read_text())
                for part in ("payload", "headers")
            )
            key = found["bindings"]["kafka"]["key"]
            messages[channel["address"]] = Message(api["defaultContentType"], key, payload, headers)
        return cls(api["info"]["version"], messages)


@cache
def shipped() -> Contract:
    """The contract as it stands."""
    return Contract.load()
