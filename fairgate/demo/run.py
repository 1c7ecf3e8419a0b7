"""Runs the demo: sets the stage, starts the house, sends the crowd, shows the sale, and judges it."""

import asyncio
import contextlib
import os
import sys
import time
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import httpx
from rich.console import Console
from rich.live import Live

from chassis.database import Pool, open_pool
from chassis.settings import Settings
from fairgate.cli.books import settings_for
from fairgate.demo.stage import ROOM, Keys, announce, clear, example_stock, furnish, give_people_time
from fairgate.demo.view import draw, summary
from fairgate.demo.watch import Snapshot, Watcher
from fairgate.house import HOST, Guarded, Ports, check_ports, house_environment, ready, served, start_front, start_house
from fairgate.stack.embedded import Stack, open_stack
from fairgate.stack.errors import StackError
from fairgate.stack.supervisor import Service
from loadtest.crowd import Crowd, CrowdError
from loadtest.evidence import read_evidence
from loadtest.records import read_records
from loadtest.render import render
from loadtest.settings import CrowdSettings
from loadtest.verdict import Verdict, VerdictSettings, judge

OPENS_IN_SECONDS = 10.0
LOOK_SECONDS = 0.5
LINE_EVERY_SECONDS = 5.0
REST_SECONDS_MAX = 60.0
NEWS_KEPT = 4


@dataclass(frozen=True, slots=True)
class Plan:
    """What a person asked for."""

    data: Path
    port: int
    shoppers: int
    rate_per_minute: int
    active_max: int
    seed: int
    exit_after: bool


async def run_demo(plan: Plan, console: Console) -> int:
    """The whole demo; its exit code is the verdict's. Raises StackError, SettingsError."""
    started = time.monotonic()
    ports = Ports(plan.port)
    check_ports(ports)
    news: deque[str] = deque(maxlen=NEWS_KEPT)
    async with _house(plan, ports, news, console) as (settings, pool):
        await announce(pool, OPENS_IN_SECONDS, plan.rate_per_minute, plan.active_max)
        first_page = f"{ports.public_url}{settings.prefix}/rooms/{ROOM}"
        await served(first_page)
        console.print(f"First page after {time.monotonic() - started:.1f} s: {first_page}")
        crowd = await _send_crowd(plan, ports, settings)
        try:
            await _watch(plan, ports, settings, pool, crowd, news, console)
        finally:
            await crowd.stop()
        verdict = await _judge(plan, pool)
        console.print(render(verdict))
        if not plan.exit_after:
            await give_people_time(pool)
            await _stay(first_page, ports, console)
        return 0 if verdict.ok else 1


async def _send_crowd(plan: Plan, ports: Ports, settings: Settings) -> Crowd:
    crowd = Crowd(_crowd_settings(plan, settings), ports.public_url)
    try:
        await crowd.start()
    except CrowdError as error:
        raise StackError(str(error)) from error
    return crowd


@contextlib.asynccontextmanager
async def _house(plan: Plan, ports: Ports, news: deque[str], console: Console) -> AsyncIterator[tuple[Settings, Pool]]:
    """Stores, processes, shop and front, with the stage set."""
    console.print("Starting Postgres, Valkey, gateway, stock API, reconciler, shop and nginx …")
    async with open_stack(plan.data, report=news.append) as stack:
        os.environ["FAIRGATE_PUBLIC_URL"] = ports.public_url
        settings = settings_for(stack)
        await clear(stack.database_url, stack.redis_url, plan.data)
        pool = await open_pool(settings, connections=4)
        try:
            keys = await furnish(pool, example_stock())
            await _start(stack, plan, ports, keys)
            yield settings, pool
        finally:
            await pool.close()


