"""A shop for the HTTP bench: SKUs, a shop key, passes, and the requests that buyers and the shop's server send."""

import asyncio
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import orjson

from admission.keyring import Keyring
from admission.passes import Pass
from chassis.database import Pool
from chassis.keys import ApiKeys
from counters.rules import Done, SkuSettings
from counters.store import Stock
from loadtest.bench.feed import KEY, render
from loadtest.bench.load import Target
from loadtest.strategies.strategy import reservation, trial_sku

ROOM = "bench"
PLENTY, SCARCE = "bench-plenty", "bench-scarce"
ORIGINALS = 100
TOTAL = 1_000_000_000
SHARDS = 8
HOLD_SECONDS = 86_400
RESERVERS = 512


class Answer(msgspec.Struct, frozen=True):
    """One HTTP answer."""

    status: int
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Shop:
    """What stands ready; `plenty` never sells out. `key` is the shop's."""

    stock: Stock
    keyring: Keyring
    key: str
    plenty: int
    scarce: int

    def passes(self, many: int) -> list[str]:
        """So many passes, each of a buyer of its own."""
        now = int(time.time())
        run = secrets.token_hex(6)
        signer = self.keyring.signer
        return [signer.sign(Pass(ROOM, f"{run}-{n}", f"{run}-{n}", now, now + 7200)) for n in range(many)]

    async def holds(self, many: int) -> list[tuple[str, int]]:
        """So many holds of one unit of `plenty`, made beside the API: ids with their fences."""
        run = secrets.token_hex(6)
        sku = trial_sku(self.plenty, PLENTY)
        numbers = iter(range(many))
        made: list[tuple[str, int]] = []

        async def reserver() -> None:
            for number in numbers:
                outcome = await self.stock.reserve(reservation(sku, f"{run}-{number}", batched=True, room=ROOM))
                assert isinstance(outcome, Done), outcome
                document = orjson.loads(outcome.document)
                made.append((document["id"], document["fence"]))

        await asyncio.gather(*(reserver() for _ in range(RESERVERS)))
        return made

    def confirms(self, holds: Sequence[tuple[str, int]]) -> list[bytes]:
        """The shop's confirm of each hold."""
        headers = {"Authorization": f"Bearer {self.key}", "Idempotency-Key": KEY.decode()}
        return [render("POST", f"/v1/holds/{hold}/confirm", headers, _fence(fence)) for hold, fence in holds]

    def releases(self, holds: Sequence[tuple[str, int]]) -> list[bytes]:
        """The shop's release of each hold."""
        headers = {"Authorization": f"Bearer {self.key}"}
        return [render("POST", f"/v1/holds/{hold}/release", headers, _fence(fence)) for hold, fence in holds]


async def open_shop(pool: Pool, stock: Stock, keyring: Keyring) -> Shop:
    """Put the SKUs on sale and make the shop's key."""
    numbers = {}
    for name, total, shards in ((PLENTY, TOTAL, SHARDS), (SCARCE, ORIGINALS, 1)):
        settings = SkuSettings(
            title=name, total=total, shards=shards, room=ROOM, hold_seconds=HOLD_SECONDS, hold_seconds_max=HOLD_SECONDS
        )
        await stock.put_sku(name, settings.checked(), "operator:bench")
        sku = await stock.find_sku(name)
        assert sku is not None, f"{name} was put and is not there"
        numbers[name] = sku.id
    key = await ApiKeys(pool).create("bench", "shop")
    return Shop(stock, keyring, key, numbers[PLENTY], numbers[SCARCE])


def reserves(sku: str, passes: Sequence[str], key: str = KEY.decode()) -> list[bytes]:
    """A reserve of one unit with each pass."""
    body = orjson.dumps({"lines": [{"sku": sku, "quantity": 1}]})
    return [render("POST", "/v1/holds", {"Fairgate-Pass": token, "Idempotency-Key": key}, body) for token in passes]


async def exchange(target: Target, requests: Sequence[bytes]) -> list[Answer]:
    """Send requests one after the other over one connection and read their answers."""
    reader, writer = await asyncio.open_connection(target.host, target.port)
    answers = []
    try:
        for request in requests:
            writer.write(request)
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            first, *lines = head.strip().split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            answers.append(Answer(int(first.split()[1]), headers, body))
    finally:
        writer.close()
        await writer.wait_closed()
    return answers


def _fence(fence: int) -> bytes:
    return b'{"fence":%d}' % fence
