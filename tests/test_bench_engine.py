"""The engine's bench: a tiny run measures every strategy, proves its books and writes what it promises; no speed is judged."""

from dataclasses import replace

import orjson
import pytest
from typer.testing import CliRunner

from chassis.settings import Settings
from counters.lanes import LaneSettings
from fairgate.cli.bench import app, stock_tables
from fairgate.migrations.migrate import migrate
from loadtest.bench.engine import EngineBench, Measured, SoldOut
from loadtest.bench.figures import Sample, median, percentile
from loadtest.bench.ground import Ground
from loadtest.bench.machine import describe_machine
from loadtest.bench.measure import Tally, closed_loop
from loadtest.bench.plan import EngineSettings, Variant, quick_settings, variants
from loadtest.bench.report import engine_document, engine_tables, honest_faults, ratios
from loadtest.bench.soak import SoakSettings, soak
from loadtest.strategies.choose import STRATEGIES

TINY = EngineSettings(
    shards=(1, 2),
    lanes=(1,),
    commit_ms=(0,),
    hot=(1,),
    seconds=0.1,
    warm_seconds=0.02,
    repeats=1,
    callers=8,
    stock=5,
    tries=40,
)


@pytest.fixture
def ground(settings: Settings) -> Ground:
    return Ground(settings, migrate, stock_tables())


def sampled(**rates: float) -> dict[Variant, Sample]:
    """Samples of strategies at the named rates, as `sharded_4=100.0` for sharded over 4."""
    found = {}
    for name, rate in rates.items():
        strategy, _, shards = name.replace("cas_row", "cas-row").rpartition("_")
        found[Variant(next(one for one in STRATEGIES if one == strategy), shards=int(shards))] = Sample(rate, 1.0, 2.0)
    return found


async def test_a_run_measures_every_strategy_and_proves_its_books(ground: Ground) -> None:
    told: list[tuple[int, int, str]] = []
    measured = await EngineBench(ground, TINY, lambda *step: told.append(step)).run()
    async with ground.pool() as pool:
        document = engine_document(await describe_machine(pool), TINY, measured)
    written = orjson.loads(orjson.dumps(document))
    assert honest_faults(measured) == []
    assert written["audit"]["clean"] is True
    assert {row["strategy"] for row in written["rows"]} == set(STRATEGIES)
    for row in written["rows"]:
        assert row["per_second"] > 0
        assert 0 < row["p50_ms"] <= row["p99_ms"]
        assert (row["errors"], row["refused"]) == (0, 0)
    assert {"shards", "lanes", "batch", "commit_ms", "history", "hot"} <= written["rows"][0].keys()
    assert written["machine"]["postgres"]["server_version"].startswith("18")
    assert all(floor["per_second"] > 0 for floor in written["floor"].values())
    assert told[-1][0] == told[-1][1]
    assert [step for step, _, _ in told] == sorted(step for step, _, _ in told)
    for name, rush in written["audit"]["sold_out"].items():
        assert rush["granted"] == TINY.stock + rush["oversold"], name
        assert name == "naive" or rush["oversold"] == 0
    assert engine_tables(measured).renderables


async def test_a_filled_history_balances_and_is_measured_beside_an_empty_one(
    ground: Ground, settings: Settings
) -> None:
    plan = replace(TINY, strategies=("batched",), shards=(1,), history=50)
    told: list[str] = []
    try:
        measured = await EngineBench(ground, plan, lambda _done, _of, what: told.append(what)).run()
        assert {variant.history for variant in measured.samples} == {0, 50}
        assert "batched, filled / empty history" in ratios(measured.medians())
        async with ground.pool(history=True) as pool:
            for table, rows in (("holds", 50), ("hold_parts", 50), ("idempotency", 50), ("ledger", 100)):
                where = "sku_id = (SELECT id FROM stock.skus WHERE name = 'past')"
                assert await pool.fetchval(f"SELECT count(*) FROM stock.{table} WHERE {where}") == rows
    finally:
        async with ground.pool() as pool:
            await pool.execute("DROP DATABASE IF EXISTS bench_history WITH (FORCE)")
    assert any("filling the history" in what for what in told)
    assert honest_faults(measured) == []


async def test_a_run_that_would_take_too_long_measures_fewer_rounds_and_says_so(ground: Ground) -> None:
    plan = replace(TINY, strategies=("batched",), shards=(1,), repeats=5, seconds_max=0.001)
    measured = await EngineBench(ground, plan, lambda *_: None).run()
    (row,) = orjson.loads(orjson.dumps(engine_document({}, plan, measured)))["rows"]
    assert row["rounds"] == 1


