"""The HTTP bench: a tiny run against the real processes fills every row and proves its books; no speed is judged."""

import tempfile
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import orjson
import pytest

from admission.keyring import Keyring
from chassis.database import Pool
from chassis.settings import Settings
from counters.store import Stock
from fairgate.cli.bench import served_app
from fairgate.stack.embedded import Stack
from fairgate.stack.supervisor import Supervisor
from loadtest.bench.figures import Sample
from loadtest.bench.http import HttpBench, HttpMeasured, HttpSettings, HttpStage, Row
from loadtest.bench.http_report import REFERENCE_FLOOR, bar_of, floor_scale, http_document, http_ratios, http_tables
from loadtest.bench.shop import open_shop

TINY = HttpSettings(
    floor_workers=(1,), connections=4, seconds=0.3, repeats=1, passes=200, first_sights_per_second=200, client="raw"
)
NO_OP = Row("no-op", "closed", 1, 64)
RESERVE = Row("reserve", "closed", 1, 64)


@pytest.fixture
async def stage(settings: Settings, pool: Pool) -> AsyncIterator[HttpStage]:
    keyring = Keyring(pool, settings.master_key_bytes, settings.public_url + settings.prefix)
    await keyring.refresh()
    shop = await open_shop(pool, Stock(pool), keyring)
    with tempfile.TemporaryDirectory() as folder:
        async with Supervisor(Path(folder) / "log") as supervisor:
            stack = Stack(settings.database_url, settings.redis_url, settings.master_key.get_secret_value(), supervisor)
            yield HttpStage(pool, settings.redis_url, shop, partial(served_app, stack), Path(folder))


async def test_a_run_fills_every_row_and_proves_its_books(stage: HttpStage) -> None:
    told: list[tuple[int, int, str]] = []
    measured = await HttpBench(stage, TINY, lambda *step: told.append(step)).run()
    document = orjson.loads(orjson.dumps(http_document({"cores": 2}, TINY, measured)))
    assert document["audit"]["faults"] == []
    assert document["audit"]["told"] > 0
    rows = {(row["what"], row["way"]): row for row in document["rows"]}
    loads = {"closed", "open 50 %", "open 80 %"}
    assert {what for what, _ in rows} == {
        "no-op", "redis decrement", "reserve", "reserve, pass at first sight", "confirm", "release", "refuse",
    }  # fmt: skip
    for what in ("reserve", "confirm", "release"):
        assert loads <= {way for which, way in rows if which == what}
    for (what, _), row in rows.items():
        assert row["per_second"] > 0
        assert 0 < row["p50_ms"] <= row["p99_ms"]
        assert row["errors"] == 0, row
        assert (row["refused"] > 0) == (what == "refuse")
    assert "reserve / redis decrement, each at its best" in document["ratios"]
    assert [step for step, _, _ in told] == list(range(len(told)))
    assert told[-1][0] == told[-1][1]
    assert http_tables(measured).renderables


async def test_a_hold_that_no_answer_told_of_is_a_fault(stage: HttpStage) -> None:
    bench = HttpBench(stage, TINY, lambda *_: None)
    await stage.shop.holds(3)
    await bench.prove()
    assert bench.measured.faults == ["3 holds where 0 were told, 0 unheard at most"]


def test_bars_are_those_of_the_reference_machine_or_scaled_by_a_lower_floor() -> None:
    assert floor_scale({}) == 1.0
    assert floor_scale({NO_OP: Sample(2 * REFERENCE_FLOOR, 1.0, 2.0)}) == 1.0
    assert floor_scale({NO_OP: Sample(REFERENCE_FLOOR / 2, 1.0, 2.0)}) == 0.5
    slow = bar_of(RESERVE, Sample(6_100.0, 1.0, 2.0), 0.5)
    assert slow is not None
    assert (str(slow), slow.met) == ("≥ 6,000/s", True)
    late = bar_of(Row("confirm", "open 80 %", 1, 64), Sample(9_000.0, 5.0, 61.0), 0.5)
    assert late is not None
    assert (str(late), late.met) == ("p99 < 60.0 ms", False)
    alone = bar_of(Row("reserve", "one connection", 1, 1), Sample(900.0, 1.1, 3.0), 1.0)
    assert alone is not None
    assert (str(alone), alone.met) == ("p50 < 2.0 ms", True)
    assert bar_of(NO_OP, Sample(1.0, 1.0, 1.0), 1.0) is None


def test_our_reserve_is_held_against_a_bare_redis_decrement_at_the_best_of_both() -> None:
    found = http_ratios(
        {
            RESERVE: Sample(15_000.0, 1.0, 2.0),
            Row("reserve", "closed", 2, 64): Sample(18_000.0, 1.0, 2.0),
            Row("redis decrement", "closed", 1, 64): Sample(10_000.0, 1.0, 2.0),
            Row("redis decrement", "closed", 2, 64): Sample(16_000.0, 1.0, 2.0),
        }
    )
    assert found == {
        "reserve / redis decrement, each at its best": {"value": 1.12, "bar": 1.0, "met": True},
    }


def test_the_median_of_the_rounds_is_what_a_row_says() -> None:
    rounds = [Sample(rate, 1.0, 2.0) for rate in (3.0, 1.0, 2.0)]
    assert HttpMeasured(samples={RESERVE: rounds}).medians()[RESERVE].per_second == 2.0
