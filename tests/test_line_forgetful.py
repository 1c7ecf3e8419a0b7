"""What a Redis that has forgotten, or been told to forget, must not undo: the order of the line, and that a ticket is used once."""

from redis.asyncio import Redis

from chassis.database import Pool
from chassis.settings import Settings
from tests.line_world import Buyer, LineWorld, line_world, until


async def restored(world: LineWorld, generation: int) -> None:
    async def is_restored() -> bool:
        status = await world.status()
        return status["line"] == "reachable" and status["generation"] != generation

    await until(is_restored, "the line is restored")


async def test_a_lost_redis_does_not_put_a_waiting_crowd_to_sleep(settings: Settings, pool: Pool) -> None:
    """A room that stands by is awake while people wait: after the loss it calls them in order, not all at once."""
    async with line_world(settings, pool) as world, Redis.from_url(settings.redis_url) as redis:
        await world.put(method="fifo", rate_per_minute=60, standby_above_per_minute=5)
        crowd = [await world.join() for _ in range(30)]
        await world.shows("phase", "open")
        generation = (await world.status())["generation"]
        assert isinstance(generation, int)
        await redis.flushall()
        await restored(world, generation)
        status = await world.status()
        assert status["phase"] == "open"
        called = status["called"]
        assert isinstance(called, int)
        assert called < 25
        assert (await world.claim(crowd[-1])).status_code == 202
        assert (await world.place(crowd[-1]))["state"] == "waiting"


async def used_long_ago(world: LineWorld, pool: Pool, redis: Redis, buyer: Buyer) -> None:
    """The buyer's visit ended two hours ago, and Redis has forgotten it."""
    await pool.execute("UPDATE line.claims SET issued_at = issued_at - 7200, expires_at = expires_at - 7200")
    await redis.hdel("{onsale}:claims", buyer.ticket_id)
    await redis.zrem("{onsale}:slots", buyer.ticket_id)


async def test_a_used_ticket_gets_no_second_pass_from_a_redis_that_forgot_it(settings: Settings, pool: Pool) -> None:
    async with line_world(settings, pool) as world, Redis.from_url(settings.redis_url) as redis:
        await world.put(method="fifo", rate_per_minute=60_000, active_max=1, turn_seconds=3600, pass_seconds=600)
        buyer = await world.join()
        await world.admitted(buyer)
        await used_long_ago(world, pool, redis, buyer)
        again = await world.claim(buyer)
        assert (again.status_code, again.json()["code"]) == (410, "turn-missed"), again.text
        next_buyer = await world.join()
        await world.admitted(next_buyer)  # the only slot is free
        assert await pool.fetchval("SELECT count(*) FROM line.claims WHERE expires_at > extract(epoch FROM now())") == 1


async def test_whoever_left_is_not_let_in_again_by_a_redis_that_forgot_it(settings: Settings, pool: Pool) -> None:
    async with line_world(settings, pool) as world, Redis.from_url(settings.redis_url) as redis:
        await world.put(method="fifo", rate_per_minute=60_000, active_max=1, turn_seconds=3600)
        buyer = await world.join()
        shown = {"Fairgate-Pass": await world.admitted(buyer)}
        assert (await world.http.delete("/rooms/onsale/passes", headers=shown)).status_code == 204
        await redis.hdel("{onsale}:claims", buyer.ticket_id)
        assert (await world.claim(buyer)).status_code == 410
        await world.admitted(await world.join())


async def test_a_pause_holds_back_also_those_whom_the_room_would_let_pass(settings: Settings, pool: Pool) -> None:
    async with line_world(settings, pool) as world, Redis.from_url(settings.redis_url, decode_responses=True) as redis:
        await world.put(method="passthrough", paused=True)

        async def told() -> bool:
            return await redis.hmget("{onsale}:line", "method", "paused") == ["passthrough", "1"]

        await until(told, "the scripts know")
        refused = await world.claim(await world.join())
        assert refused.status_code == 202
        assert (await world.status())["phase"] == "paused"