async def test_commits_are_slowed_in_the_sessions_of_that_variant_only(ground: Ground) -> None:
    async with ground.pool(commit_ms=5) as slow, ground.pool() as plain:
        for pool, delay, siblings in ((slow, "5000", "0"), (plain, "0", "5")):
            assert await pool.fetchval("SELECT setting FROM pg_settings WHERE name = 'commit_delay'") == delay
            assert await pool.fetchval("SELECT setting FROM pg_settings WHERE name = 'commit_siblings'") == siblings


async def test_a_soak_keeps_its_books_under_an_old_snapshot_and_audits(ground: Ground) -> None:
    plan = SoakSettings(seconds=0.6, shards=2, lanes=LaneSettings(1, 50), callers=8, window_seconds=0.2)
    soaked = await soak(ground, plan, lambda _share, _rate: None)
    assert len(soaked.windows) == 3
    assert min(soaked.windows) > 0
    assert soaked.audits >= 1
    assert soaked.faults == ()
    assert soaked.document()["worst"] == min(soaked.windows)


async def test_each_call_has_a_number_of_its_own_and_goes_into_the_rate() -> None:
    tally = Tally()
    numbers: list[int] = []

    async def call(number: int) -> None:
        numbers.append(number)

    sample = await closed_loop(call, tasks=3, seconds=0.01, tally=tally)
    assert sorted(numbers) == list(range(len(numbers)))
    assert len(tally.latencies) == len(numbers)
    assert 0 < sample.per_second <= len(numbers) / 0.01


def test_every_strategy_competes_and_then_one_axis_at_a_time_changes() -> None:
    plan = variants(EngineSettings(history=1000))
    assert len(plan) == len(set(plan))
    assert {variant.strategy for variant in plan} == set(STRATEGIES)
    assert {variant.shards for variant in plan if variant.strategy == "sharded"} == {1, 8, 64}
    assert {variant.lanes for variant in plan if variant.strategy == "batched"} == {1, 2, 4}
    assert {variant.hot for variant in plan} == {1, 10, 100}
    assert [variant.history for variant in plan if variant.history] == [1000]
    assert {variant.commit_ms for variant in plan if variant.strategy == "cas-row"} == {0, 1}
    assert len(variants(quick_settings())) < 12


def test_ratios_are_judged_by_their_bars_and_left_out_where_a_side_is_missing() -> None:
    found = ratios(
        sampled(batched_1=50_000.0, batched_64=48_000.0, sharded_1=3000.0, sharded_64=9000.0, cas_row_1=2500.0)
    )
    assert found["batched / sharded, each at its best"] == {"value": 5.56, "bar": 6.0, "met": False}
    assert found["batched / cas-row"] == {"value": 20.0, "bar": 15.0, "met": True}
    assert found["sharded, best N / N = 1, commits + 0 ms"] == {"value": 3.0, "bar": 2.0, "met": True}
    assert found["batched, N = 64 / N = 1"] == {"value": 0.96, "bar": 0.9, "met": True}
    assert ratios(sampled(batched_1=50_000.0, sharded_1=3000.0)).keys() == {"batched / sharded, each at its best"}


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("--shards", "nine"), "whole numbers separated by commas"),
        (("--lanes", "0"), "from 1 to"),
        (("--commit-ms", "1,500"), "from 0 to 100"),
        (("--strategy", "batched,hopeful"), "no strategy hopeful"),
        (("--json", "/nowhere/engine.json"), "cannot be written"),
    ],
)
def test_a_mistake_is_answered_with_a_line_before_any_server_starts(arguments: tuple[str, ...], word: str) -> None:
    refused = CliRunner().invoke(app, ["engine", *arguments])
    assert refused.exit_code == 1
    assert word in refused.stderr


def test_named_servers_are_never_filled_with_a_bench(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRGATE_DATABASE_URL", "postgresql://somebody@else/database")
    refused = CliRunner().invoke(app, ["engine", "--quick"])
    assert refused.exit_code == 1
    assert "unset FAIRGATE_DATABASE_URL" in refused.stderr


def test_only_naive_may_leave_faults() -> None:
    rush = SoldOut(stock=5, tries=40, granted=9, oversold=4, faults=("oversold by 4",))
    assert honest_faults(Measured(sold_out={"naive": rush}, faults={Variant("naive"): ["drift"]})) == []
    assert honest_faults(Measured(sold_out={"sharded": rush})) == ["sharded: oversold by 4"]


def test_the_median_is_taken_figure_by_figure_and_errors_add_up() -> None:
    rounds = [Sample(3.0, 1.0, 9.0, 0, 1), Sample(1.0, 2.0, 8.0, 0, 0), Sample(2.0, 3.0, 7.0, 5, 2)]
    assert median(rounds) == Sample(2.0, 2.0, 8.0, 5, 3)
    assert (percentile([], 0.5), percentile([1.0, 2.0, 3.0, 4.0], 0.5), percentile([1.0], 0.99)) == (0.0, 3.0, 1.0)
