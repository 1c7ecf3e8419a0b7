"""Keeps a PassVerifier fresh from Postgres: public keys and revocations, read each second by every verifier.

While Postgres is away the last reading stays in force, so admitted buyers go on shopping.
"""

import time

from admission.passes import PassVerifier
from chassis.database import Pool, read_text


class Trust:
    """Whom to trust: `verifier` refuses what was revoked before the last `refresh`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._horizon = "0"
        self.verifier = PassVerifier()

    async def refresh(self) -> None:
        """Read the pass keys and the revocations since the last reading. Raises what asyncpg raises; repeat at will."""
        async with self._pool.acquire() as connection:
            keys = await connection.fetch(read_text("admission", "sql", "read_pass_keys.sql"))
            revoked = await connection.fetch(read_text("admission", "sql", "read_revocations.sql"), self._horizon)
        self.verifier.trust_keys({row["kid"]: row["public_key"] for row in keys})
        self.verifier.revoke(
            [(row["jti"], row["expires_at"]) for row in revoked if row["jti"] is not None], time.time()
        )
        self._horizon = revoked[0]["horizon"]
