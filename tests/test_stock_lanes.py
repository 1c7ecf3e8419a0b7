"""Lanes: who queued is served together, in order, once; and what happens when a statement fails as a whole."""

import asyncio
import contextlib
import os
import secrets
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass
from uuid import UUID, uuid4

import asyncpg
import orjson
import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chassis.database import Pool, make_pool
from chassis.problems import Problem
from chassis.settings import Settings
from counters.batching import Group, Queue
from counters.ids import new_hold_id, new_operation_id
from counters.lanes import Lane, LaneSettings
from counters.rules import Done, Keyed, Line, Refused
from counters.store import Stock
from tests.fault_proxy import FaultProxy
from tests.line_world import until
from tests.stock_world import World, codes


@dataclass(frozen=True, slots=True)
class Waiter:
    group: Group
    unit: UUID
    since: float


@pytest.fixture
def world(pool: Pool) -> World:
    return World(pool)


@contextlib.asynccontextmanager
async def behind_proxy(settings: Settings) -> AsyncIterator[tuple[World, FaultProxy]]:
    """A world whose database answers through a proxy that can lose answers."""
    async with FaultProxy(settings.database_url) as proxy:
        async with make_pool(settings.model_copy(update={"database_url": proxy.url})) as pool:
            yield World(pool), proxy


def test_the_group_whose_first_member_waited_longest_goes_next_in_the_order_of_arrival() -> None:
    queue: Queue[Waiter] = Queue()
    early, late = Group("reserve", 2), Group("reserve", 1)
    waiters = [Waiter(early if place % 3 else late, uuid4(), float(place + 1)) for place in range(9)]
    first = Waiter(early, uuid4(), 0.5)
    for waiter in [first, *waiters]:
        queue.add(waiter)
    assert queue.take(3) == [first, waiters[1], waiters[2]]
    assert queue.take(9) == [waiters[0], waiters[3], waiters[6]]
    assert queue.take(9) == [waiters[4], waiters[5], waiters[7], waiters[8]]
    assert queue.take(9) == [] and len(queue) == 0


def test_a_duplicate_waits_for_the_next_statement() -> None:
    queue: Queue[Waiter] = Queue()
    group, unit = Group("confirm", 1), uuid4()
    one, again, other = (Waiter(group, unit, 1.0), Waiter(group, unit, 2.0), Waiter(group, uuid4(), 3.0))
    for waiter in (one, again, other):
        queue.add(waiter)
    assert queue.take(9) == [one, other]
    assert queue.take(9) == [again]


GROUPS = (Group("reserve", 1), Group("release", 1), Group("reserve", 2))


