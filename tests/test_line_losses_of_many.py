"""100,000 in line, and Redis is lost in every way there is: everybody keeps their place and nobody's number comes twice.

How long the line takes to come back is printed (pytest -s), never judged closely: a busy machine is slow, not wrong.
"""

import contextlib
import hashlib
import secrets
import shutil
import subprocess
import time
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path

import msgspec
import redis.asyncio as redis

from admission.line import Handle, Joined, Joining, Line
from admission.redis_bond import RedisBond
from chassis.database import Pool
from chassis.settings import Settings
from tests.line_world import Buyer, LineWorld, back, line_world, places, soon, until
from tests.servers import ControlledServer
from tests.switches import Switch, to_valkey, valkey_switch
from tests.valkey_servers import tcp_valkey

CROWD = 100_000
SAMPLED = 200
AT_ONCE = 500  # CROWD / SAMPLED
BACK_SECONDS_MAX = 20.0
CAP = 3


class Crowded:
    """A room with 100,000 in line, 200 of whom we know, behind a Valkey that a test loses."""

    def __init__(self, world: LineWorld, server: ControlledServer, replica: ControlledServer, switch: Switch) -> None:
        self.world = world
        self.server = server
        self.replica = replica
        self.switch = switch
        self.known: list[Buyer] = []
        self.newcomers: list[Buyer] = []

    async def fill(self) -> None:
        """Let the crowd in: known buyers at the front, and one before each 499 others."""
        pool, room = self.world.pool, self.world.room
        raised = "UPDATE line.progress SET entry_limit = $1, number_limit = $1"
        await pool.execute(raised, CROWD + 1_000)
        row = await pool.fetchrow("SELECT generation, epoch, redis_identity FROM line.progress")
        assert row is not None
        bond = RedisBond(self.switch.url)
        await bond.renew()
        handle = Handle(room, row["epoch"], row["generation"], row["redis_identity"])
        self.known = [await self.world.join() for _ in range(2 * CAP)]
        for _ in range(SAMPLED):
            self.known.append(await self.world.join())
            crowd = [Joining(a_client(), CROWD + 1_000, CROWD + 1_000) for _ in range(AT_ONCE - 1)]
            assert all(isinstance(joined, Joined) for joined in await Line(bond).join(handle, crowd))
        await bond.close()
        await until(self._noted, "Postgres knows of everybody")

    async def _noted(self) -> bool:
        known = await self.world.pool.fetchval("SELECT greatest(entries_known, numbers_known) FROM line.progress")
        return bool(known >= CROWD)

    async def loses(self, name: str, loss: Callable[[], Awaitable[None]]) -> None:
        """Lose Redis by `loss`, which returns when Redis is back; everything must hold, and the line come back soon."""
        before = await standings(self.world, self.known)
        await loss()
        returned = time.monotonic()
        newcomer = await back(self.world)
        elapsed = time.monotonic() - returned
        print(f"{name}: back after {elapsed:.2f} s")
        assert elapsed < BACK_SECONDS_MAX, name
        self.newcomers.append(newcomer)
        assert await standings(self.world, self.known) == before, name
        indices = [index_of(buyer) for buyer in (*self.known, *self.newcomers)]
        assert len(set(indices)) == len(indices), name
        assert index_of(newcomer) > max(index_of(buyer) for buyer in self.known), name


@contextlib.asynccontextmanager
async def crowded(settings: Settings, pool: Pool, **room: object) -> AsyncIterator[Crowded]:
    """A filled room, behind an address that stays."""
    async with tcp_valkey() as server, tcp_valkey() as replica, valkey_switch(server.url) as switch:
        async with line_world(settings.model_copy(update={"redis_url": switch.url}), pool) as world:
            await world.put(**room)
            crowd = Crowded(world, server, replica, switch)
            await crowd.fill()
            yield crowd


async def every_loss(crowd: Crowded, folder: Path) -> None:
    """Lose Redis in each way, one after the other."""
    server, world = crowd.server, crowd.world
    async with redis.Redis.from_url(server.url) as memory:
        data = Path(str((await memory.config_get("dir"))["dir"]))

    async def flushed() -> None:
        async with redis.Redis.from_url(server.url) as memory:
            await memory.flushall()

    async def killed() -> None:
        await server.kill()
        await world.shows("line", "away")
        await server.start()

    async def emptied() -> None:
        await server.kill()
        shutil.rmtree(data / "appendonlydir")
        await server.start()

    async def rewound() -> None:
        async with redis.Redis.from_url(server.url) as memory:
            await memory.waitaof(1, 0, 5_000)
        older = folder / "older"
        subprocess.run(["cp", "-a", data / "appendonlydir", older], check=True)
        lost = [await world.join() for _ in range(5)]
        crowd.newcomers += lost
        await server.kill()
        shutil.rmtree(data / "appendonlydir")
        subprocess.run(["cp", "-a", older, data / "appendonlydir"], check=True)
        await server.start()

    async def restarted_without_a_controller() -> None:
        await world.pool.execute("UPDATE chassis.leases SET holder = 'nobody', until = now() + interval '1 hour'")
        await server.kill()
        await server.start()
        refused = await world.http.post(f"/rooms/{world.room}/tickets", json={"client_id": a_client()})
        assert refused.status_code == 503
        await world.pool.execute("UPDATE chassis.leases SET until = now()")

    await crowd.loses("FLUSHALL", flushed)
    await crowd.loses("kill -9, restart with its data", killed)
    await crowd.loses("kill -9, restart without data", emptied)
    await crowd.loses("kill -9, a second older", rewound)
    await crowd.loses("restart while the controller is down", restarted_without_a_controller)
    await fails_over(crowd)


