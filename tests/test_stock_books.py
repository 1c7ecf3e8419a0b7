"""The books: an audit finds drift of every kind that a bug or a hand may leave, and a repair mends what it may."""

import pytest

from chassis.database import Pool
from chassis.problems import Problem
from counters.rules import Line, Seat, SkuSettings
from counters.store import Disagreement, Level, Repair
from tests.stock_world import World, codes, held

# What a hand did to the books of one SKU, what the audit must say of it, and whether the repair may mend it alone.
WRONG_LEDGER_ROW = (
    "INSERT INTO stock.ledger (sku_id, operation_id, verb, shard, total_delta, held_delta, actor)"
    " VALUES ({sku}, gen_random_uuid(), 'restate', 0, 1000, 2, 'hand')"
)
COUNTER_DRIFT = [
    ("UPDATE stock.sub_counters SET held = held + 1 WHERE sku_id = {sku} AND shard = 0", "I2 held", True),
    ("UPDATE stock.sub_counters SET held = held - 1 WHERE sku_id = {sku} AND held > 0", "I2 held", True),
    ("UPDATE stock.sub_counters SET sold = sold + 1 WHERE sku_id = {sku} AND shard = 0", "I2 sold", True),
    (
        "UPDATE stock.sub_counters SET held = held - 1, sold = sold + 1 WHERE sku_id = {sku} AND held > 0",
        "I2 sold",
        True,
    ),
    ("UPDATE stock.sub_counters SET total = total + 5 WHERE sku_id = {sku} AND shard = 0", "I9 total", True),
    (
        "UPDATE stock.sub_counters SET total = total + 1 - 2 * shard WHERE sku_id = {sku} AND shard < 2",
        "I9 total",
        True,
    ),
    ("UPDATE stock.skus SET total = total + 7 WHERE id = {sku}", "I2 stated total", True),
    (
        "UPDATE stock.sub_counters SET total = total + 5 WHERE sku_id = {sku} AND shard = 0;"
        "UPDATE stock.skus SET total = 99 WHERE id = {sku}",
        "I2 stated total",
        False,
    ),
    (
        "UPDATE stock.sub_counters SET allowance = allowance + 5 WHERE sku_id = {sku} AND shard = 0",
        "I9 allowance",
        True,
    ),
    (
        "UPDATE stock.skus SET oversell_policy = 'bounded', oversell_allowance = 7 WHERE id = {sku}",
        "I2 stated allowance",
        True,
    ),
    (
        "UPDATE stock.sub_counters SET allowance = 5 WHERE sku_id = {sku} AND shard = 0;"
        "INSERT INTO stock.ledger (sku_id, operation_id, verb, shard, allowance_delta, actor)"
        " VALUES ({sku}, gen_random_uuid(), 'allow', 0, 5, 'hand')",
        "I2 stated allowance",
        False,
    ),
    ("DELETE FROM stock.sub_counters WHERE sku_id = {sku} AND shard = 3", "I2 the row itself", False),
    (WRONG_LEDGER_ROW, "I9 total", True),
    ("DELETE FROM stock.hold_parts WHERE sku_id = {sku}", "I5 parts", False),
    ("UPDATE stock.holds SET quantity = quantity + 1 WHERE sku_id = {sku}", "I5 parts of a held hold, units", False),
    ("UPDATE stock.holds SET backordered = 1 WHERE sku_id = {sku}", "I5 parts of a held hold, backordered", False),
    ("DELETE FROM stock.holds WHERE sku_id = {sku} AND state = 'held'", "I5 the hold", False),
    ("UPDATE stock.hold_parts SET quantity = quantity + 100 WHERE sku_id = {sku}", "I2 held", False),
    ("DELETE FROM stock.sales WHERE sku_id = {sku}", "I4 sales", False),
    ("UPDATE stock.holds SET state = 'expired' WHERE sku_id = {sku} AND state = 'sold'", "I4 state", False),
]
SEAT_DRIFT = [
    ("UPDATE stock.seats SET state = 'sold' WHERE sku_id = {sku} AND state = 'held'", "I2 state", True),
    (
        "UPDATE stock.seats SET state = 'available', hold_id = NULL WHERE sku_id = {sku} AND state = 'sold'",
        "I2 state",
        True,
    ),
    ("UPDATE stock.seats SET hold_id = gen_random_uuid() WHERE sku_id = {sku} AND state = 'held'", "I2 whose", True),
    ("UPDATE stock.seats SET state = 'blocked' WHERE sku_id = {sku} AND seat = 'B-5'", "I9 state", True),
    ("DELETE FROM stock.seats WHERE sku_id = {sku} AND seat = 'B-5'", "I2 stated total", False),
    ("UPDATE stock.skus SET total = total - 1 WHERE id = {sku}", "I2 stated total", False),
    (
        "INSERT INTO stock.ledger (sku_id, operation_id, verb, shard, seats, seat_state, sold_delta, actor)"
        " VALUES ({sku}, gen_random_uuid(), 'confirm', -1, '{{B-5}}', 'sold', 1, 'hand')",
        "I9 state",
        True,
    ),
    ("UPDATE stock.hold_parts SET seats = '{{A-1}}' WHERE sku_id = {sku}", "I1 holds", False),
]


@pytest.fixture
def world(pool: Pool) -> World:
    return World(pool)


async def level(world: World, name: str) -> Level:
    (only,) = await world.stock.levels([name])
    return only


async def faults(world: World, name: str) -> list[Disagreement]:
    return await world.stock.audit(await level(world, name))


