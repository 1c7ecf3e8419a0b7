"""The gateway's bench: a tiny run against the real processes fills every row and proves its records; no speed is judged."""

import tempfile
from functools import partial
from pathlib import Path

import orjson

from admission.keyring import Keyring
from chassis.database import Pool
from chassis.settings import Settings
from fairgate.cli.bench import served_app
from fairgate.stack.embedded import Stack
from fairgate.stack.supervisor import Supervisor
from loadtest.bench.figures import Sample
from loadtest.bench.gateway import MEASURED, GatewayBench, GatewayRow, GatewaySettings, GatewayStage
from loadtest.bench.gateway_report import gateway_bar, gateway_document, gateway_scale, gateway_tables
from loadtest.bench.http_report import REFERENCE_FLOOR

TINY = GatewaySettings(
    workers=(1,), connections=4, seconds=0.3, repeats=1, passes=100, once_per_second=500, claims_per_second=200,
    entries=3_000, client="raw",
)  # fmt: skip


async def test_a_run_fills_every_row_and_proves_its_records(settings: Settings, pool: Pool) -> None:
    keyring = Keyring(pool, settings.master_key_bytes, settings.public_url + settings.prefix)
    await keyring.refresh()
    told: list[tuple[int, int, str]] = []
    with tempfile.TemporaryDirectory() as folder:
        async with Supervisor(Path(folder) / "log") as supervisor:
            stack = Stack(settings.database_url, settings.redis_url, settings.master_key.get_secret_value(), supervisor)
            stage = GatewayStage(pool, settings.redis_url, keyring, partial(served_app, stack), Path(folder))
            measured = await GatewayBench(stage, TINY, lambda *step: told.append(step)).run()
    document = orjson.loads(orjson.dumps(gateway_document({"cores": 2}, TINY, measured)))
    assert document["audit"]["faults"] == []
    assert document["audit"]["admitted"] > 0
    rows = {row["what"]: row for row in document["rows"]}
    assert set(rows) == {"no-op", *MEASURED}
    for row in rows.values():
        assert row["per_second"] > 0
        assert row["errors"] == 0, row
    assert [fact["unit"] for fact in document["facts"]] == ["bytes", "bytes", "s", "s", "µs"]
    assert all(fact["value"] > 0 for fact in document["facts"])
    assert told[-1][0] == told[-1][1]
    assert gateway_tables(measured).renderables


def test_bars_are_for_one_worker_and_scaled_by_a_lower_floor() -> None:
    medians = {GatewayRow("no-op", 1, 64): Sample(REFERENCE_FLOOR / 2, 1.0, 2.0)}
    assert gateway_scale(medians) == 0.5
    bar = gateway_bar(GatewayRow("claim", 1, 64), Sample(2_100.0, 1.0, 2.0), 0.5)
    assert bar is not None
    assert (str(bar), bar.met) == ("≥ 2,000/s", True)
    assert gateway_bar(GatewayRow("claim", 2, 64), Sample(2_100.0, 1.0, 2.0), 0.5) is None
