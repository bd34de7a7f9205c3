"""What may change in a contract within a major version: something is added, and nothing else.

Consumers read old and new messages side by side, and were written at any time. So what has been
released stays to the letter; new are only fields and headers that a message need not have, topics,
and words for people. Stricter than it must be: a change of which one could argue that it breaks
nobody is refused too. (The libraries that compare JSON Schemas let a changed `format` or `pattern`
pass.)
"""

from collections.abc import Iterator
from typing import Any

from tests.contracts.contract import Contract, Schema

FOR_PEOPLE = {"$comment", "deprecated", "description", "examples", "title"}


def breaking_changes(old: Contract, new: Contract) -> list[str]:
    """What the new one takes away from a consumer of the old one, a sentence each."""
    return list(_breaking(old, new))


def _breaking(old: Contract, new: Contract) -> Iterator[str]:
    for topic, was in old.messages.items():
        if topic not in new.messages:
            yield f"{topic}: the topic is gone"
            continue
        now = new.messages[topic]
        if was.content_type != now.content_type:
            yield f"{topic}: the documents are of another type"
        if was.key != now.key:  # its description too: it names the field
            yield f"{topic}: the key is another one"
        yield from _changed(f"{topic}: field", was.payload, now.payload)
        yield from _changed(f"{topic}: header", was.headers, now.headers)


def _changed(what: str, was: Schema, now: Schema) -> Iterator[str]:
    for name, schema in was["properties"].items():
        if name not in now["properties"]:
            yield f"{what} {name} is gone"
        elif _demands(schema) != _demands(now["properties"][name]):
            yield f"{what} {name} is not what it was"
    for name in sorted({*was["required"]} ^ {*now["required"]}):
        yield f"{what} {name} {'may be missing' if name in was['required'] else 'is required now'}"
    if _around(was) != _around(now):
        yield f"{what}s are not held together as they were"


def _around(schema: Schema) -> Any:
    fields = ("properties", "required")
    return _demands({keyword: value for keyword, value in schema.items() if keyword not in fields})


def _demands(schema: Any) -> Any:
    """A schema without its words for people and without the order of its alternatives."""
    if isinstance(schema, dict):
        return {name: _demands(v) for name, v in schema.items() if name not in FOR_PEOPLE}
    return sorted(schema, key=repr) if isinstance(schema, list) else schema
