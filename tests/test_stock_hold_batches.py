"""The verbs on holds, many in one statement: each member is judged for itself, and nobody's mistake disturbs another."""

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID, uuid4

import asyncpg
import orjson
import pytest

from chassis.database import Connection, Pool
from counters.functions import verbs_schema
from counters.ids import new_operation_id, new_sale_id
from counters.rules import Done, Line
from tests.stock_world import Held, World, held


@pytest.fixture
def world(pool: Pool) -> World:
    return World(pool)


@dataclass(frozen=True, slots=True)
class Asked:
    """One member of a batch of confirms."""

    id: UUID
    fence: int
    caller: str
    slot: UUID
    fingerprint: bytes
    operation: UUID


def asked(hold: Held, *, fence: int | None = None, caller: str = "shop:box", slot: UUID | None = None) -> Asked:
    return Asked(hold.name.id, fence or hold.fence, caller, slot or uuid4(), b"f", new_operation_id())


async def call(connection: "Connection | Pool", verb: str, *arguments: object) -> list[asyncpg.Record]:
    """The rows of a verb for many, by place."""
    places = ", ".join(f"${place + 1}" for place in range(len(arguments)))
    rows = await connection.fetch(f"SELECT * FROM {verbs_schema()}.{verb}({places})", *arguments)
    return sorted(rows, key=lambda row: int(row["place"]))


async def confirm(connection: "Connection | Pool", sku_id: int, *members: Asked) -> list[asyncpg.Record]:
    return await call(
        connection, "confirm", sku_id, [one.id for one in members], [one.fence for one in members],
        [one.caller for one in members], [one.slot for one in members], [one.fingerprint for one in members],
        [one.operation for one in members], [new_sale_id(sku_id) for _ in members],
    )  # fmt: skip


async def release(connection: "Connection | Pool", sku_id: int, *holds: Held) -> list[asyncpg.Record]:
    return await call(
        connection, "release", sku_id, [hold.name.id for hold in holds], [hold.fence for hold in holds],
        ["shop:box"] * len(holds),
    )  # fmt: skip


async def extend(
    connection: "Connection | Pool", sku_id: int, holds: list[Held], seconds: list[int | None], operations: list[UUID]
) -> list[asyncpg.Record]:
    return await call(
        connection, "extend", sku_id, [hold.name.id for hold in holds], [hold.fence for hold in holds],
        ["shop:box"] * len(holds), seconds, operations,
    )  # fmt: skip


def outcomes(rows: list[asyncpg.Record]) -> list[str]:
    return [row["outcome"] for row in rows]


async def test_bad_members_of_a_batch_of_fifty_confirms_disturb_nobody(world: World) -> None:
    sku = await world.fungible(total=100, shards=8)
    holds = [await world.hold() for _ in range(50)]
    foreign = await world.hold(actor="shop:other")
    await world.expire(holds[3])
    await world.stock.release(holds[5].name, holds[5].fence, "shop:box")
    used = asked(holds[6])
    await confirm(world.pool, sku.id, used)
    members = [asked(hold) for hold in holds]
    members[1] = asked(holds[1], fence=holds[1].fence + 1)
    members[7] = asked(holds[7], slot=used.slot)
    members[9] = asked(holds[8])
    members[11] = asked(foreign)
    members[13] = asked(Held(holds[13].name, holds[13].fence, {}), caller="buyer:room:somebody")
    bad = {
        1: "stale-fence", 3: "hold-expired", 5: "hold-released", 6: "replayed", 7: "replayed", 9: "replayed",
        11: "not-found", 13: "not-found",
    }  # fmt: skip
    rows = await confirm(world.pool, sku.id, *members)
    assert outcomes(rows) == [bad.get(place, "done") for place in range(50)]
    assert rows[9]["answer"] == rows[8]["answer"], "the second to name a hold hears of the first's sale"
    assert await world.pool.fetchval("SELECT state FROM stock.holds WHERE id = $1", holds[7].name.id) == "held"
    assert (await world.counts())[2] == 43
    assert await world.faults() == []


