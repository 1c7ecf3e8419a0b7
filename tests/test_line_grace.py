"""What becomes of a turn: its clock stops while the room refuses, it is lengthened on request, and called once more."""

import httpx
import redis.asyncio as redis

from chassis.database import Pool
from chassis.settings import Settings
from tests.line_world import Buyer, LineWorld, line_world, until
from tests.test_line_turns import until_state

TURN_SECONDS = 60


async def run_out(memory: "redis.Redis", world: LineWorld, buyer: Buyer) -> None:
    """Let the room's turn clock run until the buyer's turn is over."""

    async def missed() -> bool:
        if (await world.place(buyer))["state"] == "missed":
            return True
        await memory.hincrby("{onsale}:line", "clock_ms", (TURN_SECONDS + 1) * 1000)
        return False

    await until(missed, "the turn is over")


async def extend(world: LineWorld, buyer: Buyer) -> httpx.Response:
    return await world.http.post("/rooms/onsale/turn", headers=buyer.headers)


async def test_a_missed_turn_is_called_once_more_within_its_grace(settings: Settings, pool: Pool) -> None:
    async with line_world(settings, pool) as world, redis.Redis.from_url(settings.redis_url) as memory:
        await world.put(rate_per_minute=60_000, turn_seconds=TURN_SECONDS, grace_seconds=600)
        buyer = await world.join()
        await until_state(world, buyer, "called")
        await run_out(memory, world, buyer)
        place = await world.place(buyer)
        assert place["grace_ends_at"] is not None
        answer = await world.claim(buyer)
        assert answer.status_code == 201
        assert (await world.claim(buyer)).json()["pass"] == answer.json()["pass"]
        await world.http.delete("/rooms/onsale/passes", headers={"Fairgate-Pass": answer.json()["pass"]})
        assert (await world.claim(buyer)).status_code == 410  # a turn that was used is no missed one


async def test_grace_is_given_once_and_is_a_whole_turn(settings: Settings, pool: Pool) -> None:
    async with line_world(settings, pool) as world, redis.Redis.from_url(settings.redis_url) as memory:
        rules = {"rate_per_minute": 60_000, "turn_seconds": TURN_SECONDS, "grace_seconds": 600, "active_max": 1}
        await world.put(**rules)
        buyer = await world.join()
        await until_state(world, buyer, "called")
        await run_out(memory, world, buyer)
        inside = await world.admitted(await world.join())
        refused = await world.claim(buyer)
        assert (refused.status_code, refused.json()["reason"]) == (202, "full")
        assert (await world.place(buyer))["state"] == "called"
        await world.http.delete("/rooms/onsale/passes", headers={"Fairgate-Pass": inside})
        await run_out(memory, world, buyer)
        assert (await world.place(buyer))["grace_ends_at"] is None
        missed = await world.claim(buyer)
        assert (missed.status_code, missed.json()["code"]) == (410, "turn-missed")
        assert "Join again" in missed.json()["detail"]
        assert (await extend(world, buyer)).status_code == 410


async def test_a_missed_turn_whose_grace_has_passed_is_gone(settings: Settings, pool: Pool) -> None:
    async with line_world(settings, pool) as world, redis.Redis.from_url(settings.redis_url) as memory:
        await world.put(rate_per_minute=60_000, turn_seconds=TURN_SECONDS, grace_seconds=1)
        buyer = await world.join()
        await until_state(world, buyer, "called")
        await run_out(memory, world, buyer)

        async def gone() -> bool:
            return (await world.place(buyer))["grace_ends_at"] is None

        await until(gone, "the grace has passed")
        assert (await world.claim(buyer)).status_code == 410


async def test_a_hidden_tab_keeps_its_grace_however_far_the_line_has_moved(settings: Settings, pool: Pool) -> None:
    """C-50: grace is measured by the clock, not in places."""
    async with line_world(settings, pool) as world, redis.Redis.from_url(settings.redis_url) as memory:
        await world.put(rate_per_minute=600_000, turn_seconds=TURN_SECONDS, grace_seconds=600)
        buyer = await world.join()
        await until_state(world, buyer, "called")
        await run_out(memory, world, buyer)
        await memory.hset("{onsale}:line", "numbers", "900")  # so many others have come
        last = await world.join()
        await until_state(world, last, "called")
        await run_out(memory, world, last)
        assert (await world.claim(buyer)).status_code == 201


