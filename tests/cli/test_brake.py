"""The brake names who has pulled it, also where the account has no name."""

import os
import pwd

import pytest

from app.cli import brake
from app.store.brake import current
from tests.world import World


def test_an_account_without_a_name_is_told_by_its_number(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A container whose user is in no passwd file."""

    def nobody(uid: int) -> pwd.struct_passwd:
        raise KeyError(uid)

    monkeypatch.setenv("DATABASE_URL", world.engine.url.render_as_string(hide_password=False))
    monkeypatch.setattr(pwd, "getpwuid", nobody)
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    brake.pause("a bad import")
    with world.engine.begin() as connection:
        pulled = current(connection)
    assert pulled is not None
    assert pulled.pulled_by == f"uid {os.getuid()}"