async def test_a_confirm_sent_again_whose_answer_was_lost_is_done_and_not_replayed(world: World) -> None:
    sku = await world.fungible()
    member = asked(await world.hold())
    first, again = [await confirm(world.pool, sku.id, member) for _ in range(2)]
    assert outcomes(first + again) == ["done", "done"]
    assert first[0]["answer"] == again[0]["answer"]
    assert await world.counts() == (9, 0, 1)


async def test_one_batch_confirms_the_units_of_carts_and_of_single_holds(world: World) -> None:
    sku = await world.fungible("a", total=20, shards=4)
    await world.fungible("b", total=20, shards=4)
    await world.seated(rows=2, seats=3)
    cart = held(await world.reserve(Line("a", 2), Line("b", 3), Line("hall", seats=("A-1", "B-2"))))
    holds = [cart, *[await world.hold("a", 2) for _ in range(5)]]
    assert outcomes(await confirm(world.pool, sku.id, *map(asked, reversed(holds)))) == ["done"] * 6
    assert [await world.counts(name) for name in ("a", "b", "hall")] == [(8, 0, 12), (17, 0, 3), (4, 0, 2)]
    assert await world.faults() == []


async def test_a_hold_whose_parts_were_lost_is_not_sold_beside_one_that_has_all(world: World) -> None:
    sku = await world.fungible(total=10, shards=1)
    torn, whole = await world.hold(quantity=2), await world.hold(quantity=2)
    await world.pool.execute("UPDATE stock.hold_parts SET quantity = 1 WHERE hold_id = $1", torn.name.id)
    with pytest.raises(asyncpg.IntegrityConstraintViolationError, match="not what it promised"):
        await confirm(world.pool, sku.id, asked(torn), asked(whole))
    assert await world.counts() == (6, 4, 0)


async def test_a_batch_of_releases_ends_each_hold_once_and_due_ones_as_expired(world: World) -> None:
    sku = await world.fungible(total=20, shards=4)
    holds = [await world.hold(quantity=2) for _ in range(4)]
    await world.expire(holds[1])
    await confirm(world.pool, sku.id, asked(holds[2]))
    rows = await release(world.pool, sku.id, *holds, holds[0], holds[1])
    assert outcomes(rows) == ["done", "done", "hold-sold", "done", "done", "done"]
    states = [orjson.loads(row["answer"])["state"] for row in rows if row["answer"]]
    assert states == ["released", "expired", "released", "released", "expired"]
    assert await world.counts() == (18, 0, 2)
    verbs = await world.pool.fetch("SELECT verb FROM stock.ledger WHERE verb IN ('release', 'expire') ORDER BY verb")
    assert [row["verb"] for row in verbs] == ["expire", "release", "release"]
    assert await world.faults() == []


async def test_an_extension_sent_again_whose_answer_was_lost_counts_once(world: World) -> None:
    sku = await world.fungible(hold_seconds=60, hold_seconds_max=900, extensions_max=1)
    hold, other = await world.hold(), await world.hold()
    mine, theirs = new_operation_id(), new_operation_id()
    first, _ = await extend(world.pool, sku.id, [hold, other], [300, None], [mine, theirs])
    again, more = await extend(world.pool, sku.id, [hold, hold], [300, 600], [mine, new_operation_id()])
    assert outcomes([first, again, more]) == ["done", "done", "extension-limit"]
    assert first["answer"] == again["answer"]
    assert await world.pool.fetchval("SELECT max(extensions) FROM stock.holds") == 1


