"""The commands that administrators type for signing keys."""

import pytest

from admission.keyring import Keyring
from admission.rooms import Rooms
from chassis.database import Pool
from chassis.settings import Settings
from tests.test_cli_books import Shell


@pytest.fixture
def shell(settings: Settings) -> Shell:
    return Shell(settings)


async def test_an_administrator_rotates_lists_and_revokes_signing_keys(
    shell: Shell, settings: Settings, pool: Pool
) -> None:
    keyring = Keyring(pool, settings.master_key_bytes, "us")
    await keyring.refresh()
    assert await shell.read("keys", "signing", "--json") != []
    code, said, _ = await shell.run("keys", "rotate", "pass")
    assert (code, "is published and signs every pass from" in said) == (0, True), said
    again = await shell.run("keys", "rotate", "pass")
    assert "waits already" in again[1]
    listed = await shell.read("keys", "signing", "--json")
    assert sorted((key["purpose"], key["state"]) for key in listed) == [
        ("pass", "current"),
        ("pass", "next"),
        ("ticket", "current"),
    ]
    current = keyring.signer.kid
    code, said, _ = await shell.run("keys", "revoke-signing", current)
    assert (code, f"Key {current} is revoked" in said) == (0, True)
    code, table, _ = await shell.run("keys", "signing")
    assert (code, "revoked" in table) == (0, True)
    await keyring.refresh()
    assert keyring.signer.kid != current
    for wrong in (("rotate", "seal"), ("revoke-signing", "nothing")):
        assert (await shell.run("keys", *wrong))[0] != 0
    assert [(one["actor"], one["action"]) for one in await Rooms(pool).actions(None)] == [
        ("command line", "revoke-key"),
        ("command line", "rotate-key"),
    ]