@given(
    others=st.lists(st.sampled_from(GROUPS), max_size=40),
    repeats=st.integers(0, 60),
    early=st.integers(0, 40),
    most=st.integers(2, 8),
)
def test_repeats_of_one_unit_cost_everybody_else_two_statements_at_most(
    others: list[Group], repeats: int, early: int, most: int
) -> None:
    """However many they are, whoever comes between them, and whatever they ask for; and they are all heard themselves."""
    strangers = [Waiter(group, uuid4(), 0.0) for group in others]
    unit = uuid4()
    same = [Waiter(GROUPS[0], unit, float(place)) for place in range(1 + repeats)]
    alone, together = Queue[Waiter](), Queue[Waiter]()
    for waiter in strangers:
        alone.add(waiter)
    for waiter in [*strangers[:early], *same, *strangers[early:]]:
        together.add(waiter)
    takes = [together.take(most) for _ in range(len(strangers) + len(same))]
    served = [waiter for take in takes for waiter in take]
    assert sorted(map(id, served)) == sorted(map(id, [*strangers, *same])) and len(together) == 0
    for group in GROUPS:
        assert [one for one in served if one in strangers and one.group == group] == [
            one for one in strangers if one.group == group
        ], "in the order of their arrival"
    assert [one for one in served if one.unit == unit] == same
    patience = sum(1 for _ in iter(lambda: alone.take(most), [])) + 2
    assert not [one for take in takes[patience:] for one in take if one in strangers]
    assert len([take for take in takes if take]) <= patience + -(-repeats // most), "repeats share statements too"


def test_who_comes_while_repeats_wait_comes_before_most_of_them() -> None:
    queue: Queue[Waiter] = Queue()
    unit = uuid4()
    for place in range(50):
        queue.add(Waiter(GROUPS[0], unit, float(place)))
    assert len(queue.take(5)) == 1
    for _ in range(9):
        late = Waiter(GROUPS[2], uuid4(), 99.0)
        queue.add(late)
        assert [len(queue.take(5)), queue.take(5)] == [5, [late]]


def test_a_take_is_never_empty_while_somebody_waits() -> None:
    queue: Queue[Waiter] = Queue()
    unit = uuid4()
    same = [Waiter(GROUPS[0], unit, float(place)) for place in range(20)]
    for waiter in same[:18]:
        queue.add(waiter)
    served = queue.take(3) + queue.take(3)
    for waiter in same[18:]:
        queue.add(waiter)  # a line of nothing but repeats of repeats that wait
    while len(queue):
        take = queue.take(3)
        assert take
        served += take
    assert served == same


def test_who_leaves_the_queue_is_gone_and_the_others_stay_in_order() -> None:
    queue: Queue[Waiter] = Queue()
    waiters = [Waiter(Group("release", place % 2), uuid4(), float(place)) for place in range(6)]
    for waiter in waiters:
        queue.add(waiter)
    assert sorted(waiter.since for waiter in queue.remove(lambda waiter: waiter.since < 3)) == [0, 1, 2]
    assert len(queue) == 3
    assert queue.take(9) + queue.take(9) == [waiters[3], waiters[5], waiters[4]]


async def test_on_an_idle_system_a_reserve_is_one_round_trip(settings: Settings) -> None:
    async with behind_proxy(settings) as (world, proxy):
        await world.fungible(total=100)
        for _ in range(5):  # connections that have learnt our types
            await world.hold()
        before = proxy.statements
        await world.hold()
        assert proxy.statements - before == 2, "one statement for the reserve, one by which the test finds the SKU"


async def test_those_who_queue_meanwhile_share_the_next_statement(settings: Settings) -> None:
    async with behind_proxy(settings) as (world, proxy):
        sku = await world.fungible(total=1000, shards=4)
        assert sku.id
        before = proxy.statements
        outcomes = await asyncio.gather(*(world.reserve(Line("ticket", 1)) for _ in range(300)))
        assert codes(outcomes) == ["done"] * 300
        assert proxy.statements - before - 300 < 30, "300 look the SKU up; the reserves share a few statements"


@pytest.mark.parametrize("verb", ["release", "extend", "start_payment", "confirm", "reserve"])
async def test_a_crowd_that_repeats_one_call_keeps_no_buyer_of_another_sku_waiting(
    settings: Settings, verb: str
) -> None:
    async with behind_proxy(settings) as (world, proxy):
        await world.fungible("a", total=5_000, shards=4, extensions_max=1)
        await world.fungible("b", total=50, shards=4)
        stock = Stock(world.pool, LaneSettings(lanes=1, queue_max=5_000))
        one = await world.hold("a")
        wanted = await world.reservation(Line("a", 1), key="the same")
        keyed = Keyed("shop:box:confirm", "the same", b"f")
        calls: dict[str, Callable[[], Coroutine[object, object, Done | Refused]]] = {
            "release": lambda: stock.release(one.name, one.fence, "shop:box"),
            "extend": lambda: stock.extend(one.name, one.fence, "shop:box", 400),
            "start_payment": lambda: stock.start_payment(one.name, one.fence, "shop:box", None),
            "confirm": lambda: stock.confirm(one.name, one.fence, "shop:box", keyed),
            "reserve": lambda: stock.reserve(wanted),
        }
        others = [await world.reservation(Line("b", 1)) for _ in range(10)]
        before = proxy.statements
        crowd = [asyncio.create_task(calls[verb]()) for _ in range(1_600)]
        buying = [asyncio.create_task(stock.reserve(other)) for other in others]
        assert codes(await asyncio.gather(*buying)) == ["done"] * 10
        heard = Counter(codes(await asyncio.gather(*crowd)))
        again = {"extend": "extension-limit", "confirm": "replayed", "reserve": "replayed"}.get(verb, "done")
        assert heard in ({again: 1_600}, {"done": 1, again: 1_599})
        assert proxy.statements - before <= 20, "1,600 repeats share a few statements"
        assert await world.counts("b") == (40, 10, 0)
        assert await world.faults() == []


async def test_answers_lost_after_the_commit_are_found_again_and_nobody_gets_two(settings: Settings) -> None:
    async with behind_proxy(settings) as (world, proxy):
        await world.fungible(total=200, shards=4)
        await world.hold()
        lines = [Line("ticket", 1)] * 100
        reserving = [asyncio.create_task(world.reserve(line)) for line in lines]
        await until_statement(proxy, 101)
        proxy.lose_answers(2)
        outcomes = await asyncio.gather(*reserving)
        assert codes(outcomes) == ["done"] * 100, "the first answer, not a replay: these callers never had one"
        assert len({orjson.loads(outcome.document)["id"] for outcome in outcomes if isinstance(outcome, Done)}) == 100
        assert await world.counts() == (99, 101, 0)
        assert await world.faults() == []


async def until_statement(proxy: FaultProxy, count: int) -> None:
    """Wait until the proxy has seen `count` statements more: all have looked their SKU up."""
    seen = proxy.statements

    async def passed() -> bool:
        return proxy.statements >= seen + count - 1

    await until(passed, "the SKUs were looked up")


async def test_a_bad_member_fails_alone(world: World) -> None:
    """Its lines are no JSON, so the statement fails as a whole whenever it is in it."""
    sku = await world.fungible(total=100)
    lane = Lane(world.pool, LaneSettings())

    def arguments(lines: str) -> tuple[object, ...]:
        slot = uuid4()
        return (
            new_hold_id(sku.id), slot, b"f", 0, 1, lines, None, "shop:box", None, None, new_operation_id(),
        )  # fmt: skip

    texts = ['[{"sku":"ticket","quantity":1}]'] * 20
    texts[7] = "no JSON"
    answers = await asyncio.gather(
        *(lane.ask("reserve", sku.id, uuid4(), arguments(text)) for text in texts), return_exceptions=True
    )
    assert isinstance(answers[7], asyncpg.DataError)
    # All go to the first sub-counter, which has 25 units.
    assert [getattr(answer, "outcome", "none") for place, answer in enumerate(answers) if place != 7] == [
        "granted"
    ] * 19
    assert await world.counts() == (81, 19, 0)
    assert await world.faults() == []


async def test_members_are_granted_in_the_order_of_their_arrival(world: World) -> None:
    await world.fungible(total=10, shards=1)
    stock = Stock(world.pool, LaneSettings(lanes=1))
    wanted = [await world.reservation(Line("ticket", 3)) for _ in range(5)]
    outcomes = await asyncio.gather(*(stock.reserve(one) for one in wanted))
    assert codes(outcomes) == ["done", "done", "done", "insufficient-stock", "insufficient-stock"]
    facts = [outcome.facts["available"] for outcome in outcomes if isinstance(outcome, Refused)]
    assert facts == [1, 1]


async def test_duplicates_in_one_batch_and_in_two_workers_are_one_hold(world: World) -> None:
    await world.fungible(total=100, shards=8)
    other = World(world.pool)
    outcomes = await asyncio.gather(
        *(worker.reserve(Line("ticket", 2), key="twice") for worker in (world, other) for _ in range(20))
    )
    assert sorted(set(codes(outcomes))) == ["done", "replayed"]
    assert codes(outcomes).count("done") == 1
    assert len({outcome.document for outcome in outcomes if isinstance(outcome, Done)}) == 1
    assert await world.counts() == (98, 2, 0)


async def test_a_key_reused_in_the_same_batch_is_refused_and_takes_nothing(world: World) -> None:
    await world.fungible(total=100)
    outcomes = await asyncio.gather(
        world.reserve(Line("ticket", 1), key="k"), world.reserve(Line("ticket", 2), key="k")
    )
    assert codes(outcomes) == ["done", "key-reused"]
    assert await world.counts() == (99, 1, 0)


async def test_a_full_lane_says_busy_and_when_to_come_back(world: World) -> None:
    sku = await world.fungible(total=100, shards=1)
    stock = Stock(world.pool, LaneSettings(lanes=1, batch_max=5, queue_max=10))
    small = World(world.pool, stock)
    async with world.pool.acquire() as connection, connection.transaction():
        await connection.execute("SELECT 1 FROM stock.sub_counters WHERE sku_id = $1 FOR UPDATE", sku.id)
        tasks = [asyncio.create_task(small.reserve_once(Line("ticket", 1))) for _ in range(30)]
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        problem = done.pop().exception()
        assert isinstance(problem, Problem)
        assert (problem.code, problem.headers["Retry-After"]) == ("busy", "1")
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    granted = [outcome for outcome in outcomes if isinstance(outcome, Done)]
    assert len(granted) >= 11, "the one in the statement and those in the queue"
    assert len(granted) + sum(isinstance(outcome, Problem) for outcome in outcomes) == 30
    assert await world.counts() == (100 - len(granted), len(granted), 0)


async def test_a_duplicate_of_one_that_is_stuck_hears_so_within_a_bounded_time(world: World) -> None:
    sku = await world.fungible(total=10, shards=1)
    async with world.pool.acquire() as connection, connection.transaction():
        await connection.execute("SELECT 1 FROM stock.sub_counters WHERE sku_id = $1 FOR UPDATE", sku.id)
        first = asyncio.create_task(world.reserve(Line("ticket", 1), key="slow"))
        await until(lambda: stands(world), "the first one waits")
        with pytest.raises(Problem) as refused:
            await world.reserve_once(Line("ticket", 1), key="slow")
        assert refused.value.code == "key-in-flight"
        assert refused.value.headers["Retry-After"] == "1"
    assert codes([await first]) == ["done"]
    assert codes([await world.reserve(Line("ticket", 1), key="slow")]) == ["replayed"]


async def stands(world: World) -> bool:
    """Whether a statement waits for a lock."""
    return bool(
        await world.pool.fetchval(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
    )


STOPPED_CLIENT = """
import asyncio, os, signal, sys
from uuid import UUID
import asyncpg

async def main(url, statement, sku, hold, slot, operation):
    connection = await asyncpg.connect(url)
    call = await connection.prepare(statement)
    sending = asyncio.ensure_future(call.fetch(
        sku, [UUID(hold)], [UUID(slot)], [b"f"], [0], [1], ['[{"sku":"ticket","quantity":1}]'], [None], ["shop:box"], [None],
        [None], [UUID(operation)]))
    await asyncio.sleep(0)
    os.kill(os.getpid(), signal.SIGSTOP)
    await sending

asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), *sys.argv[4:]))
"""


async def test_a_client_stopped_in_the_middle_of_a_verb_blocks_nobody(world: World, database_url: str) -> None:
    from counters.calls import statement

    sku = await world.fungible(total=10, shards=1)
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", STOPPED_CLIENT, database_url, statement("reserve", 12), str(sku.id),
        str(new_hold_id(sku.id)), str(uuid4()), str(new_operation_id()),
    )  # fmt: skip
    try:

        async def stopped() -> bool:
            return psutil.Process(child.pid).status() == psutil.STATUS_STOPPED

        await until(stopped, "the client is stopped")
        outcomes = await asyncio.gather(*(world.reserve(Line("ticket", 1), key=secrets.token_hex(4)) for _ in range(9)))
        assert codes(outcomes) == ["done"] * 9
        os.kill(child.pid, signal.SIGCONT)
        assert await child.wait() == 0
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    assert await world.counts() == (0, 10, 0)
    assert await world.faults() == []