async def fails_over(crowd: Crowded) -> None:
    """Lose the last joins to a replica that lags when it is promoted."""
    server, world = crowd.server, crowd.world
    async with redis.Redis.from_url(crowd.replica.url) as follower:
        host, port = server.url.rpartition("@")[2].split(":")
        await follower.replicaof(host, int(port))

        async def in_step() -> bool:
            return bool((await follower.info("replication"))["master_link_status"] == "up")

        await until(in_step, "the replica follows")

        async def failed_over() -> None:
            await follower.replicaof("NO", "ONE")  # from here on it lags behind
            crowd.newcomers += [await world.join() for _ in range(5)]
            await server.kill()
            crowd.switch.turn(to_valkey(crowd.replica.url))

        await crowd.loses("failover to a lagging replica", failed_over)


async def test_a_hundred_thousand_in_the_open_line_keep_their_order_through_every_loss_and_the_cap_holds(
    settings: Settings, pool: Pool, tmp_path: Path
) -> None:
    async with crowded(settings, pool, method="fifo", rate_per_minute=600, active_max=CAP, pass_seconds=3600) as crowd:
        # Three are let in, who then fill the room; the three behind them ask as soon as they may.
        heads, behind = crowd.known[:CAP], crowd.known[CAP : 2 * CAP]
        passes = {buyer.ticket_id: await crowd.world.admitted(buyer) for buyer in heads}
        await every_loss(crowd, tmp_path)
        for buyer in heads:
            assert (await crowd.world.claim(buyer)).json()["pass"] == passes[buyer.ticket_id]
        for buyer in behind:
            assert (await crowd.world.claim(buyer)).status_code == 202, "nobody is let in beyond the cap"
        await crowd.world.shows("active", CAP)
        assert await pool.fetchval("SELECT count(*) FROM line.claims") == len(heads)


async def test_a_hundred_thousand_in_the_prequeue_keep_their_entries_through_every_loss(
    settings: Settings, pool: Pool, tmp_path: Path
) -> None:
    async with crowded(settings, pool, method="draw", opens_at=soon(3600), rate_per_minute=1) as crowd:
        await every_loss(crowd, tmp_path)
        everybody = [*crowd.known, *crowd.newcomers]

        async def none_is_lost() -> bool:
            await standings(
                crowd.world, crowd.newcomers
            )  # whoever shows a ticket that Redis forgot gets the entry back
            lost = await pool.fetchval(
                "SELECT count(*) FROM line.gaps JOIN unnest($1::bigint[]) AS entry ON entry BETWEEN first AND last"
                " WHERE kind = 'entry'",
                [index_of(buyer) for buyer in everybody],
            )
            return bool(lost == 0)

        await until(none_is_lost, "lost entries are restored from their tickets")
        await crowd.world.open_at(soon(-1))

        async def drawn() -> bool:
            return (await crowd.world.place(everybody[0]))["place"] is not None

        await until(drawn, "the places are drawn")
        places_drawn = [msgspec.convert(place, int) for place in await places(crowd.world, everybody)]
        assert len(set(places_drawn)) == len(places_drawn)
        issued = msgspec.convert((await crowd.world.status())["issued"], int)
        assert issued >= CROWD
        assert max(places_drawn) <= issued


async def standings(world: LineWorld, buyers: Sequence[Buyer]) -> list[object]:
    """Everybody's place, or entry while places are still to be drawn."""
    return [place or buyer.joined for place, buyer in zip(await places(world, buyers), buyers, strict=True)]


def index_of(buyer: Buyer) -> int:
    """The entry or number that a buyer was given."""
    return msgspec.convert(buyer.joined.get("entry") or buyer.joined.get("number"), int)


def a_client() -> str:
    """Somebody's client_id."""
    return urlsafe_b64encode(hashlib.sha256(secrets.token_bytes(32)).digest()).rstrip(b"=").decode()
