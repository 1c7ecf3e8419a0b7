"""The signing keys as operators handle them: listed, rotated with overlap, revoked, each change noted for good.

A rotated key is published first and signs five seconds later, when every worker has read it each second. A revoked key is
refused within two seconds, with everything that it signed; where it was the current one another signs at once.
"""

import secrets
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

import asyncpg
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from admission.rooms import note_action
from chassis.database import Connection, Pool, read_text
from chassis.http import timestamp
from chassis.problems import Problem
from chassis.seal import seal

Purpose = Literal["pass", "ticket"]
KeyState = Literal["next", "current", "retired", "revoked"]

PUBLISHED_SECONDS = 5.0
# A pass lives a day at most, also a renewed one, since renewals are signed by the current key. A hold made with it may
# still be read and released with it after that: for a week.
PASS_KEY_KEPT_SECONDS = 8 * 86_400.0


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A signing key without what is secret."""

    kid: str
    purpose: Purpose
    state: KeyState
    created_at: datetime
    activates_at: datetime | None
    retired_at: datetime | None
    revoked_at: datetime | None

    def document(self) -> dict[str, object]:
        """As the API answers it."""
        moments = {
            name: None if moment is None else timestamp(moment)
            for name, moment in (
                ("created_at", self.created_at),
                ("activates_at", self.activates_at),
                ("retired_at", self.retired_at),
                ("revoked_at", self.revoked_at),
            )
        }
        return {"kid": self.kid, "purpose": self.purpose, "state": self.state, **moments}


class SigningKeys:
    """The signing keys in Postgres; `actor` in each change is who is noted to have made it."""

    def __init__(self, pool: Pool, master_key: bytes) -> None:
        self._pool = pool
        self._master_key = master_key

    async def list(self) -> list[SigningKey]:
        """All keys, newest first."""
        return [
            _key(row) for row in await self._pool.fetch(read_text("admission", "sql", "list_signing_keys.sql"), None)
        ]

    async def rotate(self, purpose: Purpose, *, actor: str) -> tuple[SigningKey, bool]:
        """Publish the purpose's next key, which signs in five seconds, and whether this call made it.

        While one waits to sign, a repeat answers that one.
        """
        kid, public, sealed = self._new(purpose)
        async with self._pool.acquire() as connection, connection.transaction():
            made = await connection.fetchval(
                read_text("admission", "sql", "rotate_signing_key.sql"), kid, purpose, public, sealed, PUBLISHED_SECONDS
            )
            if made:
                await note_action(connection, actor, "rotate-key", None, {"kid": kid, "purpose": purpose})
        for key in await self.list():
            if key.kid == kid or (not made and key.purpose == purpose and key.state == "next"):
                return key, made is True
        return await self.rotate(purpose, actor=actor)  # the one that waited signs by now

    async def revoke(self, kid: str, *, actor: str) -> SigningKey:
        """End a key: what it signed is refused within two seconds. Twice is once. Raises Problem not-found."""
        async with self._pool.acquire() as connection, connection.transaction():
            ended = await connection.fetchrow(read_text("admission", "sql", "revoke_signing_key.sql"), kid)
            if ended is not None:
                if ended["state"] == "current":
                    await self._replace(connection, ended["purpose"])
                await note_action(connection, actor, "revoke-key", None, {"kid": kid, "purpose": ended["purpose"]})
        row = await self._pool.fetchrow(read_text("admission", "sql", "list_signing_keys.sql"), kid)
        if row is None:
            raise Problem("not-found", f"There is no signing key {kid[:64]!r}.")
        return _key(row)

    async def create_missing(self, purpose: Purpose) -> None:
        """Make a purpose's first key. Of several workers that start at once, one makes it."""
        async with self._pool.acquire() as connection:
            await self._create(connection, purpose)

    async def activate(self, purpose: Purpose) -> None:
        """Let a next key whose time has come sign from now on, and the current one only verify."""
        async with self._pool.acquire() as connection, connection.transaction():
            await connection.execute(read_text("admission", "sql", "retire_signing_key.sql"), purpose)
            await connection.execute(read_text("admission", "sql", "activate_signing_key.sql"), purpose)

    async def prune(self) -> None:
        """Forget retired keys that no live token can carry; any worker may do it at any time."""
        await self._pool.execute(read_text("admission", "sql", "prune_signing_keys.sql"), PASS_KEY_KEPT_SECONDS)

    async def _replace(self, connection: Connection, purpose: Purpose) -> None:
        """Another current key, at once: one that waited, or a new one. Verifiers that do not know it yet ask again."""
        if not await connection.fetchval(read_text("admission", "sql", "activate_signing_key.sql"), purpose):
            await self._create(connection, purpose)

    async def _create(self, connection: Connection, purpose: Purpose) -> None:
        kid, public, sealed = self._new(purpose)
        await connection.execute(read_text("admission", "sql", "create_signing_key.sql"), kid, purpose, public, sealed)

    def _new(self, purpose: Purpose) -> tuple[str, bytes | None, bytes]:
        """A new key: its kid, its public half (None for tickets) and its sealed private half."""
        kid = secrets.token_hex(6)
        if purpose == "pass":
            key = Ed25519PrivateKey.generate()
            public, private = key.public_key().public_bytes_raw(), key.private_bytes_raw()
        else:
            public, private = None, secrets.token_bytes(32)
        return kid, public, seal(self._master_key, private, seal_purpose(purpose, kid))


def seal_purpose(purpose: str, kid: str) -> str:
    """What a private key is sealed for."""
    return f"{purpose} key {kid}"


def read_purpose(text: str) -> Purpose:
    """`text` as a purpose. Raises Problem not-found."""
    match text:
        case "pass" | "ticket":
            return text
        case _:
            raise Problem("not-found", f"Keys sign passes or tickets: {text[:64]!r} is neither.")


def _key(row: asyncpg.Record) -> SigningKey:
    return SigningKey(**row)
