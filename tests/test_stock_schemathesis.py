"""schemathesis reads our OpenAPI document, sends the running stock API what it allows and what it does not, and compares."""

import asyncio
import re
import sys
from pathlib import Path

import pytest

from chassis.database import Pool
from chassis.settings import Settings
from counters.app import create
from tests.line_world import serving
from tests.stock_counter import open_counter

# 422 where the schema is met: relations between fields, which no schema says, and whole numbers written as 1.0.
CONFIG = """
[checks.positive_data_acceptance]
expected-statuses = ["2xx", "401", "403", "404", "409", "422", "503"]
[[operations]]
include-path-regex = "^/admin"
headers = {{ Authorization = "{operator}" }}
parameters = {{ sku = "ticket" }}
[[operations]]
include-path-regex = "^/v1"
headers = {{ Authorization = "{shop}", "Fairgate-Pass" = "{token}" }}
parameters = {{ sku = "hall" }}
"""
EXAMPLES = 3


@pytest.mark.timeout(300)
async def test_schemathesis_finds_nothing(settings: Settings, pool: Pool, tmp_path: Path) -> None:
    async with open_counter(settings, pool) as counter, serving(create(settings)) as url:
        await counter.world.fungible(total=1000)
        await counter.world.seated()
        config = tmp_path / "schemathesis.toml"
        config.write_text(
            CONFIG.format(
                operator=counter.operator["Authorization"],
                shop=counter.shop["Authorization"],
                token=counter.pass_for(),
            )
        )
        run = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "schemathesis.cli", "--config-file", str(config), "run",
            f"{url}/openapi.json", "--url", url,
            "--max-examples", str(EXAMPLES), "--seed", "1", "--generation-deterministic", "--no-color",
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, cwd=tmp_path,
        )  # fmt: skip
        output, _ = await run.communicate()
        told = output.decode()
        assert run.returncode == 0, told[-6000:]
        passed = re.search(r"(\d+) generated, (\d+) passed", told)
        assert passed is not None and passed[1] == passed[2] and int(passed[1]) > 300, told[-3000:]
        assert await counter.world.faults() == []
