"""Named meetings of two connections: each is brought to the very point where the other has acted but not committed."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine
from typing import Any
from uuid import UUID

import msgspec
import orjson
import pytest

from chassis.database import Connection, Pool
from counters.functions import verbs_schema
from counters.ids import new_hold_id, new_operation_id, new_sale_id, sku_of_hold
from counters.rules import Done, Keyed, Line, Refused, SaleName
from tests.line_world import until
from tests.stock_world import Held, World, codes, held, reserve_key


@pytest.fixture
def world(pool: Pool) -> World:
    return World(pool)


class First:
    """A transaction of somebody who came first and has not committed yet."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    async def call(self, verb: str, *arguments: object) -> str:
        """The outcome of a verb inside the open transaction."""
        places = ", ".join(f"${place + 1}" for place in range(len(arguments)))
        row = await self.connection.fetchrow(f"SELECT * FROM {verbs_schema()}.{verb}({places})", *arguments)
        assert row is not None
        return str(row.get("outcome", row[0]))

    async def reserve(self, sku: int, key: str, quantity: int = 1) -> str:
        """A reserve from the first sub-counter, the body and scope as World asks."""
        keyed = reserve_key(Line("ticket", quantity), key=key)
        return await self.call(
            "reserve", sku, [new_hold_id(sku)], [keyed.slot], [keyed.fingerprint], [0], [quantity],
            [f'[{{"sku":"ticket","quantity":{quantity}}}]'], [None], ["shop:box"], [None], [None], [new_operation_id()],
        )  # fmt: skip

    async def confirm(self, hold: Held) -> str:
        """A confirm of the whole hold by its shop."""
        return await self.call(
            "confirm", hold.name.sku_id, [hold.name.id], [hold.fence], ["shop:box"], [new_operation_id()], [b"f"],
            [new_operation_id()], [new_sale_id(hold.name.sku_id)],
        )  # fmt: skip

    async def release(self, hold: Held) -> str:
        """A release by the hold's shop."""
        return await self.call("release", hold.name.sku_id, [hold.name.id], [hold.fence], ["shop:box"])

    async def one(self, verb: str, hold: Held, lines: str | None = None) -> str:
        """A confirm of a part, or a reacquire, by the hold's shop."""
        return await self.call(
            verb, hold.name.sku_id, hold.name.id, hold.fence, "shop:box", lines, keyed_again(hold).slot, b"f",
            new_operation_id(), new_sale_id(hold.name.sku_id),
        )  # fmt: skip

    async def extend(self, hold: Held, seconds: int) -> str:
        """An extension by the hold's shop."""
        return await self.call(
            "extend", hold.name.sku_id, [hold.name.id], [hold.fence], ["shop:box"], [seconds], [new_operation_id()]
        )


@contextlib.asynccontextmanager
async def first(world: World, *, commit: bool = True) -> AsyncIterator[First]:
    """An open transaction that ends with the block: committed, or undone."""
    async with world.pool.acquire() as connection:
        transaction = connection.transaction()
        await transaction.start()
        try:
            yield First(connection)
        finally:
            await (transaction.commit() if commit else transaction.rollback())


