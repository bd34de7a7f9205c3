"""How the environment is read: variables in groups, what a value must look like, and what is told.

A wrong or missing value raises `SettingsError`: one sentence that names the variable, no secret.
"""

import os
import re
from typing import Annotated, Self

from pydantic import AfterValidator, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError


class SettingsError(Exception):
    """A wrong or missing environment variable, as one plain sentence."""


class SettingsGroup(BaseSettings):
    """Variables that a part of the product needs together."""

    model_config = SettingsConfigDict(frozen=True, extra="ignore", env_ignore_empty=True)

    @classmethod
    def load(cls) -> Self:
        """Read the group from the environment."""
        try:
            return cls()
        except ValidationError as error:
            raise SettingsError(_faults(error)[0][1]) from None

    @classmethod
    def load_or_default(cls) -> Self:
        """The same, or all of its defaults while one of them is wrong, which is told elsewhere."""
        try:
            return cls.load()
        except SettingsError:
            return cls.model_construct()

    @classmethod
    def faults(cls) -> list[tuple[str, str]]:
        """Every variable that is wrong, with the sentence that says why; `load` tells the first."""
        try:
            cls()
        except ValidationError as error:
            return _faults(error)
        return []


def _faults(error: ValidationError) -> list[tuple[str, str]]:
    """Each fault's variable and sentence; the value itself is never repeated."""
    found = []
    for fault in error.errors(include_url=False, include_input=False):
        variable = str(fault["loc"][0]).upper() if fault["loc"] else "The environment"
        sentence = f"{variable} is not set."
        if fault["type"] != "missing":
            if variable not in os.environ:  # then it was the other name of the same thing
                variable = variable.replace("_OTLP_TRACES_", "_OTLP_")
            reason = fault["msg"].removeprefix("Value error, ")
            sentence = f"{variable} is wrong: {reason[:1].lower()}{reason[1:]}."
        found.append((variable, sentence))
    return found


def _postgresql(text: str) -> str:
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):  # the latter repeats what it takes for the port
        raise ValueError(
            "it must look like postgresql://user:password@host:port/database"
        ) from None
    if url.drivername not in {"postgresql", "postgresql+psycopg2"}:
        raise ValueError("it must begin with postgresql:// or postgresql+psycopg2://")
    if not url.database:
        raise ValueError("it names no database")
    if "schema" in url.query:
        raise ValueError("the schema has a variable of its own, DATABASE_SCHEMA")
    return text


def _plain_name(text: str) -> str:
    if not re.fullmatch("[a-z_][a-z0-9_]{0,62}", text) or text.startswith("pg_"):
        raise ValueError("it must be a plain name of small letters, digits and underscores")
    return text


def _redis(text: str) -> str:
    if not text.startswith(("redis://", "rediss://", "redis+socket://")):
        raise ValueError("it must begin with redis:// or rediss://")
    return text


def _prefix(text: str) -> str:
    if not re.fullmatch("[!-~]+", text) or re.search(r"[*?\[\]\\]", text):
        raise ValueError(
            "it must be of letters, digits and signs like :, without blanks and * ? [ ]"
        )
    return text


def _http(text: str) -> str:
    if not text.startswith(("http://", "https://")):
        raise ValueError("it must begin with http:// or https://")
    return text


def _headers(text: str) -> str:
    form = re.compile(r"([\w.-]+ *= *[ !#-+\--:<-\[\]-~]*)?", re.ASCII)
    if not all(form.fullmatch(part.strip()) for part in text.split(",")):
        raise ValueError("it must look like name=value,name=value, values URL-encoded")
    return text


PostgresqlAddress = Annotated[str, AfterValidator(_postgresql)]
PlainName = Annotated[str, AfterValidator(_plain_name)]
RedisAddress = Annotated[str, AfterValidator(_redis)]
Prefix = Annotated[str, AfterValidator(_prefix)]
HttpAddress = Annotated[str, AfterValidator(_http)]
Headers = Annotated[str, AfterValidator(_headers)]
