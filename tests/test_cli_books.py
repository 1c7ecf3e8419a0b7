"""The commands that sellers and support type: adjust, halt, history, as-of and a hold's story."""

import asyncio
import json
from datetime import datetime
from typing import Any

import pytest
from typer.testing import CliRunner

from chassis.database import Pool
from chassis.settings import Settings
from counters.rules import Line
from fairgate.__main__ import app
from tests.stock_world import World, codes


class Shell:
    """Runs `fairgate` on a test's stores, in a thread of its own: a command runs its own event loop."""

    def __init__(self, settings: Settings) -> None:
        self._environment = {
            "COLUMNS": "200",
            "FAIRGATE_DATABASE_URL": settings.database_url,
            "FAIRGATE_REDIS_URL": settings.redis_url,
            "FAIRGATE_MASTER_KEY": settings.master_key.get_secret_value(),
        }

    async def run(self, *argv: str) -> tuple[int, str, str]:
        ran = await asyncio.to_thread(CliRunner().invoke, app, argv, env=self._environment)
        assert ran.exception is None or isinstance(ran.exception, SystemExit), ran.exception
        return ran.exit_code, ran.stdout, ran.stderr

    async def read(self, *argv: str) -> Any:
        """What a command that succeeds prints, as JSON."""
        code, said, complained = await self.run(*argv)
        assert code == 0, complained
        return json.loads(said)


@pytest.fixture
def shell(settings: Settings) -> Shell:
    return Shell(settings)


@pytest.fixture
def world(pool: Pool) -> World:
    return World(pool)


ADJUST = ("sku", "adjust", "ticket", "--source", "till", "--reason", "counted")


async def test_a_seller_adjusts_and_finds_it_in_the_history(shell: Shell, world: World) -> None:
    await world.fungible(total=10)
    await world.hold(quantity=8)
    made = await shell.read(*ADJUST, "--increase", "2", "--key", "one")
    assert (await shell.read(*ADJUST, "--increase", "2", "--key", "one"))["id"] == made["id"]
    code, _, complained = await shell.run(*ADJUST, "--reduce", "6")
    assert (code, "6 units were to go, and 4 are free" in complained) == (1, True), complained
    assert (await shell.read(*ADJUST, "--reduce", "6", "--accept-shortage"))["short"] == 2
    (incident,) = await shell.read("sku", "incidents", "--json")
    assert (incident["sku"], incident["quantity"]) == ("ticket", 2)
    entries = (await shell.read("sku", "history", "ticket", "--json"))["entries"]
    assert [entry["number"] for entry in entries] == list(range(1, len(entries) + 1))
    assert {"create", "reserve", "increase", "reduce"} == {entry["verb"] for entry in entries}
    code, table, _ = await shell.run("sku", "history", "ticket", "--limit", "3", "--after", "5")
    assert (code, "till: counted" in table) == (0, True), table


@pytest.mark.parametrize("units", [(), ("--increase", "1", "--reduce", "1"), ("--increase", "0"), ("--recount", "-1")])
async def test_an_adjustment_that_says_nothing_clear_changes_nothing(
    shell: Shell, world: World, units: tuple[str, ...]
) -> None:
    await world.fungible(total=10)
    code, _, complained = await shell.run(*ADJUST, *units)
    assert code == 1 and complained
    assert await world.counts() == (10, 0, 0)


async def test_a_sale_is_halted_and_resumed(shell: Shell, world: World) -> None:
    await world.fungible()
    assert (await shell.read("sku", "halt", "ticket", "--reason", "fraud"))["state"] == "halted"
    assert codes([await world.reserve(Line("ticket", 1))]) == ["not-on-sale"]
    assert (await shell.read("sku", "resume", "ticket", "--reason", "cleared"))["state"] == "on_sale"
    assert codes([await world.reserve(Line("ticket", 1))]) == ["done"]


async def test_support_reads_what_was_and_what_befell_a_hold(shell: Shell, world: World) -> None:
    await world.fungible(total=10)
    before: datetime = await world.pool.fetchval("SELECT clock_timestamp()")
    hold = await world.hold(quantity=2, buyer="ada")
    assert codes([await world.confirm(hold)]) == ["done"]
    figures = await shell.read("sku", "show", "ticket", "--as-of", before.isoformat(), "--json")
    assert (figures["available"], figures["sold"]) == (10, 0)
    for moment, said in (("2999-01-01T00:00:00Z", "future"), ("2001-01-01T00:00:00Z", "created"), ("noon", "as_of")):
        code, _, complained = await shell.run("sku", "show", "ticket", "--as-of", moment)
        assert (code, said in complained) == (1, True), complained
    code, told, _ = await shell.run("hold", "explain", str(hold.name.id))
    assert code == 0
    _, reserved, sold, now = told.strip().splitlines()
    assert "reserved by shop:box for ada: 2 × ticket, until " in reserved
    assert "sold to the buyer as shop:box said" in sold
    assert now.startswith("It is sold")
    assert (await shell.read("hold", "explain", str(hold.name.id), "--json"))["state"] == "sold"
    code, _, complained = await shell.run("hold", "explain", str(hold.name.id)[:-1] + "2")
    assert (code, "no hold" in complained) == (1, True)
