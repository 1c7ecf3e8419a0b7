"""Many gateways at one door, on a real server: the cap is exact at every moment, and the rate is one rate for all (I7)."""

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator

import redis.asyncio as redis

from admission.line import Granted, Handle, Joined, Joining, Line
from admission.redis_bond import RedisBond
from admission.tickets import Ticket
from chassis.database import Pool
from chassis.settings import Settings
from tests.line_world import LineWorld, client_id_of, line_world, until
from tests.test_line_turns import insist, two_workers

GATEWAYS = 8
TICKETS = 200
CAP = 7
AT_ONCE = 5


@contextlib.asynccontextmanager
async def gateways(settings: Settings, world: LineWorld) -> AsyncIterator[list[tuple[Line, Handle]]]:
    """The line as so many gateways hold it, each on a connection of its own."""
    generation = (await world.status())["generation"]
    assert isinstance(generation, int)
    bonds = [RedisBond(settings.redis_url) for _ in range(GATEWAYS)]
    try:
        for bond in bonds:
            await bond.renew()
        yield [(Line(bond), Handle("onsale", 1, generation, bond.identity_of("onsale"))) for bond in bonds]
    finally:
        for bond in bonds:
            await bond.close()


async def join_all(line: Line, handle: Handle) -> dict[str, int]:
    """Ticket ids and their places."""
    clients = [client_id_of(f"buyer {number}") for number in range(TICKETS)]
    tickets = {}
    for client_id, joined in zip(
        clients, await line.join(handle, [Joining(client_id, 0, TICKETS) for client_id in clients]), strict=True
    ):
        assert isinstance(joined, Joined)
        tickets[Ticket("onsale", 1, joined.kind, joined.index, 0, client_id).ticket_id] = joined.index
    return tickets


async def race(lines: list[tuple[Line, Handle]], tickets: dict[str, int]) -> set[str]:
    """Every gateway claims every ticket, in an order of its own, all at once: who was let in by this."""
    let_in: set[str] = set()

    async def claim_all(line: Line, handle: Handle, seed: int) -> None:
        claims = list(tickets.items())
        random.Random(seed).shuffle(claims)
        for first in range(0, len(claims), AT_ONCE):
            asked = claims[first : first + AT_ONCE]
            for (ticket_id, _), answer in zip(asked, await line.claim(handle, asked), strict=True):
                if isinstance(answer, Granted) and not answer.repeated:
                    assert ticket_id not in let_in, "a ticket is let in once"
                    let_in.add(ticket_id)

    await asyncio.gather(*(claim_all(line, handle, seed) for seed, (line, handle) in enumerate(lines)))
    return let_in


async def test_eight_gateways_that_claim_two_hundred_tickets_at_once_let_in_exactly_the_cap(
    settings: Settings, pool: Pool
) -> None:
    async with (
        line_world(settings, pool) as world,
        redis.Redis.from_url(settings.redis_url, decode_responses=True) as memory,
    ):
        await world.put(method="fifo", rate_per_minute=60_000, turn_seconds=3_600)
        async with gateways(settings, world) as lines:
            tickets = await join_all(*lines[0])
            await world.shows("called", TICKETS)
            await world.put(method="fifo", rate_per_minute=60_000, turn_seconds=3_600, active_max=CAP)

            async def capped() -> bool:
                return await memory.hget("{onsale}:line", "active_max") == str(CAP)

            await until(capped, "the cap is in force")
            most, done = 0, asyncio.Event()

            async def watch() -> None:
                nonlocal most
                while not done.is_set():
                    most = max(most, await memory.zcard("{onsale}:slots"))

            watching = asyncio.create_task(watch())
            inside = await race(lines, tickets)
            assert len(inside) == CAP
            for leaving in (3, CAP, 1):
                for ticket_id in sorted(inside)[:leaving]:
                    line, handle = random.choice(lines)
                    await line.leave(handle, ticket_id)
                    inside.discard(ticket_id)
                    del tickets[ticket_id]
                assert await memory.zcard("{onsale}:slots") == CAP - leaving
                let_in = await race(lines, tickets)
                assert len(let_in) == leaving
                inside |= let_in
                assert set(await memory.zrange("{onsale}:slots", 0, -1)) == inside
            done.set()
            await watching
            assert most == CAP


async def test_two_gateways_together_admit_no_faster_than_the_rate_at_any_moment(
    settings: Settings, pool: Pool
) -> None:
    rate, burst = 300, 5
    async with two_workers(settings, pool) as workers, redis.Redis.from_url(settings.redis_url) as memory:
        await workers[0].put(rate_per_minute=rate, turn_seconds=600)
        buyers = await asyncio.gather(*(workers[0].join() for _ in range(25)))
        readings: list[tuple[float, int, float]] = []  # read between the first moment and the second
        claiming = asyncio.create_task(insist(workers, list(buyers)))

        async def all_in() -> bool:
            before = time.monotonic()
            readings.append((before, int(await memory.hget("{onsale}:line", "admitted") or 0), time.monotonic()))
            return claiming.done()

        await until(all_in, "everybody is let in")
        assert await claiming == 25
        assert readings[-1][1] == 25
        for at, (before, admitted, _) in enumerate(readings):
            for _, later, after in readings[at:]:
                assert later - admitted <= rate / 60 * (after - before) + burst