async def test_more_time_on_request_as_often_as_the_room_allows(settings: Settings, pool: Pool) -> None:
    async with line_world(settings, pool) as world, redis.Redis.from_url(settings.redis_url) as memory:
        await world.put(rate_per_minute=60_000, turn_seconds=TURN_SECONDS, grace_seconds=0, extensions_max=2)
        buyer = await world.join()
        assert (await extend(world, buyer)).status_code in (200, 202)
        await until_state(world, buyer, "called")
        await memory.hdel("{onsale}:turns", buyer.ticket_id)
        assert (await world.place(buyer))["extensions_left"] == 2
        for left in (1, 1):  # the second is a double click
            answer = await extend(world, buyer)
            assert (answer.status_code, answer.json()["extensions_left"]) == (200, left)
        await memory.hset("{onsale}:turns", buyer.ticket_id, "1 0 0")  # the first was long ago
        assert (await extend(world, buyer)).json()["extensions_left"] == 0
        await memory.hset("{onsale}:turns", buyer.ticket_id, "2 0 0")
        refused = await extend(world, buyer)
        assert (refused.status_code, refused.json()["code"]) == (409, "extension-limit")
        assert (await world.place(buyer))["state"] == "called"
        await world.admitted(buyer)
        used = await extend(world, buyer)
        assert (used.status_code, used.json()["state"]) == (200, "admitted")


async def test_an_extended_turn_outlives_its_first_end(settings: Settings, pool: Pool) -> None:
    async with line_world(settings, pool) as world, redis.Redis.from_url(settings.redis_url) as memory:
        await world.put(
            rate_per_minute=60_000, turn_seconds=TURN_SECONDS, grace_seconds=0, extensions_max=1, active_max=1
        )
        buyer = await world.join()
        await until_state(world, buyer, "called")

        async def noted() -> bool:
            return bool(await memory.zcard("{onsale}:calls"))

        await until(noted, "a step has noted the call")
        assert (await extend(world, buyer)).status_code == 200
        ends_ms = await memory.zscore("{onsale}:extended", buyer.ticket_id)

        async def first_turn_over() -> bool:
            await memory.hset("{onsale}:line", "clock_ms", str(int(ends_ms or 0) - 5_000))
            return int(await memory.hget("{onsale}:line", "over") or 0) >= 1

        await until(first_turn_over, "the turn that the place tells of is over")
        assert (await world.place(buyer))["state"] == "called"
        await world.admitted(buyer)


async def test_more_time_by_form_goes_back_to_the_page(settings: Settings, pool: Pool) -> None:
    async with line_world(settings, pool) as world:
        await world.put(rate_per_minute=60_000)
        buyer = await world.join()
        await until_state(world, buyer, "called")
        cookies = f"fairgate-ticket-onsale={buyer.ticket}; fairgate-secret-onsale={buyer.secret}"
        answer = await world.http.post("/rooms/onsale/turn", data={"return": "/shop"}, headers={"Cookie": cookies})
        assert (answer.status_code, answer.headers["location"]) == (303, "/.fairgate/rooms/onsale?return=/shop")
        assert (await world.place(buyer))["extensions_left"] == 0
        foreign = await world.http.post(
            "/rooms/onsale/turn", headers={"Cookie": cookies, "Sec-Fetch-Site": "cross-site"}
        )
        assert (foreign.status_code, foreign.json()["code"]) == (403, "foreign-origin")


async def test_the_turns_clock_stands_still_while_the_room_refuses(settings: Settings, pool: Pool) -> None:
    async with line_world(settings, pool) as world, redis.Redis.from_url(settings.redis_url) as memory:
        await world.put(rate_per_minute=60_000, active_max=1)
        await world.admitted(await world.join())

        async def steps_at_one_clock() -> bool:
            """Whether the clock stood through a whole step: steps are told apart by their moment."""
            before = await memory.hmget("{onsale}:line", "since_ms", "clock_ms")

            async def stepped() -> bool:
                return await memory.hget("{onsale}:line", "since_ms") != before[0]

            await until(stepped, "a step is made")
            return await memory.hget("{onsale}:line", "clock_ms") == before[1]

        await until(steps_at_one_clock, "the clock of a full room stands")
        await world.put(rate_per_minute=60_000, paused=True)
        await world.shows("phase", "paused")
        await until(steps_at_one_clock, "the clock of a paused room stands")


async def test_a_lost_redis_costs_nobody_a_turn_that_was_lengthened(settings: Settings, pool: Pool) -> None:
    async with line_world(settings, pool) as world, redis.Redis.from_url(settings.redis_url) as memory:
        await world.put(rate_per_minute=60_000, turn_seconds=TURN_SECONDS, grace_seconds=600)
        buyer = await world.join()
        await until_state(world, buyer, "called")
        assert (await extend(world, buyer)).status_code == 200

        async def first_turn_over() -> bool:
            await memory.hincrby("{onsale}:line", "clock_ms", TURN_SECONDS * 500)
            return bool(await pool.fetchval("SELECT over FROM line.progress"))

        await until(first_turn_over, "the turn that the place tells of is over")
        await memory.flushall()

        async def let_in() -> bool:
            return (await world.claim(buyer)).status_code == 201

        await until(let_in, "the buyer is let in")