async def test_the_second_extension_of_a_hold_in_one_batch_starts_from_the_first(world: World) -> None:
    sku = await world.fungible(hold_seconds=60, hold_seconds_max=900, extensions_max=2)
    hold = await world.hold()
    operations = [new_operation_id() for _ in range(3)]
    rows = await extend(world.pool, sku.id, [hold] * 3, [200, 400, 600], operations)
    assert outcomes(rows) == ["done", "done", "extension-limit"]
    ends = await world.pool.fetchval("SELECT expires_at FROM stock.holds")
    assert orjson.loads(rows[1]["answer"])["expires_at"] == ends.isoformat(timespec="milliseconds").replace(
        "+00:00", "Z"
    )


async def test_payments_that_start_together_each_get_their_own_deadline(world: World) -> None:
    sku = await world.fungible("a", payment_seconds_max=600)
    await world.fungible("b", payment_seconds_max=60)
    single, cart, gone = (
        await world.hold("a"),
        held(await world.reserve(Line("a", 1), Line("b", 1))),
        await world.hold("a"),
    )
    await world.expire(gone)
    holds = [single, cart, gone, single]
    rows = await call(
        world.pool, "start_payment", sku.id, [hold.name.id for hold in holds], [hold.fence for hold in holds],
        ["shop:box"] * 4, [None] * 4,
    )  # fmt: skip
    assert outcomes(rows) == ["done", "done", "hold-expired", "done"]
    seconds = await world.pool.fetch(
        "SELECT extract(epoch FROM paying_until - paying_started_at)::integer AS s FROM stock.holds"
        " WHERE state = 'paying' ORDER BY id"
    )
    assert [row["s"] for row in seconds] == [600, 60]


@pytest.mark.parametrize("until", [None, datetime(2100, 1, 1, tzinfo=UTC), datetime(2000, 1, 1, tzinfo=UTC)])
async def test_repeating_a_start_of_payment_never_lets_it_outlive_the_longest_payment(
    world: World, until: datetime | None
) -> None:
    await world.fungible(payment_seconds_max=60)
    hold = await world.hold()
    await world.stock.start_payment(hold.name, hold.fence, "shop:box", None)
    await world.pool.execute(
        "UPDATE stock.holds SET paying_started_at = paying_started_at - interval '10 min',"
        " paying_until = paying_until - interval '10 min'"
    )
    before = await world.pool.fetchval("SELECT paying_until FROM stock.holds")
    assert isinstance(await world.stock.start_payment(hold.name, hold.fence, "shop:box", until), Done)
    assert await world.pool.fetchval("SELECT paying_until FROM stock.holds") == before
    assert len(await world.stock.paying_holds(overdue_only=True)) == 1, "the reconciler ends it"


@pytest.mark.parametrize("state", ["sold", "released", "expired", "cancelled"])
async def test_what_has_ended_stays_ended_under_late_and_out_of_order_calls(world: World, state: str) -> None:
    sku = await world.fungible(extensions_max=9)
    hold = await world.hold(quantity=3)
    if state == "released":
        await release(world.pool, sku.id, hold)
    elif state == "expired":
        await world.expire(hold)
        await world.stock.expire_due()
    else:
        (sold,) = await confirm(world.pool, sku.id, asked(hold))
        if state == "cancelled":
            sale = UUID(orjson.loads(sold["answer"])["id"])
            await world.pool.fetch(
                f"SELECT * FROM {verbs_schema()}.cancel($1, $2, 'shop:box', 'r', $3)", sku.id, sale, new_operation_id()
            )
    before = await world.counts()
    rows = [
        *await extend(world.pool, sku.id, [hold], [None], [new_operation_id()]),
        *await call(world.pool, "start_payment", sku.id, [hold.name.id], [hold.fence], ["shop:box"], [None]),
        *await release(world.pool, sku.id, hold),
        *await confirm(world.pool, sku.id, asked(hold)),
    ]
    word = {"sold": "hold-sold", "expired": "hold-expired"}.get(state, "hold-released")
    last = ["hold-sold", "replayed"] if state == "sold" else ["done", word]
    assert outcomes(rows) == [word, word, *last]
    assert await world.pool.fetchval("SELECT state FROM stock.holds") == state
    assert await world.counts() == before
    assert await world.faults() == []


