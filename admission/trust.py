"""Keeps a PassVerifier fresh from Postgres: public keys, revocations and epochs, read each second by every verifier.

While Postgres is away the last reading stays in force, so admitted buyers go on shopping.
"""

import asyncio
import time

from admission.passes import PassVerifier, key_named
from admission.refetch import Refetch
from chassis.database import Pool, read_text


class Trust:
    """Whom to trust: `verifier` refuses what was revoked before the last `refresh`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
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
        self.verifier.revoke(
            [(row["jti"], row["expires_at"]) for row in revoked if row["jti"] is not None], time.time()
        )
        self._horizon = revoked[0]["horizon"]

    async def learn(self, token: str) -> bool:
        """Read again when a pass names a key that is not known yet: whether that may change what it is worth.

        At most once a second, so that made-up kids cost one reading a second.
        """
        kid = key_named(token)
        return kid is not None and not self.verifier.knows(kid) and await self._refetch.once()