async def _start(stack: Stack, plan: Plan, ports: Ports, keys: Keys) -> None:
    shop_url = f"http://{HOST}:{ports.shop}"
    environment = house_environment(stack, ports) | {
        "FAIRGATE_PAYMENT_INQUIRY_URL": f"{shop_url}/payments",
        "FAIRGATE_PAYMENT_INQUIRY_KEY": keys.inquiry_key,
    }
    shop_environment = stack.environment() | {
        "FAIRGATE_PUBLIC_URL": ports.public_url,
        "FAIRGATE_SHOP_STOCK_URL": f"http://{HOST}:{ports.stock}",
        "FAIRGATE_SHOP_STOCK_KEY": keys.stock_key,
        "FAIRGATE_SHOP_INQUIRY_KEY": keys.inquiry_key,
        "FAIRGATE_SHOP_PAYMENTS_FILE": str(_fresh(plan.data / "payments.sqlite")),
        "FAIRGATE_SHOP_PORT": str(ports.shop),
    }
    shop = Service(
        "shop",
        (sys.executable, "-m", "fairgate.shop"),
        ready=ready(f"{shop_url}/healthz"),
        environment=shop_environment,
    )
    await asyncio.gather(
        start_house(stack, ports, environment),
        stack.supervisor.start(shop),
        start_front(stack, ports, Guarded(shop_url, ROOM), plan.data),
    )


async def _watch(
    plan: Plan, ports: Ports, settings: Settings, pool: Pool, crowd: Crowd, news: deque[str], console: Console
) -> None:
    """Show the sale until everybody has gone home and every hold has ended, or for so long that it must be judged as it is."""
    started = time.monotonic()
    done = asyncio.create_task(crowd.wait())
    rest_until = float("inf")
    last_line = -LINE_EVERY_SECONDS
    status_url = f"http://{HOST}:{ports.gateway}/rooms/{ROOM}/status"
    async with httpx.AsyncClient(timeout=1.0, trust_env=False) as client:
        watcher = Watcher(pool, client, status_url, tuple(example_stock()))
        with Live(console=console, auto_refresh=False, transient=False) if console.is_terminal else _Quiet() as live:
            while True:
                now = time.monotonic()
                snapshot = await watcher.look(now)
                if isinstance(live, Live):
                    live.update(draw(snapshot, crowd.progress(), now - started, news), refresh=True)
                elif now - last_line >= LINE_EVERY_SECONDS:
                    last_line = now
                    console.print(summary(snapshot, crowd.progress(), now - started))
                if done.done():
                    rest_until = min(rest_until, now + REST_SECONDS_MAX)
                    if _at_rest(snapshot) or now > rest_until:
                        return
                await asyncio.sleep(LOOK_SECONDS)


class _Quiet(contextlib.nullcontext[None]):
    """Stands for the live view where there is no terminal."""


def _at_rest(snapshot: Snapshot) -> bool:
    return snapshot.skus is not None and all(sku.held == 0 for sku in snapshot.skus)


async def _judge(plan: Plan, pool: Pool) -> Verdict:
    evidence = await read_evidence(pool, ROOM, tuple(example_stock()))
    records = await asyncio.to_thread(read_records, plan.data / "crowd")
    return judge(evidence, records, VerdictSettings(plan.shoppers))


async def _stay(first_page: str, ports: Ports, console: Console) -> None:
    """Keep the house open for a person, until Ctrl-C."""
    console.print(
        f"\nThe house stays open. Queue and buy a ticket yourself: [bold]{ports.public_url}/[/]\n"
        f"The waiting page: {first_page}\nThe line's public status: {first_page}/status\n"
        f"In another terminal: fairgate audit; fairgate reconcile --once\nCtrl-C ends it."
    )
    await asyncio.Event().wait()


def _crowd_settings(plan: Plan, settings: Settings) -> CrowdSettings:
    folder = plan.data / "crowd"
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    return CrowdSettings(
        shoppers=plan.shoppers,
        seed=plan.seed,
        room=ROOM,
        prefix=settings.prefix,
        folder=folder,
        opens_in_seconds=OPENS_IN_SECONDS,
    )


def _fresh(file: Path) -> Path:
    for name in (file.name, f"{file.name}-wal", f"{file.name}-shm"):
        file.with_name(name).unlink(missing_ok=True)
    return file.absolute()
