"""A public beacon's rounds: fetched in the background, so that no room's step waits for somebody else's server.

The form is drand's over HTTP: GET {source}/public/{round} answers round, randomness and signature.
"""

import asyncio
import hashlib
import time
from dataclasses import dataclass, field

import httpx
import msgspec
import structlog

from admission.room_settings import Beacon

ANSWER_BYTES_MAX = 16_384
ANSWER_SECONDS_MAX = 5.0
RETRY_SECONDS = 1.0
log = structlog.get_logger()


class BeaconRefused(Exception):
    """What the source answered is not the round's value; the text says why."""


class _Round(msgspec.Struct, frozen=True):
    round: int
    randomness: str
    signature: str | None = None


def read_round(body: bytes, number: int) -> bytes:
    """The value of round `number` (32 bytes) in the source's answer. Raises BeaconRefused.

    A signature given with it must hash to it (drand: randomness = SHA-256(signature)).
    """
    try:
        answer = msgspec.json.decode(body, type=_Round)
        value = bytes.fromhex(answer.randomness)
        signature = None if answer.signature is None else bytes.fromhex(answer.signature)
    except (msgspec.MsgspecError, ValueError) as error:
        raise BeaconRefused(f"not a beacon's answer: {error}") from None
    if answer.round != number:
        raise BeaconRefused(f"it answered round {answer.round} instead of {number}")
    if len(value) != hashlib.sha256().digest_size:
        raise BeaconRefused("its randomness has not 32 bytes")
    if signature is not None and hashlib.sha256(signature).digest() != value:
        raise BeaconRefused("its randomness is not the hash of its signature")
    return value


async def fetch_round(client: httpx.AsyncClient, beacon: Beacon) -> bytes:
    """Ask the source for its round. Raises BeaconRefused, and httpx.HTTPError while it cannot be reached."""
    async with client.stream("GET", f"{beacon.source}/public/{beacon.round}") as answer:
        if answer.status_code != 200:
            raise BeaconRefused(f"it answered {answer.status_code}")
        body = b""
        async for part in answer.aiter_bytes():
            body += part
            if len(body) > ANSWER_BYTES_MAX:
                raise BeaconRefused("its answer is too long")
    return read_round(body, beacon.round)


@dataclass(slots=True)
class _Asked:
    at: float
    task: "asyncio.Task[bytes | None]"


@dataclass(slots=True)
class Beacons:
    """The rounds that the leader waits for: one request at a time for each."""

    _asked: dict[Beacon, _Asked] = field(default_factory=dict)

    def value(self, beacon: Beacon) -> bytes | None:
        """The round's value when it has come; else None, and it is asked for in the background."""
        asked = self._asked.get(beacon)
        if asked is not None and not asked.task.done():
            return None
        if asked is not None and (found := asked.task.result()) is not None:
            return found
        if asked is None or time.monotonic() - asked.at >= RETRY_SECONDS:
            self._asked[beacon] = _Asked(time.monotonic(), asyncio.create_task(_ask(beacon)))
        return None

    def forget(self, beacon: Beacon) -> None:
        """The round's value stands in Postgres: it is not needed here any more."""
        self._asked.pop(beacon, None)

    async def close(self) -> None:
        """Stop asking."""
        for asked in self._asked.values():
            asked.task.cancel()
        await asyncio.gather(*(asked.task for asked in self._asked.values()), return_exceptions=True)
        self._asked.clear()


async def _ask(beacon: Beacon) -> bytes | None:
    try:
        async with (
            asyncio.timeout(ANSWER_SECONDS_MAX),
            httpx.AsyncClient(follow_redirects=False, timeout=ANSWER_SECONDS_MAX, trust_env=False) as client,
        ):
            return await fetch_round(client, beacon)
    except (BeaconRefused, httpx.HTTPError, httpx.InvalidURL, OSError, TimeoutError) as error:
        log.info(
            "the beacon has not come",
            source=beacon.source,
            round=beacon.round,
            reason=str(error)[:200] or type(error).__name__,
        )
        return None
