"""API keys: who calls, and in which role. Hashed at rest, shown once, compared in constant time, revoked within two seconds."""

import asyncio
import hashlib
import hmac
import re
import secrets
import time
from dataclasses import dataclass
from typing import Literal

import asyncpg
from starlette.requests import Request

from chassis.database import Pool, read_text
from chassis.problems import Problem

Role = Literal["shop", "operator", "admin"]

# What each role's key may stand in for: an admin's for all, an operator's never for a shop's (it would sell).
GRANTS: dict[Role, frozenset[Role]] = {
    "shop": frozenset({"shop"}),
    "operator": frozenset({"operator"}),
    "admin": frozenset({"shop", "operator", "admin"}),
}
CLIENT_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
KEPT_SECONDS = 2.0
KEPT_MAX = 10_000
_KEY = re.compile(r"fgk_(?P<id>[A-Za-z0-9]{12})_(?P<secret>[A-Za-z0-9_-]{43})")


@dataclass(frozen=True, slots=True)
class Actor:
    """Who acts: `client` outlives its keys and scopes idempotency records."""

    client: str
    role: Role
    key_id: str


@dataclass(frozen=True, slots=True)
class StoredKey:
    """A key as the database keeps it."""

    client: str
    role: Role
    secret_hash: bytes


class ApiKeys:
    """The API keys in Postgres, each found one remembered for two seconds."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._finding: dict[str, asyncio.Future[tuple[float, StoredKey | None]]] = {}
        self._kept: dict[str, tuple[float, StoredKey | None]] = {}
        self._shown: dict[str, tuple[float, Actor]] = {}

    async def create(self, client: str, role: Role) -> str:
        """A new key for `client`, `fgk_…`: its only copy. Raises Problem invalid for a bad name or role."""
        if not CLIENT_NAME.fullmatch(client):
            raise Problem("invalid", f"{client!r} is no client name: use a-z, 0-9, dot, dash, underscore, at most 63.")
        if role not in GRANTS:
            raise Problem("invalid", f"{role!r} is no role: use one of {', '.join(GRANTS)}.")
        key_id = secrets.token_hex(6)
        secret = secrets.token_urlsafe(32)
        await self._pool.execute(read_text("chassis", "sql", "create_key.sql"), key_id, client, role, _hash(secret))
        return f"fgk_{key_id}_{secret}"

    async def revoke(self, key_id: str) -> None:
        """End a key; other processes notice within two seconds. Raises Problem not-found."""
        if await self._pool.fetchval(read_text("chassis", "sql", "revoke_key.sql"), key_id) is None:
            raise Problem("not-found", f"There is no key {key_id}.")
        self._kept.pop(key_id, None)
        self._shown.clear()

    async def list(self) -> list[asyncpg.Record]:
        """All keys (id, client, role, created_at, revoked_at), newest first."""
        return await self._pool.fetch(read_text("chassis", "sql", "list_keys.sql"))

    async def actor(self, request: Request, *roles: Role) -> Actor:
        """Who sent `request`. Raises Problem unauthenticated without a valid key, forbidden when it may not act as `roles`."""
        return await self.bearer(request.headers.get("authorization", ""), *roles)

    async def bearer(self, authorization: str, *roles: Role) -> Actor:
        """Who shows this Authorization header. Raises Problem as `actor` does."""
        shown = self._shown.get(authorization)
        if shown is not None and time.monotonic() - shown[0] < KEPT_SECONDS:
            actor = shown[1]
        else:
            actor = await self._verified(authorization)
        if not GRANTS[actor.role].intersection(roles):
            raise Problem("forbidden", f"This call needs a key with the role {' or '.join(roles)}.")
        return actor

    async def _verified(self, authorization: str) -> Actor:
        """Who shows the header, checked in constant time; a good one is remembered as long as its stored key is."""
        scheme, _, credentials = authorization.partition(" ")
        found = _KEY.fullmatch(credentials.strip()) if scheme.lower() == "bearer" else None
        read_at, stored = await self._find(found["id"]) if found else (0.0, None)
        if found is None or stored is None or not hmac.compare_digest(_hash(found["secret"]), stored.secret_hash):
            raise Problem(
                "unauthenticated",
                "Send a valid key as Authorization: Bearer fgk_…",
                headers={"WWW-Authenticate": 'Bearer realm="fairgate"'},
            )
        actor = Actor(stored.client, stored.role, found["id"])
        if len(self._shown) >= KEPT_MAX:
            self._shown.clear()
        self._shown[authorization] = (read_at, actor)
        return actor

    async def _find(self, key_id: str) -> tuple[float, StoredKey | None]:
        """The stored key, and when it was read."""
        now = time.monotonic()
        kept = self._kept.get(key_id)
        if kept is not None and now - kept[0] < KEPT_SECONDS:
            return kept
        finding = self._finding.get(key_id)
        if finding is None:  # a crowd that shows one key asks once
            finding = asyncio.ensure_future(self._read(key_id, now))
            self._finding[key_id] = finding
            finding.add_done_callback(lambda _: self._finding.pop(key_id))
        return await asyncio.shield(finding)

    async def _read(self, key_id: str, now: float) -> tuple[float, StoredKey | None]:
        row = await self._pool.fetchrow(read_text("chassis", "sql", "find_key.sql"), key_id)
        stored = StoredKey(row["client"], row["role"], row["secret_hash"]) if row else None
        if len(self._kept) >= KEPT_MAX:
            self._kept.clear()
        self._kept[key_id] = (now, stored)
        return now, stored


def _hash(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()