async def waits(world: World, call: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
    """Start `call` and return once it stands in Postgres and waits for a lock."""
    task = asyncio.create_task(call)

    async def stands() -> bool:
        assert not task.done(), f"did not wait: {task.result()}"
        return bool(
            await world.pool.fetchval(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
            )
        )

    await until(stands, "the second one waits for the first")
    return task


async def due(world: World, hold: Held) -> None:
    """Wait until the hold is past the deadline that others still see."""

    async def passed() -> bool:
        return bool(
            await world.pool.fetchval(
                "SELECT expires_at <= clock_timestamp() FROM stock.holds WHERE id = $1", hold.name.id
            )
        )

    await until(passed, "the hold is due")


async def ends_soon(world: World, hold: Held) -> None:
    await world.pool.execute(
        "UPDATE stock.holds SET expires_at = clock_timestamp() + interval '300 ms' WHERE id = $1", hold.name.id
    )


@pytest.mark.parametrize(("commit", "word"), [(True, "sold-out"), (False, "done")])
async def test_the_tail_waits_for_an_uncommitted_reserve_before_it_refuses(
    world: World, commit: bool, word: str
) -> None:
    sku = await world.fungible(total=1, shards=1)
    async with first(world, commit=commit) as other:
        assert await other.reserve(sku.id, "theirs") == "granted"
        second = await waits(world, world.reserve(Line("ticket", 1)))
    assert codes([await second]) == [word]
    assert await world.faults() == []


@pytest.mark.parametrize(("commit", "word"), [(True, "replayed"), (False, "done")])
async def test_a_duplicate_waits_for_its_first_and_gets_its_answer(world: World, commit: bool, word: str) -> None:
    sku = await world.fungible(total=1, shards=1)
    async with first(world, commit=commit) as other:
        assert await other.reserve(sku.id, "same") == "granted"
        second = await waits(world, world.reserve(Line("ticket", 1), key="same"))
    assert codes([await second]) == [word]
    assert await world.counts() == (0, 1, 0)
    assert await world.faults() == []


async def test_one_key_for_two_skus_takes_from_one_of_them_only(world: World) -> None:
    sku = await world.fungible(total=5, shards=1)
    await world.fungible("other", total=5, shards=1)
    async with first(world) as one:
        assert await one.reserve(sku.id, "same") == "granted"
        second = await waits(world, world.reserve(Line("other", 1), key="same"))
    assert codes([await second]) == ["key-reused"]
    assert await world.counts("other") == (5, 0, 0)
    assert await world.faults() == []


async def test_a_sweep_that_comes_first_leaves_nothing_to_confirm(world: World) -> None:
    await world.fungible(total=1)
    hold = await world.hold()
    await world.expire(hold)
    async with first(world) as sweep:
        await sweep.call("expire_due", None, 10, False, "sweep")
        second = await waits(world, world.confirm(hold))
    assert codes([await second]) == ["hold-expired"]
    assert await world.counts() == (1, 0, 0)
    assert await world.faults() == []


async def test_a_confirm_in_time_stands_although_the_sweep_comes_before_it_commits(world: World) -> None:
    await world.fungible(total=1)
    hold = await world.hold()
    await ends_soon(world, hold)
    async with first(world) as shop:
        assert await shop.confirm(hold) == "done"
        await due(world, hold)
        assert (await world.stock.expire_due()).holds == 0, "the sweep passes over what somebody is deciding"
        second = await waits(world, world.stock.expire_due(hold.name.sku_id, skip_locked=False))
    assert (await second).holds == 0
    assert await world.counts() == (0, 0, 1)
    assert await world.faults() == []


async def test_an_extension_in_time_stands_although_the_reclaim_comes_before_it_commits(world: World) -> None:
    await world.fungible(total=1)
    hold = await world.hold()
    await ends_soon(world, hold)
    async with first(world) as buyer:
        assert await buyer.extend(hold, 600) == "done"
        await due(world, hold)
        second = await waits(world, world.reserve(Line("ticket", 1)))
    assert codes([await second]) == ["sold-out"]
    assert await world.counts() == (0, 1, 0)


@pytest.mark.parametrize("word", ["hold-sold", "hold-released"])
async def test_confirm_and_release_meet_and_the_first_one_stands(world: World, word: str) -> None:
    await world.fungible(total=1)
    hold = await world.hold()
    call: Any
    async with first(world) as one:
        if word == "hold-sold":
            await one.confirm(hold)
            call = world.stock.release(hold.name, hold.fence, "shop:box")
        else:
            await one.release(hold)
            call = world.confirm(hold)
        second = await waits(world, call)
    assert codes([await second]) == [word]
    assert await world.faults() == []


async def test_a_seller_who_reduces_waits_for_the_buyer_and_then_counts_him(world: World) -> None:
    sku = await world.fungible(total=5, shards=1)
    async with first(world) as buyer:
        assert await buyer.reserve(sku.id, "k", 3) == "granted"
        smaller = msgspec.structs.replace(sku.settings, total=2)
        second = await waits(world, world.stock.put_sku("ticket", smaller, "operator:test"))
    refused = await second
    assert isinstance(refused, Refused) and (refused.code, refused.facts["held"]) == ("below-commitments", 3)


async def test_books_read_beside_an_open_transaction_balance(world: World) -> None:
    sku = await world.fungible(total=5, shards=1)
    hold = await world.hold()
    async with first(world) as buyer:
        await buyer.reserve(sku.id, "k", 3)
        await buyer.release(hold)
        assert await world.faults() == []
        (level,) = await world.stock.levels()
        second = await waits(world, world.stock.repair(level, dry_run=False, actor="test"))
    assert await second == []
    assert await world.counts() == (2, 3, 0)


async def test_a_seat_is_waited_for_and_then_told_as_taken(world: World) -> None:
    await world.seated(rows=1, seats=3)
    hold = held(await world.reserve(Line("hall", seats=("A-1",))))
    await world.expire(hold)
    async with first(world) as sweep:
        await sweep.call("expire_due", None, 10, False, "sweep")
        seconds = [await waits(world, world.reserve(Line("hall", seats=seats))) for seats in (("A-1", "A-2"), ("A-1",))]
    outcomes = await asyncio.gather(*seconds)
    assert sorted(codes(outcomes)) == ["done", "seat-taken"]
    assert await world.faults() == []


def keyed_again(hold: Held, key: str = "again") -> Keyed:
    """The key of a confirm, as `First.one` uses it too."""
    return Keyed(f"shop:box:confirm:{hold.name.id}", key, b"f")


def confirm_again(world: World, hold: Held) -> Coroutine[Any, Any, Done | Refused]:
    """A confirm that takes the units of an expired hold again."""
    return world.stock.confirm(hold.name, hold.fence, "shop:box", keyed_again(hold), reacquire=True)


async def lapsed(world: World) -> Held:
    """The swept hold of a SKU's last unit."""
    await world.fungible(total=1, shards=1)
    hold = await world.hold()
    await world.expire(hold)
    await world.stock.expire_due()
    return hold


@pytest.mark.parametrize(("commit", "word"), [(True, "hold-expired"), (False, "done")])
async def test_a_reacquire_waits_for_an_uncommitted_reserve_of_the_last_unit(
    world: World, commit: bool, word: str
) -> None:
    hold = await lapsed(world)
    async with first(world, commit=commit) as other:
        assert await other.reserve(hold.name.sku_id, "theirs") == "granted"
        second = await waits(world, confirm_again(world, hold))
    outcome = await second
    assert codes([outcome]) == [word]
    if isinstance(outcome, Refused):
        assert (outcome.facts["reason"], outcome.facts["held"]) == ("sold-out", 1)
    assert await world.faults() == []


@pytest.mark.parametrize(("commit", "word"), [(True, "sold-out"), (False, "done")])
async def test_a_reserve_of_the_last_unit_waits_for_an_uncommitted_reacquire(
    world: World, commit: bool, word: str
) -> None:
    hold = await lapsed(world)
    async with first(world, commit=commit) as shop:
        assert await shop.one("reacquire", hold) == "done"
        second = await waits(world, world.reserve(Line("ticket", 1)))
    assert codes([await second]) == [word]
    assert await world.faults() == []


async def test_a_reacquire_that_a_sweep_came_before_takes_what_the_sweep_gave_back(world: World) -> None:
    await world.fungible(total=1, shards=1)
    hold = await world.hold()
    await world.expire(hold)
    async with first(world) as sweep:
        await sweep.call("expire_due", None, 10, False, "sweep")
        second = await waits(world, confirm_again(world, hold))
    assert codes([await second]) == ["done"]
    assert await world.counts() == (0, 0, 1)
    assert await world.faults() == []


async def test_a_sweep_passes_over_a_due_hold_that_is_being_taken_again(world: World) -> None:
    await world.fungible(total=1, shards=1)
    hold = await world.hold()
    await world.expire(hold)
    async with first(world) as shop:
        assert await shop.one("reacquire", hold) == "done"
        assert (await world.stock.expire_due()).holds == 0
        second = await waits(world, world.stock.expire_due(hold.name.sku_id, skip_locked=False))
    assert (await second).holds == 0
    assert await world.counts() == (0, 0, 1)
    assert await world.faults() == []


async def test_two_reacquires_of_one_hold_make_one_sale(world: World) -> None:
    hold = await lapsed(world)
    async with first(world) as shop:
        assert await shop.one("reacquire", hold) == "done"
        second = await waits(world, confirm_again(world, hold))
    assert codes([await second]) == ["replayed"]
    other = await world.stock.confirm(hold.name, hold.fence, "shop:box", keyed_again(hold, "other"), reacquire=True)
    assert codes([other]) == ["stale-fence"], "under another key only the new fence finds the sale"
    assert await world.counts() == (0, 0, 1)
    assert await world.faults() == []


async def test_a_buyer_who_reserves_elsewhere_is_counted_before_the_old_hold_is_taken_again(world: World) -> None:
    sku = await world.fungible(total=9, shards=1, buyer_max=1)
    hold = await world.hold(buyer="ada")
    await world.expire(hold)
    await world.stock.expire_due()
    async with first(world) as buyer:
        keyed = reserve_key(Line("ticket", 1), key="k", buyer="ada")
        outcome = await buyer.call(
            "reserve", sku.id, [new_hold_id(sku.id)], [keyed.slot], [keyed.fingerprint], [0], [1],
            ['[{"sku":"ticket","quantity":1}]'], [None], ["shop:box"], [None], ["ada"], [new_operation_id()],
        )  # fmt: skip
        assert outcome == "granted"
        second = await waits(world, confirm_again(world, hold))
    refused = await second
    assert isinstance(refused, Refused) and refused.facts["reason"] == "buyer-limit"
    assert await world.faults() == []


async def test_two_cancels_meet_and_are_one(world: World) -> None:
    await world.fungible(total=3, shards=1)
    sold = await world.confirm(await world.hold(quantity=2))
    assert isinstance(sold, Done)
    sale_id = UUID(orjson.loads(sold.document)["id"])
    sale = SaleName(sale_id, sku_of_hold(sale_id))
    async with first(world) as one:
        assert await one.call("cancel", sale.sku_id, sale.id, "shop:box", "first", new_operation_id()) == "done"
        second = await waits(world, world.stock.cancel(sale, "shop:box", "second"))
    again = await second
    assert isinstance(again, Done) and orjson.loads(again.document)["reason"] == "first"
    assert await world.counts() == (3, 0, 0)
    assert await world.faults() == []


@pytest.mark.parametrize("word", ["hold-sold", "hold-released"])
async def test_a_partial_confirm_and_a_release_meet_and_the_first_one_stands(world: World, word: str) -> None:
    await world.fungible(total=3, shards=1)
    hold = await world.hold(quantity=3)
    call: Any
    async with first(world) as one:
        if word == "hold-sold":
            assert await one.one("confirm_part", hold, '[{"sku": "ticket", "quantity": 2}]') == "done"
            call = world.stock.release(hold.name, hold.fence, "shop:box")
        else:
            await one.release(hold)
            keyed = keyed_again(hold)
            call = world.stock.confirm(hold.name, hold.fence, "shop:box", keyed, lines=(Line("ticket", 2),))
        second = await waits(world, call)
    assert codes([await second]) == [word]
    assert await world.counts() == ((1, 0, 2) if word == "hold-sold" else (3, 0, 0))
    assert await world.faults() == []


async def test_two_partial_confirms_under_one_key_make_one_sale(world: World) -> None:
    await world.fungible(total=5, shards=2)
    hold = await world.hold(quantity=4)
    keyed = keyed_again(hold)
    outcomes = await asyncio.gather(
        *(world.stock.confirm(hold.name, hold.fence, "shop:box", keyed, lines=(Line("ticket", 3),)) for _ in range(8))
    )
    assert sorted(codes(outcomes)) == ["done", *["replayed"] * 7]
    assert len({outcome.document for outcome in outcomes if isinstance(outcome, Done)}) == 1
    assert await world.counts() == (2, 0, 3)
    assert await world.faults() == []
