"""Claims that come a moment too early for the rate are kept: nobody has to ask again for a token that is due at once."""

import asyncio
import time
from collections.abc import Sequence
from itertools import pairwise

import httpx
import redis.asyncio as redis
from hypothesis import given
from hypothesis import strategies as st

from admission.held_claims import HELD_MS_MAX, DueTokens, HeldClaims
from admission.line import ClaimAnswer, Delayed, Granted, Handle
from chassis.database import Pool
from chassis.settings import Settings
from tests.line_world import Buyer, LineWorld, line_world, until
from tests.test_line_turns import until_state

HANDLE = Handle("onsale", 1, 1, "redis")
GRANTED = Granted(1, 2, repeated=False)


async def never() -> None:
    await asyncio.Event().wait()


class Door:
    """A room that refuses each claim `refusals` times for `wait_seconds`, and notes who asked when."""

    def __init__(self, refusals: int, wait_seconds: float) -> None:
        self._refusals = refusals
        self.wait_seconds = wait_seconds
        self.asked: list[str] = []

    async def send(self, _handle: Handle, claims: Sequence[tuple[str, int]]) -> list[ClaimAnswer]:
        answers: list[ClaimAnswer] = []
        for ticket, _ in claims:
            refused = self.asked.count(ticket) < self._refusals
            answers.append(Delayed("rate", self.wait_seconds) if refused else GRANTED)
            self.asked.append(ticket)
        return answers


async def called(world: LineWorld, count: int) -> list[Buyer]:
    """So many buyers, all of them called, of whom nobody has claimed."""
    buyers = [await world.join() for _ in range(count)]
    for buyer in buyers:
        await until_state(world, buyer, "called")
    return buyers


async def test_two_who_are_called_and_claim_at_once_are_both_let_in_without_asking_again(
    settings: Settings, pool: Pool
) -> None:
    async with line_world(settings, pool) as world:
        await world.put(method="fifo", rate_per_minute=60)
        buyers = await called(world, 2)
        answers = await asyncio.gather(*(world.claim(buyer) for buyer in buyers))
        assert [answer.status_code for answer in answers] == [201, 201]


async def test_more_than_two_seconds_of_the_rate_let_in_are_told_to_come_back_at_once(
    settings: Settings, pool: Pool
) -> None:
    async with line_world(settings, pool) as world:
        await world.put(method="fifo", rate_per_minute=60)
        buyers = await called(world, 6)
        since = time.monotonic()
        sent = [asyncio.create_task(world.claim(buyer)) for buyer in buyers]
        answers = [await answer for answer in asyncio.as_completed(sent)]
        codes = [answer.status_code for answer in answers]
        print(f"answered {codes} within {time.monotonic() - since:.1f} s")
        assert codes.count(201) >= 2
        assert codes.count(202) >= 2
        refused = [answer for answer in answers if answer.status_code == 202]
        assert {(answer.json()["reason"], answer.headers["Retry-After"]) for answer in refused} <= {
            ("rate", "1"),
            ("rate", "2"),
        }
        assert codes.index(202) < len(codes) - 1 - codes[::-1].index(201), "nobody waits to hear that they must wait"


async def test_whoever_hangs_up_while_held_takes_no_slot(settings: Settings, pool: Pool) -> None:
    async with line_world(settings, pool) as world, redis.Redis.from_url(settings.redis_url) as memory:
        await world.put(method="fifo", rate_per_minute=60)
        first, second = await called(world, 2)
        assert (await world.claim(first)).status_code == 201

        async def shown() -> bool:
            return await memory.zscore("{onsale}:extended", second.ticket_id) is not None

        async with httpx.AsyncClient(base_url=world.url, trust_env=False) as browser:
            claim = asyncio.create_task(browser.post("/rooms/onsale/passes", headers=second.headers))
            await until(shown, "the claim is held")
            claim.cancel()
            await asyncio.wait([claim])

        async def token_is_there() -> bool:
            return bool(await memory.hget("{onsale}:line", "bucket") == b"1")

        await until(token_is_there, "the token that it waited for is there, and nobody has taken it")
        assert await memory.hget("{onsale}:line", "admitted") == b"1"
        assert (await world.claim(second)).status_code == 201, "its turn has waited"


async def test_a_claim_is_asked_again_for_as_long_as_it_may_be_held_and_no_longer() -> None:
    patient, door = HeldClaims(Door(2, 0.01).send), Door(1_000, 0.3)
    assert await patient.claim(HANDLE, "a", 1, 60_000, never) == GRANTED
    since = time.monotonic()
    assert await HeldClaims(door.send).claim(HANDLE, "b", 1, 60_000, never) == Delayed("rate", 0.3)
    assert time.monotonic() - since < HELD_MS_MAX / 1000
    assert 2 <= len(door.asked) <= 1 + HELD_MS_MAX / 300
    long = Door(1_000, HELD_MS_MAX / 1000 + 0.1)
    await HeldClaims(long.send).claim(HANDLE, "c", 1, 60_000, never)
    assert long.asked == ["c"]


async def test_no_more_are_held_than_fit_and_each_ticket_once() -> None:
    gone = asyncio.Event()
    door = Door(2, HELD_MS_MAX / 1000 - 0.5)
    claims = HeldClaims(door.send, held_max=3)
    asked = [
        asyncio.create_task(claims.claim(HANDLE, ticket, 1, 60_000, gone.wait)) for ticket in ("a", "a", "b", "c", "d")
    ]

    async def answered() -> bool:
        return [task.done() for task in asked] == [False, True, False, False, True]

    await until(answered, "the repeat and the fourth are answered at once")
    gone.set()
    assert {type(answer) for answer in await asyncio.gather(*asked)} == {Delayed}
    assert sorted(door.asked) == ["a", "a", "b", "c", "d"], "nobody who was gone was asked for again"
    door.wait_seconds = 0.01
    assert await claims.claim(HANDLE, "e", 1, 60_000, never) == GRANTED, "their places are free again"


async def test_a_held_crowd_asks_about_once_each() -> None:
    """Each waits for a token of its own: were all to wait for the next one, every token would cost a call for each of them."""
    door = Door(1, 0.001)
    claims = HeldClaims(door.send)
    crowd = [claims.claim(HANDLE, str(number), number, 6_000, never) for number in range(1, 150)]
    since = time.monotonic()
    assert set(await asyncio.gather(*crowd)) == {GRANTED}
    assert time.monotonic() - since >= 148 / 100
    assert len(door.asked) == 2 * 149


@given(st.lists(st.tuples(st.integers(0, 500), st.integers(1, 500)), min_size=1), st.integers(1, 1_000))
def test_held_claims_wait_for_one_token_each(moves: list[tuple[int, int]], spacing: int) -> None:
    tokens, now, dues = DueTokens(), 0.0, []
    for pause, wait in moves:
        now += pause
        tokens.last = tokens.next_due(now, wait, spacing)
        dues.append(tokens.last)
        assert dues[-1] >= now + wait
    assert all(later - sooner >= spacing for sooner, later in pairwise(dues))


def test_a_token_that_is_a_moment_late_is_waited_for_and_so_are_those_behind_it() -> None:
    tokens = DueTokens()
    tokens.last = tokens.next_due(0, 1_000, 1_000)
    assert (tokens.due_again(1_000, 15, 1_000), tokens.last) == (1_015, 1_015)
    assert tokens.next_due(1_000, 15, 1_000) == 2_015
    assert tokens.due_again(1_015, 900, 1_000) == 2_015, "somebody else took it: the next that nobody waits for"
