"""What the line's tests share: a gateway on real servers, and buyers who talk to it over HTTP."""

import asyncio
import contextlib
import hashlib
import secrets
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import httpx
import uvicorn
from starlette.types import ASGIApp

from admission.app import create
from admission.room_settings import RoomSettings
from admission.rooms import Rooms
from chassis.database import Pool
from chassis.settings import Settings

PATIENCE_SECONDS = 60.0  # a condition that holds ends the wait at once; a busy machine needs the rest


async def until(condition: Callable[[], Awaitable[bool]], what: str) -> None:
    """Wait until `condition` holds; fails, naming `what`, when it never does."""
    async with asyncio.timeout(PATIENCE_SECONDS) as waited:
        while not await condition():
            await asyncio.sleep(0.02)
    assert not waited.expired(), what


@contextlib.asynccontextmanager
async def serving(app: ASGIApp) -> AsyncIterator[str]:
    """Serve an ASGI app on a free port, on this event loop; gives its address."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, access_log=False, lifespan="on"))
    task = asyncio.create_task(server._serve())  # serve() would take the test run's signals

    async def started() -> bool:
        if task.done():
            await task
        return server.started

    await until(started, "the server starts")
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        await task


@dataclass(frozen=True, slots=True)
class Buyer:
    """Somebody in line, with everything needed to claim."""

    secret: str
    client_id: str
    ticket: str
    ticket_id: str
    joined: dict[str, object]

    @property
    def headers(self) -> dict[str, str]:
        return {"Fairgate-Ticket": self.ticket, "Fairgate-Secret": self.secret}


class LineWorld:
    """One room behind a running gateway."""

    def __init__(self, url: str, pool: Pool, room: str) -> None:
        self.url = url
        self.pool = pool
        self.room = room
        self.http = httpx.AsyncClient(base_url=url, timeout=10, trust_env=False)

    async def put(self, **settings: object) -> None:
        """Create the room or change it, and wait until every part of the gateway acts on it."""
        await Rooms(self.pool).put(self.room, RoomSettings(**settings))  # type: ignore[arg-type]

        async def ready() -> bool:
            answer = await self.http.get(f"/rooms/{self.room}/status")
            return answer.status_code == 200 and answer.json()["line"] == "reachable"

        await until(ready, "the room is ready")

    async def open_at(self, moment: datetime) -> None:
        """Move the opening, as an operator would before it has come."""
        await self.pool.execute("UPDATE line.rooms SET opens_at = $2 WHERE name = $1", self.room, moment)

    async def join(self) -> Buyer:
        """One more buyer in line; the scripts hear that a room takes people with the leader's next step."""
        secret = secrets.token_urlsafe(32)
        client_id = client_id_of(secret)
        answers: list[httpx.Response] = []

        async def taken() -> bool:
            answers.append(await self.http.post(f"/rooms/{self.room}/tickets", json={"client_id": client_id}))
            return answers[-1].status_code == 201 or answers[-1].json().get("reason") != "not-yet"

        await until(taken, "the room takes somebody")
        assert answers[-1].status_code == 201, answers[-1].text
        joined = answers[-1].json()
        return Buyer(secret, client_id, joined["ticket"], joined["ticket_id"], joined)

    async def place(self, buyer: Buyer) -> dict[str, object]:
        answer = await self.http.get(f"/rooms/{self.room}/place", headers={"Fairgate-Ticket": buyer.ticket})
        assert answer.status_code == 200, answer.text
        document: dict[str, object] = answer.json()
        return document

    async def claim(self, buyer: Buyer) -> httpx.Response:
        return await self.http.post(f"/rooms/{self.room}/passes", headers=buyer.headers)

    async def admitted(self, buyer: Buyer) -> str:
        """Claim until the room lets `buyer` in: the pass."""
        found: list[str] = []

        async def let_in() -> bool:
            answer = await self.claim(buyer)
            assert answer.status_code in (200, 201, 202, 503), answer.text
            if answer.status_code < 202:
                found.append(answer.json()["pass"])
            return bool(found)

        await until(let_in, "the buyer is let in")
        return found[0]

    async def status(self) -> dict[str, object]:
        answer = await self.http.get(f"/rooms/{self.room}/status")
        assert answer.status_code == 200, answer.text
        document: dict[str, object] = answer.json()
        return document

    async def shows(self, name: str, value: object) -> None:
        """Wait until the public document says so."""

        async def says() -> bool:
            answer = await self.http.get(f"/rooms/{self.room}/status")
            return answer.status_code == 200 and answer.json()[name] == value

        await until(says, f"{name} is {value}")


@contextlib.asynccontextmanager
async def line_world(settings: Settings, pool: Pool, room: str = "onsale") -> AsyncIterator[LineWorld]:
    """A gateway with one room to come."""
    async with serving(create(settings)) as url:
        world = LineWorld(url, pool, room)
        async with world.http:
            yield world


async def back(world: LineWorld) -> Buyer:
    """Wait until the room takes entries again; who joined first."""
    joined: list[Buyer] = []

    async def takes_entries() -> bool:
        try:
            joined.append(await world.join())
        except AssertionError as refused:
            assert '"busy"' in str(refused), refused
        return bool(joined)

    await until(takes_entries, "the room is back")
    return joined[0]


async def places(world: LineWorld, buyers: Sequence[Buyer]) -> list[object]:
    """Everybody's place."""
    return [(await world.place(buyer))["place"] for buyer in buyers]


def client_id_of(secret: str) -> str:
    """A client's own reading of the contract: base64url(SHA-256(secret))."""
    return urlsafe_b64encode(hashlib.sha256(secret.encode()).digest()).rstrip(b"=").decode()


def soon(seconds: float) -> datetime:
    """A moment from now."""
    return datetime.now(UTC) + timedelta(seconds=seconds)
