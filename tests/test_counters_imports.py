"""Stock and seats from CSV: what is read, what is refused with its line, and that nothing is ever half imported."""

from collections.abc import Callable
from pathlib import Path

import pytest

from chassis.database import Pool
from counters.imports import ImportRefused, import_stock, read_seats, read_stock, seat_skus
from counters.rules import Oversell, SkuSettings
from tests.stock_world import World

EXAMPLES = Path(__file__).parent.parent / "examples" / "onsale"
STOCK = "sku,title,kind,total,shards\nticket,Ticket,fungible,100,4\nhall,Hall,seated,,\n"
SEATS = "sku,seat,section,row,number,tier,x,y,blocked\n" + "".join(
    f"hall,A-{number},stalls,A,{number},cheap,{number}.5,0,{'true' if number == 3 else ''}\n" for number in range(1, 6)
)


@pytest.fixture
def world(pool: Pool) -> World:
    return World(pool)


def refused(text: str, read: Callable[[str], object] = read_stock) -> tuple[str, ...]:
    with pytest.raises(ImportRefused) as error:
        read(text)
    return error.value.problems


def test_a_row_is_a_sku_and_an_empty_cell_is_the_default() -> None:
    skus = read_stock('\ufeffsku,title,total,on_sale_at,buyer_max\r\na.b,"Two, words",7,2026-12-01T10:00:00Z,\r\n\r\n')
    assert list(skus) == ["a.b"]
    assert (skus["a.b"].title, skus["a.b"].total, skus["a.b"].buyer_max) == ("Two, words", 7, None)
    assert skus["a.b"].on_sale_at is not None


def test_an_oversell_policy_has_a_column_for_each_of_its_parts() -> None:
    header = "sku,title,total,oversell_policy,oversell_allowance\n"
    skus = read_stock(f"{header}a,A,7,bounded,3\nb,B,7,,\n")
    assert (skus["a"].oversell, skus["b"].oversell) == (Oversell("bounded", 3), Oversell())
    assert refused(f"{header}a,A,7,forbid,3\n") == ("line 2: oversell/allowance: is for the policy bounded only",)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("a,A,x", "line 2: total: Expected `int | null`"),
        ("a,A,-1", "line 2: total: "),
        ("a,A,1.5", "line 2: total: Expected `int | null`"),
        ("a,A,NaN", "line 2: total: Expected `int | null`"),
        ("a,A,9223372036854775808", "line 2: total: "),
        ("a,A,", "line 2: total: is missing"),
        ("A B,A,1", "line 2: sku: "),
        (",A,1", "line 2: sku: "),
        ("a,,1", "line 2: row: Object missing required field `title`"),
        ("a,A,1,extra", "line 2: has 4 cells"),
        ('a,"A,1', "line 2: is not CSV"),
        ("a,A\x00,1", "line 2: title: "),
    ],
)
def test_a_bad_row_is_told_with_its_line_and_reason(row: str, reason: str) -> None:
    (problem,) = refused(f"sku,title,total\n{row}\n")
    assert problem.startswith(reason)


def test_every_bad_row_is_told_up_to_a_limit() -> None:
    problems = refused("sku,title,total\nok,Fine,1\n" + "a,A,x\n" * 30)
    assert problems[0].startswith("line 3: ") and problems[19].startswith("line 22: ")
    assert problems[20:] == ("and 10 more bad rows",)


def test_a_line_number_counts_lines_not_rows() -> None:
    (problem,) = refused('sku,title,total\na,"two\nlines",x\n')
    assert problem.startswith("line 2: ")
    (problem,) = refused('sku,title,total\na,"two lines",1\n\nb,B,x\n')
    assert problem.startswith("line 4: ")


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        ("sku,title,colour", "unknown column 'colour'"),
        ("sku,total", "column 'title' is missing"),
        ("sku,title,title", "column 'title' stands twice"),
        ("", "column 'sku' is missing"),
        ("sku,title,seats", "unknown column 'seats'"),
    ],
)
def test_a_header_that_is_not_ours_is_refused(header: str, reason: str) -> None:
    assert f"line 1: {reason}" in refused(header + "\n")


def test_a_sku_or_seat_that_stands_twice_is_refused() -> None:
    assert "earlier line" in refused("sku,title,total\na,A,1\na,A,2\n")[0]
    assert "earlier line" in refused(SEATS + "hall,A-1,stalls,A,9,,,,\n", read_seats)[0]


@pytest.mark.parametrize("row", ["hall,A-1,stalls,A,x,,,", "hall,A-1,stalls,A,1,,nan,", "hall,A-1,stalls,A,1,,0,inf"])
def test_a_seat_without_a_place_is_refused(row: str) -> None:
    assert refused(f"sku,seat,section,row,number,tier,x,y\n{row}\n", read_seats)[0].startswith("line 2: ")


def test_seats_and_skus_must_fit() -> None:
    skus, halls = read_stock(STOCK), read_seats(SEATS)
    assert seat_skus(skus, halls)["hall"].total == 5
    assert seat_skus({}, halls)["hall"].title == "hall"
    for wrong in ({"hall": skus["ticket"]}, {"hall": SkuSettings(title="Hall", kind="seated", total=6)}):
        with pytest.raises(ImportRefused, match="hall: "):
            seat_skus(wrong, halls)
    with pytest.raises(ImportRefused, match="no seats are given"):
        seat_skus(skus, {})


async def test_an_import_repeated_changes_nothing(world: World) -> None:
    skus = seat_skus(read_stock(STOCK), read_seats(SEATS))
    assert await import_stock(world.stock, skus, "operator:test") == [("hall", "created"), ("ticket", "created")]
    await world.hold()
    rows = await world.pool.fetchval("SELECT count(*) FROM stock.ledger")
    assert await import_stock(world.stock, skus, "operator:test") == [("hall", "unchanged"), ("ticket", "unchanged")]
    assert await world.pool.fetchval("SELECT count(*) FROM stock.ledger") == rows
    assert await world.counts("hall") == (4, 0, 0)
    assert await world.faults() == []


async def test_an_import_that_the_database_refuses_leaves_nothing_behind(world: World) -> None:
    await world.fungible("ticket", total=100, shards=4)
    await world.hold(quantity=50)
    text = "sku,title,total,shards\nearly,Early,5,1\nticket,Ticket,49,4\nzone,Zone,5,1\n"
    with pytest.raises(ImportRefused, match=r"ticket: below-commitments .*held 50"):
        await import_stock(world.stock, read_stock(text), "operator:test")
    assert [level.name for level in await world.stock.levels()] == ["ticket"]
    assert await world.counts() == (50, 50, 0)
    assert await world.faults() == []


async def test_the_example_is_a_whole_onsale(world: World) -> None:
    skus = seat_skus(
        read_stock((EXAMPLES / "stock.csv").read_text(encoding="utf-8")),
        read_seats((EXAMPLES / "seats.csv").read_text(encoding="utf-8")),
    )
    assert (skus["general-admission"].total, skus["general-admission"].shards) == (500, 16)
    assert 1_900 <= len(skus["hall"].seats or ()) <= 2_200
    assert {sku.room for sku in skus.values()} == {"onsale"}
    await import_stock(world.stock, skus, "operator:test")
    assert await world.counts("general-admission") == (500, 0, 0)
    assert await world.faults() == []
