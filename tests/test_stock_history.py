"""The ledger as the only history: numbers without gaps in the order of causes, what was at a moment, and what befell a hold."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from uuid import UUID

import orjson
import pytest

from chassis.database import Connection, Pool
from chassis.problems import Problem
from counters.functions import verbs_schema
from counters.history import History
from counters.rules import Done, Line, Oversell, Refused, SaleName
from counters.store import Sku
from counters.stories import Story
from tests.stock_world import Held, World, codes, held

WRITE = """
    INSERT INTO stock.ledger (sku_id, operation_id, verb, shard, actor, reason)
    VALUES ($1, uuidv7(), 'restate', 0, 'test', $2)"""


@pytest.fixture
def world(pool: Pool) -> World:
    return World(pool)


@pytest.fixture
def history(pool: Pool) -> History:
    return History(pool)


@contextlib.asynccontextmanager
async def moving(world: World, sku: Sku, *reasons: str) -> AsyncIterator[Connection]:
    """A transaction that has written ledger rows and has not ended."""
    async with world.pool.acquire() as connection:
        await connection.execute("BEGIN")
        await connection.execute("SELECT pg_current_xact_id()")  # as every verb has one, by the rows that it locked
        for reason in reasons:
            await connection.execute(WRITE, sku.id, reason)
        yield connection


async def numbered(world: World, sku: Sku) -> list[tuple[int, str | None]]:
    rows = await world.pool.fetch(
        "SELECT known.number, entry.reason FROM stock.ledger_numbers AS known JOIN stock.ledger AS entry"
        " ON entry.sku_id = known.sku_id AND entry.id = known.ledger_id WHERE known.sku_id = $1 ORDER BY 1",
        sku.id,
    )
    return [(row["number"], row["reason"]) for row in rows]


async def settled(world: World, sku: Sku) -> int:
    found = await world.pool.fetchval("SELECT settled_id FROM stock.sequencers WHERE sku_id = $1", sku.id)
    return int(found)


async def test_a_move_that_commits_late_is_numbered_next_and_no_number_is_left_out(
    world: World, history: History
) -> None:
    sku = await world.fungible(shards=1)
    async with moving(world, sku, "late") as late:
        async with moving(world, sku, "never") as never:
            async with moving(world, sku, "early") as early:
                await early.execute("COMMIT")
            await never.execute("ROLLBACK")
        for _ in range(3):
            await history.number(sku.id, 100)
        assert await numbered(world, sku) == [(1, None), (2, "early")]
        smallest = await late.fetchval("SELECT min(id) FROM stock.ledger WHERE reason = 'late'")
        assert await settled(world, sku) < smallest, "what may still turn up is not settled"
        await late.execute("COMMIT")
    await history.number(sku.id, 100)
    assert await numbered(world, sku) == [(1, None), (2, "early"), (3, "late")]
    await history.number(sku.id, 100)
    assert await history.unsettled() == []
    assert (await history.number(sku.id, 100)).rows == 0


async def test_a_pass_is_bounded_and_says_that_more_is_due(world: World, history: History) -> None:
    sku = await world.fungible(shards=1)
    for number in range(6):
        await world.pool.execute(WRITE, sku.id, str(number))
    passes = [await history.number(sku.id, 3) for _ in range(4)]
    assert [(one.rows, one.more) for one in passes] == [(3, True), (3, True), (1, False), (0, False)]
    assert [reason for _, reason in await numbered(world, sku)] == [None, *"012345"]


async def test_a_pass_that_dies_half_way_leaves_nothing_behind(world: World, history: History) -> None:
    sku = await world.fungible(shards=1)
    async with world.pool.acquire() as connection:
        await connection.execute("BEGIN")
        await connection.execute(f"SELECT * FROM {verbs_schema()}.number_ledger($1, 100)", sku.id)
        assert (await history.number(sku.id, 100)).rows == 0, "a second pass at once numbers nothing"
        await connection.execute("ROLLBACK")
    assert (await history.number(sku.id, 100)).rows == 1
    assert await numbered(world, sku) == [(1, None)]


async def test_two_sequencers_beside_running_moves_number_each_row_once_and_causes_first(
    world: World, history: History
) -> None:
    sku = await world.fungible(total=400, shards=4)
    done = asyncio.Event()

    async def sequence() -> None:
        while not done.is_set() or await history.unsettled():
            await history.number(sku.id, 7)

    async def buy() -> None:
        for _ in range(10):
            hold = await world.hold()
            assert codes([await world.confirm(hold)]) == ["done"]

    sequencers = asyncio.gather(sequence(), sequence())
    await asyncio.gather(*(buy() for _ in range(5)))
    done.set()
    await sequencers
    entries = await history.entries(sku.id, 0, 1_000)
    assert [entry.number for entry in entries] == list(range(1, len(entries) + 1))
    assert len(entries) == await world.pool.fetchval("SELECT count(*) FROM stock.ledger WHERE sku_id = $1", sku.id)
    reserved = {entry.hold_id: entry.number for entry in entries if entry.verb == "reserve"}
    sold = {entry.hold_id: entry.number for entry in entries if entry.verb == "confirm"}
    assert len(reserved) == len(sold) == 50
    assert all(reserved[hold] < number for hold, number in sold.items()), "an effect stands before its cause"


@pytest.mark.parametrize("statistics", ["fresh", "none"])
async def test_numbering_reads_only_what_is_not_settled(world: World, history: History, statistics: str) -> None:
    sku = await world.fungible(shards=1)
    await world.pool.execute(
        "INSERT INTO stock.ledger (sku_id, operation_id, verb, shard, actor)"
        " SELECT $1, uuidv7(), 'restate', 0, 'test' FROM generate_series(1, 20000)",
        sku.id,
    )
    while await history.unsettled():
        await history.number(sku.id, 10_000)
    if statistics == "fresh":
        await world.pool.execute("ANALYZE stock.ledger, stock.ledger_numbers")
    await world.pool.execute(WRITE, sku.id, "new")
    async with world.pool.acquire() as connection:
        scanned, found = await rows_read(connection)
        assert await connection.fetchval(f"SELECT numbered FROM {verbs_schema()}.number_ledger($1, 100)", sku.id) == 1
        assert (await rows_read(connection))[0] == scanned, "it read a table from end to end"
        assert (await rows_read(connection))[1] - found < 100, "it read what was settled"


async def rows_read(connection: Connection) -> tuple[int, int]:
    """Rows that this connection has read of the ledger and its numbers: from end to end, and by index."""
    await connection.execute("SELECT pg_stat_force_next_flush()")
    rows = await connection.fetch(
        "SELECT seq_tup_read, idx_tup_fetch FROM pg_stat_user_tables WHERE relname IN ('ledger', 'ledger_numbers')"
    )
    return sum(row["seq_tup_read"] for row in rows), sum(row["idx_tup_fetch"] for row in rows)


async def test_what_was_at_a_moment_is_replayed_from_the_ledger(world: World, history: History) -> None:
    sku = await world.fungible(total=10)
    moments: list[datetime] = []

    async def mark() -> None:
        moments.append(await world.pool.fetchval("SELECT clock_timestamp()"))

    await mark()
    hold = await world.hold(quantity=3)
    await mark()
    assert codes([await world.confirm(hold)]) == ["done"]
    await world.hold(quantity=2)
    await mark()
    figures = [await history.as_of(sku, at) for at in moments]
    assert [(at.held, at.sold, at.available) for at in figures] == [(0, 0, 10), (3, 0, 7), (2, 3, 5)]
    (level,) = await world.stock.levels(["ticket"])
    assert (level.held, level.sold, level.available) == (figures[-1].held, figures[-1].sold, figures[-1].available)


async def test_seats_at_a_moment_leave_out_those_that_are_blocked(world: World, history: History) -> None:
    hall = await world.seated(rows=1, seats=5)
    await world.pool.execute("UPDATE stock.seats SET state = 'blocked' WHERE seat = 'A-5'")
    await world.pool.execute(
        "INSERT INTO stock.ledger (sku_id, operation_id, verb, shard, seats, seat_state, actor)"
        " VALUES ($1, uuidv7(), 'repair', -1, '{A-5}', 'blocked', 'test')",
        hall.id,
    )
    held(await world.reserve(Line("hall", seats=("A-1", "A-2"))))
    now: datetime = await world.pool.fetchval("SELECT clock_timestamp()")
    figures = await history.as_of(hall, now)
    assert (figures.total, figures.held, figures.sold, figures.available) == (5, 2, 0, 2)
    (level,) = await world.stock.levels(["hall"])
    assert level.available == figures.available


@pytest.mark.parametrize("offset", [timedelta(hours=1), timedelta(hours=-1)])
async def test_a_moment_to_come_or_before_there_was_the_sku_is_refused(
    world: World, history: History, offset: timedelta
) -> None:
    sku = await world.fungible()
    with pytest.raises(Problem) as refused:
        await history.as_of(sku, datetime.now(UTC) + offset)
    assert refused.value.code == "invalid"
    assert "as_of" in refused.value.detail


async def told(history: History, hold: Held) -> Story:
    story = await history.story(hold.name)
    assert story is not None
    return story


async def test_a_holds_story_tells_who_did_what_when_and_what_it_answers_now(world: World, history: History) -> None:
    await world.fungible(total=10)
    hold = await world.hold(quantity=2, buyer="ada", actor="shop:box")
    await world.stock.extend(hold.name, hold.fence, "shop:box", 600)
    await world.stock.start_payment(hold.name, hold.fence, "shop:box", None)
    assert codes([await world.confirm(hold)]) == ["done"]
    story = await told(history, hold)
    sentences = [event.what for event in story.events]
    until = str(hold.document["expires_at"])[11:19]
    assert sentences[0].startswith(f"reserved by shop:box for ada: 2 × ticket, until {until}")
    assert sentences[1].startswith("extended (once): its deadline became ")
    assert sentences[2].startswith("its payment started: it waits for it until ")
    assert sentences[3] == f"sold to the buyer as shop:box said, sale {story.sale}: 2 × ticket"
    assert (story.state, len(sentences)) == ("sold", 4)
    assert "hold-sold" in story.now_answers


@pytest.mark.parametrize("swept", [False, True])
async def test_a_story_says_that_the_deadline_passed_swept_or_not(world: World, history: History, swept: bool) -> None:
    await world.fungible()
    hold = await world.hold()
    await world.pool.execute("UPDATE stock.holds SET expires_at = clock_timestamp()")
    if swept:
        await world.stock.expire_due()
    story = await told(history, hold)
    assert story.state == "expired"
    assert story.events[1].what == "its deadline passed: its units are free for others"
    assert [event.what for event in story.events[2:]] == (
        ["ended by sweep because its deadline had passed: 1 × ticket went back to stock"] if swept else []
    )
    assert "hold-expired" in story.now_answers


async def test_a_carts_release_is_one_event_with_all_its_units(world: World, history: History) -> None:
    await world.fungible()
    await world.seated()
    cart = held(await world.reserve(Line("ticket", 2), Line("hall", seats=("A-1", "A-2", "A-3"))))
    await world.stock.release(cart.name, cart.fence, "shop:box")
    story = await told(history, cart)
    assert [event.what.partition(", until")[0] for event in story.events] == [
        "reserved by shop:box: 2 × ticket, 3 × hall",
        "released by shop:box: 2 × ticket, 3 × hall went back to stock",
    ]


async def test_there_is_no_story_of_a_hold_that_never_was(world: World, history: History) -> None:
    await world.fungible()
    hold = await world.hold()
    await world.pool.execute("DELETE FROM stock.hold_parts")
    await world.pool.execute("DELETE FROM stock.holds")
    assert await history.story(hold.name) is None


async def test_a_part_sold_taken_again_and_cancelled_is_told_step_by_step(world: World, history: History) -> None:
    sku = await world.fungible(total=10)
    hold = await world.hold(quantity=3)
    await world.expire()
    await world.stock.expire_due()
    sale = orjson.loads(done(await world.confirm(hold, reacquire=True, lines=(Line("ticket", 2),))).document)
    sale_id = UUID(sale["id"])
    await world.stock.cancel(SaleName(sale_id, sku.id), "shop:box", "the buyer asked")
    story = await told(history, hold)
    told_of = [event.what for event in story.events if event.by is not None]
    assert told_of[1:] == [
        "ended by sweep because its deadline had passed: 3 × ticket went back to stock",
        "taken again for shop:box after it had expired: 2 × ticket, under a new fence",
        f"sold to the buyer as shop:box said, sale {sale_id}: 2 × ticket",
        "its sale was cancelled by shop:box: 2 × ticket went back to stock (the buyer asked)",
    ]
    assert (story.state, story.sale) == ("cancelled", sale_id)
    figures = await history.as_of(sku, await world.pool.fetchval("SELECT clock_timestamp()"))
    assert (figures.held, figures.sold, figures.available) == (0, 0, 10)
    assert await world.faults() == []


async def test_a_payment_that_nobody_knows_of_is_told_to_wait_for_a_person(world: World, history: History) -> None:
    await world.fungible()
    hold = await world.hold()
    await world.stock.start_payment(hold.name, hold.fence, "shop:box", None)
    await world.stock.resolve(hold.name, "unknown", overdue_only=False, actor="reconciler", reason=None)
    story = await told(history, hold)
    assert story.events[-1].what == "nobody could say whether it was paid: it waits for a person"
    assert story.now_answers.startswith("Its payment is under way until ")
    await world.stock.resolve(hold.name, "unpaid", overdue_only=False, actor="operator:ada", reason="bank")
    story = await told(history, hold)
    assert story.events[-1].what == "released by operator:ada: 1 × ticket went back to stock (bank)"


async def test_units_beyond_the_stock_are_told_as_promised_beyond_it(world: World, history: History) -> None:
    await world.fungible(total=2, oversell=Oversell("bounded", 3))
    hold = await world.hold(quantity=4)
    assert (await told(history, hold)).events[0].what.endswith("; 2 of them are promised beyond the stock")


def done(outcome: Done | Refused) -> Done:
    assert isinstance(outcome, Done), outcome
    return outcome