async def repair(world: World, name: str, *, dry_run: bool = False) -> list[Repair]:
    return await world.stock.repair(await level(world, name), dry_run=dry_run, actor="test")


async def found_and_mended(world: World, name: str, statement: str, fault: str, mended: bool) -> None:
    """Plant one drift and see it found; then either mended, or left to a person with nothing made worse."""
    before = await level(world, name)
    await world.pool.execute(statement.format(sku=before.id))
    planted = await level(world, name)
    found = await faults(world, name)
    assert any(f"{one.invariant} {one.what}".startswith(fault) for one in found), (statement, found)

    told = await repair(world, name, dry_run=True)
    assert await faults(world, name) == found and not any(one.done for one in told), "a dry run changes nothing"
    done = await repair(world, name)
    assert [one.place for one in done] == [one.place for one in told]
    after = await level(world, name)
    assert after.available <= max(before.available + before.held, planted.available), (
        f"a repair made units: {statement}"
    )
    if mended:
        assert all(one.done for one in done) and await faults(world, name) == [], statement
        assert await repair(world, name) == [], "a second repair finds nothing to do"
        if "blocked" not in statement:
            assert (after.total, after.held, after.sold) == (before.total, before.held, before.sold), statement
    else:
        assert await faults(world, name) != [], statement


async def test_drift_of_every_kind_in_sub_counters_is_found_and_mended_or_shown(world: World) -> None:
    for number, (statement, fault, mended) in enumerate(COUNTER_DRIFT):
        name = f"sku-{number}"
        await world.fungible(name, total=20, shards=4)
        await world.hold(name)
        assert codes([await world.confirm(await world.hold(name))]) == ["done"]
        await found_and_mended(world, name, statement, fault, mended)


async def test_drift_of_every_kind_in_seats_is_found_and_mended_or_shown(world: World) -> None:
    for number, (statement, fault, mended) in enumerate(SEAT_DRIFT):
        name = f"hall-{number}"
        await world.seated(name)
        held(await world.reserve(Line(name, seats=("A-1",))))
        sold = held(await world.reserve(Line(name, seats=("A-2",))))
        assert codes([await world.confirm(sold)]) == ["done"]
        await found_and_mended(world, name, statement, fault, mended)


async def test_a_repair_is_an_entry_of_the_ledger_and_drift_never_turns_a_call_into_an_error(world: World) -> None:
    await world.fungible(total=4, shards=1)
    hold = await world.hold(quantity=2)
    await world.pool.execute("UPDATE stock.sub_counters SET held = 0")
    with pytest.raises(Exception, match="books of this SKU are being repaired") as stopped:
        await world.confirm(hold)
    assert getattr(stopped.value, "code", None) == "busy"
    await repair(world, "ticket")
    (entry,) = await world.pool.fetch("SELECT * FROM stock.ledger WHERE verb = 'repair'")
    assert (entry["actor"], entry["held_delta"], entry["reason"]) == (
        "test",
        0,
        "total, allowance, held, sold: 4, 0, 0, 0 became 4, 0, 2, 0",
    )
    assert codes([await world.confirm(hold)]) == ["done"]
    assert await world.faults() == []


async def test_a_wrong_ledger_row_makes_no_units(world: World) -> None:
    sku = await world.fungible(total=10, shards=2)
    await world.pool.execute(WRONG_LEDGER_ROW.format(sku=sku.id))
    await repair(world, "ticket")
    assert await world.counts() == (10, 0, 0)
    assert codes([await world.reserve(Line("ticket", 11))]) == ["insufficient-stock"]


async def test_one_hold_in_drift_stops_no_other_from_expiring(world: World) -> None:
    await world.fungible("broken", total=5, shards=1)
    await world.fungible("sound", total=5, shards=1)
    bad = await world.hold("broken")
    for _ in range(3):
        await world.hold("sound")
    await world.expire()
    await world.pool.execute("UPDATE stock.sub_counters SET held = 0 WHERE sku_id = $1", bad.name.sku_id)
    swept = await world.stock.expire_due()
    assert (swept.holds, swept.units) == (3, 3)
    assert await world.counts("sound") == (5, 0, 0)
    await repair(world, "broken")
    assert (await world.stock.expire_due()).holds == 1
    assert await world.faults() == []


@pytest.mark.parametrize("blocked", [True, False])
async def test_repair_never_takes_a_seats_own_word_for_whether_it_is_blocked(world: World, blocked: bool) -> None:
    await world.stock.put_sku(
        "box",
        SkuSettings(
            title="box", kind="seated", seats=(Seat(seat="A-1", section="s", row="A", number=1, blocked=blocked),)
        ).checked(),
        "operator:test",
    )
    before, planted = ("blocked", "available") if blocked else ("available", "blocked")
    await world.pool.execute("UPDATE stock.seats SET state = $1", planted)
    (level,) = await world.stock.levels(["box"])
    assert await world.stock.audit(level)
    await world.stock.repair(level, dry_run=False, actor="test")
    assert await world.pool.fetchval("SELECT state FROM stock.seats") == before
    assert await world.stock.audit(level) == []


async def test_a_hold_whose_units_were_lost_is_never_a_sale(world: World) -> None:
    await world.fungible()
    hold = await world.hold(quantity=2)
    await world.pool.execute("DELETE FROM stock.hold_parts WHERE hold_id = $1", hold.name.id)
    with pytest.raises(Problem) as refused:
        await world.confirm(hold)
    assert refused.value.code == "busy"
    assert await world.pool.fetchval("SELECT count(*) FROM stock.sales") == 0
