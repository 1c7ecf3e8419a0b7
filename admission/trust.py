"""Keeps a PassVerifier fresh from Postgres: public keys, revocations and epochs, read each second by every verifier.

While Postgres is away the last reading stays in force, so admitted buyers go on shopping.
"""

import asyncio
import time

import asyncpg

from admission.passes import PassVerifier, key_named
from admission.refetch import Refetch
from admission.revocation_list import RefusedIdentity, RefusedPass, RevocationLists
from chassis.database import Pool, read_text


class Trust:
    """Whom to trust: `verifier` refuses what was revoked before the last `refresh`."""

    def __init__(self, pool: Pool, lists: RevocationLists | None = None) -> None:
        """What it reads as revoked it also notes in `lists`, for whoever publishes them."""
        self._pool = pool
        self._lists = lists
        self._horizon = "0"
        self._refreshing = asyncio.Lock()
        self._refetch = Refetch(self.refresh)
        self.verifier = PassVerifier()

    async def refresh(self) -> None:
        """Read the pass keys, the epochs and the revocations since the last reading.

        Raises what asyncpg raises; repeat at will.
        """
        async with self._refreshing, self._pool.acquire() as connection:
            keys = await connection.fetch(read_text("admission", "sql", "read_pass_keys.sql"))
            epochs = await connection.fetch(read_text("admission", "sql", "read_epochs.sql"))
            revoked = await connection.fetch(read_text("admission", "sql", "read_revocations.sql"), self._horizon)
        self.verifier.trust_keys(
            {row["kid"]: row["public_key"] for row in keys if not row["revoked"]},
            [row["kid"] for row in keys if row["revoked"]],
        )
        self.verifier.trust_epochs({row["name"]: row["epoch"] for row in epochs})
        refused = [_refused(row) for row in revoked if row["room"] is not None]
        now, passes = time.time(), [one for one in refused if isinstance(one, RefusedPass)]
        self.verifier.revoke([(one.jti, one.expires_at) for one in passes], now)
        identities = [one for one in refused if isinstance(one, RefusedIdentity)]
        self.verifier.revoke_identities([(one.room, one.epoch, one.identity) for one in identities])
        if self._lists is not None:
            self._lists.note(refused, int(revoked[0]["horizon"]), now)
        self._horizon = revoked[0]["horizon"]

    async def learn(self, token: str) -> bool:
        """Read again when a pass names a key that is not known yet: whether that may change what it is worth.

        At most once a second, so that made-up kids cost one reading a second.
        """
        kid = key_named(token)
        return kid is not None and not self.verifier.knows(kid) and await self._refetch.once()


def _refused(row: asyncpg.Record) -> RefusedPass | RefusedIdentity:
    if row["jti"] is None:
        return RefusedIdentity(row["room"], row["epoch"], row["identity"], int(row["written_by"]))
    return RefusedPass(row["room"], row["jti"], row["expires_at"], int(row["written_by"]))