async def test_carts_released_and_confirmed_in_opposite_orders_never_deadlock(world: World) -> None:
    skus = [await world.fungible(name, total=400, shards=4) for name in ("a", "b")]

    async def cart(names: tuple[str, str]) -> Held:
        return held(await world.reserve(*(Line(name, 1) for name in names)))

    async def side(place: int, names: tuple[str, str]) -> None:
        for verb in ("release", "confirm") * 4:
            holds = await asyncio.gather(*(cart(names) for _ in range(12)))
            async with world.pool.acquire() as connection:
                ordered = holds[:: 1 if place else -1]
                if verb == "release":
                    rows = await release(connection, skus[place].id, *ordered)
                else:
                    rows = await confirm(connection, skus[place].id, *map(asked, ordered))
            assert set(outcomes(rows)) == {"done"}

    await asyncio.gather(side(0, ("a", "b")), side(1, ("b", "a")), side(0, ("a", "b")), side(1, ("b", "a")))
    assert await world.pool.fetchval("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()") == 0
    assert [await world.counts(name) for name in ("a", "b")] == [(208, 0, 192)] * 2
    assert await world.faults() == []


async def test_duplicates_on_two_connections_sell_once(world: World) -> None:
    sku = await world.fungible(total=60, shards=4)
    holds = [await world.hold() for _ in range(20)]
    members = [asked(hold) for hold in holds]
    others = [
        asked(hold, slot=member.slot if place % 2 else None)
        for place, (hold, member) in enumerate(zip(holds, members, strict=True))
    ]
    async with world.pool.acquire() as one, world.pool.acquire() as two:
        first, second = await asyncio.gather(confirm(one, sku.id, *members), confirm(two, sku.id, *reversed(others)))
    second.reverse()
    assert {(a["outcome"], b["outcome"]) for a, b in zip(first, second, strict=True)} <= {
        ("done", "replayed"), ("replayed", "done"),
    }  # fmt: skip
    assert [row["answer"] for row in first] == [row["answer"] for row in second]
    assert await world.counts() == (40, 0, 20)
    assert await world.faults() == []


async def test_batches_find_their_rows_by_index_from_the_first_hold_on(world: World) -> None:
    """Plans are made while the tables are empty, and kept: each batch must still read about its own rows alone."""
    sku = await world.fungible(total=10_000, extensions_max=5)
    async with world.pool.acquire() as connection:
        await connection.execute("ALTER TABLE stock.holds SET (autovacuum_enabled = off)")
        await connection.execute("ALTER TABLE stock.hold_parts SET (autovacuum_enabled = off)")
        read = []
        for _ in range(12):
            holds = await asyncio.gather(*(world.hold() for _ in range(40)))
            before = await rows_read(connection)
            await extend(connection, sku.id, holds, [400] * 40, [new_operation_id() for _ in holds])
            await call(
                connection, "start_payment", sku.id, [hold.name.id for hold in holds], [hold.fence for hold in holds],
                ["shop:box"] * 40, [None] * 40,
            )  # fmt: skip
            await release(connection, sku.id, *holds[20:])
            await confirm(connection, sku.id, *map(asked, holds[:20]))
            read.append(await rows_read(connection) - before)
    assert max(read[8:]) <= 1.2 * min(read[:4]), read


async def rows_read(connection: Connection) -> int:
    """Rows of holds and their parts that this connection has read so far, by whatever way."""
    await connection.execute("SELECT pg_stat_force_next_flush()")
    return int(
        await connection.fetchval(
            "SELECT sum(seq_tup_read + (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes AS index"
            " WHERE index.relid = pg_stat_user_tables.relid)) FROM pg_stat_user_tables"
            " WHERE schemaname = 'stock' AND relname IN ('holds', 'hold_parts')"
        )
    )
