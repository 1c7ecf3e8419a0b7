"""The signing keys as one gateway worker holds them, opened in memory and read again each second.

A rotated key verifies here before any worker signs with it; what a revoked one signed is refused by name.
"""

import asyncio

import asyncpg
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from admission.passes import PassSigner
from admission.refetch import Refetch
from admission.signing_keys import Purpose, SigningKeys, seal_purpose
from admission.tickets import TicketKeys
from chassis.database import Pool, read_text
from chassis.problems import busy
from chassis.seal import unseal

PURPOSES: tuple[Purpose, Purpose] = ("pass", "ticket")


class Keyring:
    """Who may sign: after the first `refresh`, `signer` signs passes and `ticket_keys` sign and read tickets."""

    def __init__(self, pool: Pool, master_key: bytes, issuer: str) -> None:
        self._pool = pool
        self._keys = SigningKeys(pool, master_key)
        self._master_key = master_key
        self._issuer = issuer
        self._signer: PassSigner | None = None
        self._ticket_keys: TicketKeys | None = None
        self._read_rows: list[asyncpg.Record] = []
        self._refreshing = asyncio.Lock()
        self._refetch = Refetch(self.refresh)

    @property
    def signer(self) -> PassSigner:
        """Signs with the current pass key. Raises Problem busy before the first refresh."""
        if self._signer is None:
            raise busy("The signing keys have not been read yet.")
        return self._signer

    @property
    def ticket_keys(self) -> TicketKeys:
        """Signs and reads tickets. Raises Problem busy before the first refresh."""
        if self._ticket_keys is None:
            raise busy("The signing keys have not been read yet.")
        return self._ticket_keys

    async def refresh(self) -> None:
        """Read the keys, making what is missing and letting a next key sign once its time has come.

        Raises SealBroken when the master key is another one.
        """
        async with self._refreshing:
            rows = await self._read()
            current = {row["purpose"] for row in rows if row["state"] == "current"}
            due = {row["purpose"] for row in rows if row["due"]}
            for purpose in PURPOSES:
                if purpose in due:
                    await self._keys.activate(purpose)
                elif purpose not in current:
                    await self._keys.create_missing(purpose)
            if due or len(current) < len(PURPOSES):
                rows = await self._read()
            if rows != self._read_rows:
                self._open(rows)
                self._read_rows = rows

    async def learn(self, kid: str) -> None:
        """Read the keys again when `kid`, which a ticket names, is not known; at most once a second."""
        if not self.ticket_keys.knows(kid):
            await self._refetch.once()

    async def prune(self) -> None:
        """Forget keys that no live token can carry."""
        await self._keys.prune()

    def _open(self, rows: list[asyncpg.Record]) -> None:
        ticket_keys: dict[str, bytes] = {}
        current_ticket_key = ""
        for row in rows:
            if row["state"] == "revoked":
                continue
            private = unseal(self._master_key, row["sealed_private"], seal_purpose(row["purpose"], row["kid"]))
            if row["purpose"] == "ticket":
                ticket_keys[row["kid"]] = private
                current_ticket_key = row["kid"] if row["state"] == "current" else current_ticket_key
            elif row["state"] == "current" and (self._signer is None or self._signer.kid != row["kid"]):
                self._signer = PassSigner(row["kid"], Ed25519PrivateKey.from_private_bytes(private), self._issuer)
        revoked = frozenset(row["kid"] for row in rows if row["purpose"] == "ticket" and row["state"] == "revoked")
        self._ticket_keys = TicketKeys(current_ticket_key, ticket_keys, revoked)

    async def _read(self) -> list[asyncpg.Record]:
        return await self._pool.fetch(read_text("admission", "sql", "read_signing_keys.sql"))
