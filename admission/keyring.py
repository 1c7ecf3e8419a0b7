"""The signing keys: made once, sealed in Postgres under the master key, opened in memory by each gateway worker."""

import secrets

import asyncpg
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from admission.passes import PassSigner
from admission.tickets import TicketKeys
from chassis.database import Pool, read_text
from chassis.problems import busy
from chassis.seal import seal, unseal


class Keyring:
    """Who may sign: after the first `refresh`, `signer` signs passes and `ticket_keys` sign and read tickets."""

    def __init__(self, pool: Pool, master_key: bytes, issuer: str) -> None:
        self._pool = pool
        self._master_key = master_key
        self._issuer = issuer
        self._signer: PassSigner | None = None
        self._ticket_keys: TicketKeys | None = None

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
        """Read the keys, making what is missing. Raises SealBroken when the master key is another one."""
        rows = await self._read()
        current = {row["purpose"] for row in rows if row["state"] == "current"}
        if current != {"pass", "ticket"}:
            for purpose in {"pass", "ticket"} - current:
                await self._create(purpose)
            rows = await self._read()
        self._open(rows)

    def _open(self, rows: list[asyncpg.Record]) -> None:
        ticket_keys: dict[str, bytes] = {}
        current_ticket_key = ""
        for row in rows:
            private = unseal(self._master_key, row["sealed_private"], _seal_purpose(row["purpose"], row["kid"]))
            if row["purpose"] == "ticket":
                ticket_keys[row["kid"]] = private
                current_ticket_key = row["kid"] if row["state"] == "current" else current_ticket_key
            elif row["state"] == "current" and (self._signer is None or self._signer.kid != row["kid"]):
                self._signer = PassSigner(row["kid"], Ed25519PrivateKey.from_private_bytes(private), self._issuer)
        self._ticket_keys = TicketKeys(current_ticket_key, ticket_keys)

    async def _read(self) -> list[asyncpg.Record]:
        return await self._pool.fetch(read_text("admission", "sql", "read_signing_keys.sql"))

    async def _create(self, purpose: str) -> None:
        kid = secrets.token_hex(6)
        if purpose == "pass":
            key = Ed25519PrivateKey.generate()
            public, private = key.public_key().public_bytes_raw(), key.private_bytes_raw()
        else:
            public, private = None, secrets.token_bytes(32)
        sealed = seal(self._master_key, private, _seal_purpose(purpose, kid))
        await self._pool.execute(read_text("admission", "sql", "create_signing_key.sql"), kid, purpose, public, sealed)


def _seal_purpose(purpose: str, kid: str) -> str:
    return f"{purpose} key {kid}"
