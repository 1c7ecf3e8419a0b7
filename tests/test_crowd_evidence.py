"""The evidence comes from the service's own rows: an honest sale passes, and drift planted with plain SQL is caught."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

from admission.room_settings import RoomSettings
from admission.rooms import Rooms
from chassis.database import Pool
from counters.rules import Done, Line
from loadtest.evidence import read_evidence
from loadtest.facts import Admission, Evidence
from loadtest.verdict import VerdictSettings, judge
from tests.stock_world import World, held

OPENED = datetime.now(UTC).replace(microsecond=0) - timedelta(minutes=5)


async def sale(pool: Pool) -> tuple[World, UUID]:
    """A room, two tickets and two seats sold, one ticket expired, one held; the hold of the tickets."""
    await Rooms(pool).put("onsale", RoomSettings(title="Sale", opens_at=OPENED, rate_per_minute=60))
    world = World(pool)
    await world.fungible("ticket", total=10, shards=4)
    await world.seated("hall", rows=2, seats=5)
    tickets = await world.hold("ticket", 2)
    seats = held(await world.reserve(Line("hall", seats=("A-1", "A-2"))))
    for hold in (tickets, seats):
        assert isinstance(await world.confirm(hold), Done)
    await world.hold("ticket", 1)
    await world.expire()
    await world.stock.expire_due()
    await world.hold("ticket", 1)
    await pool.execute(
        "INSERT INTO line.claims (room, epoch, ticket_id, turn, place, jti, issued_at, expires_at)"
        " VALUES ('onsale', 1, 't1', 1, 1, 'j1', $1::bigint, $1::bigint + 60)",
        int(OPENED.timestamp()) + 3,
    )
    return world, tickets.name.id


async def evidence_on(pool: Pool) -> Evidence:
    return await read_evidence(pool, "onsale", ("ticket", "hall"))


def broken(evidence: Evidence) -> set[str]:
    return {check.name for check in judge(evidence, [], VerdictSettings()).rows if not check.ok}


async def test_an_honest_sale_is_read_as_it_happened(pool: Pool) -> None:
    _, tickets = await sale(pool)
    evidence = await evidence_on(pool)
    assert broken(evidence) == set()
    hall, ticket = evidence.skus
    assert (ticket.total, ticket.counted_sold, ticket.units_held, ticket.units_recycled) == (10, 2, 1, 1)
    assert (hall.total, hall.counted_sold, hall.units_sold) == (10, 2, 2)
    by_sku = {sold.sku: sold for sold in evidence.sales}
    assert (by_sku["ticket"].hold, by_sku["ticket"].units, by_sku["ticket"].seats) == (str(tickets), 2, ())
    assert (by_sku["hall"].units, sorted(by_sku["hall"].seats)) == (2, ["A-1", "A-2"])
    assert evidence.admissions == (Admission("t1", "j1", int(OPENED.timestamp()) + 3),)
    assert (evidence.rates[0].since, evidence.rates[0].rate_per_minute) == (OPENED.timestamp(), 60.0)


async def test_planted_drift_is_caught(pool: Pool) -> None:
    await sale(pool)
    await pool.execute("UPDATE stock.sub_counters SET held = held + 1 WHERE shard = 0 AND total > held + sold")
    assert {"units lost", "audit"} <= broken(await evidence_on(pool))


async def test_a_seat_freed_behind_its_sale_is_caught(pool: Pool) -> None:
    await sale(pool)
    await pool.execute("UPDATE stock.seats SET state = 'available', hold_id = NULL WHERE seat = 'A-1'")
    assert {"units lost", "audit"} <= broken(await evidence_on(pool))


async def test_an_early_admission_is_caught_from_the_claims(pool: Pool) -> None:
    await sale(pool)
    await pool.execute("UPDATE line.claims SET issued_at = $1", int(OPENED.timestamp()) - 1)
    evidence = await evidence_on(pool)
    assert "admitted before the opening" in broken(evidence)
    assert "admitted before the opening" not in broken(replace(evidence, admissions=()))
