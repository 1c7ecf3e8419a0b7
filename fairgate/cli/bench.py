"""`fairgate bench`: measure the stock engine and the stock API on this machine, on servers started for it alone."""

import contextlib
import os
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, get_args

import orjson
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from admission.keyring import Keyring
from chassis.database import read_text
from counters.lanes import LaneSettings
from counters.store import Stock
from fairgate.cli.books import fail, run_long, settings_for
from fairgate.house import HOST, ready
from fairgate.stack.embedded import Stack, open_stack
from fairgate.stack.supervisor import Service
from loadtest.bench.engine import EngineBench
from loadtest.bench.gateway import GatewayBench, GatewaySettings, GatewayStage, quick_gateway_settings
from loadtest.bench.gateway_report import gateway_document, gateway_tables
from loadtest.bench.ground import CONNECTIONS, Ground
from loadtest.bench.http import HttpBench, HttpSettings, HttpStage, quick_http_settings
from loadtest.bench.http_report import http_document, http_tables
from loadtest.bench.load import closed_loop_client
from loadtest.bench.machine import describe_machine
from loadtest.bench.plan import EngineSettings, quick_settings
from loadtest.bench.report import engine_document, engine_tables, honest_faults, soak_table
from loadtest.bench.shop import open_shop
from loadtest.bench.soak import SoakSettings, soak
from loadtest.strategies.strategy import StrategyName

app = typer.Typer(help="Measure speed here, beside what it is compared to.", no_args_is_help=True)

# What the migrations do to the stock's tables; the strategies for comparison get tables of their own made by it.
STOCK_SCRIPTS = ("0001_stock.sql", "0002_engine.sql")
LANES_MAX = CONNECTIONS - 4  # of the bench's pool: each lane has a connection, and other calls need some too
SERVERS_NAMED = ("FAIRGATE_DATABASE_URL", "FAIRGATE_REDIS_URL")


def writable(file: Path | None) -> Path | None:
    """The file, seen to be writable before minutes are spent on what it shall hold."""
    if file is not None:
        with _written(file), file.open("ab"):
            pass
    return file


JsonFile = Annotated[
    Path | None, typer.Option("--json", callback=writable, help="Write everything into this file as JSON.")
]
DataFolder = Annotated[
    Path | None, typer.Option("--data", help="A new folder for the servers; default: a temporary one.")
]
Quick = Annotated[bool, typer.Option("--quick", help="Short measurements: a look within a minute, not a claim.")]


@app.command(epilog="Example: fairgate bench engine --shards 1,8,64 --commit-ms 0,1 --json engine.json")
def engine(
    strategy: Annotated[str, typer.Option(help="Some of them, separated by commas.")] = ",".join(
        get_args(StrategyName)
    ),
    shards: Annotated[str | None, typer.Option(help="Sub-counters of the SKU.")] = None,
    lanes: Annotated[str | None, typer.Option(help="Lanes of the batched engine.")] = None,
    batch: Annotated[str | None, typer.Option(help="Members a statement at most.")] = None,
    commit_ms: Annotated[str | None, typer.Option(help="Each commit takes that much longer (simulated).")] = None,
    history: Annotated[int, typer.Option(min=0, help="Past holds in a second database to compare with.")] = 0,
    hot: Annotated[str | None, typer.Option(help="How many SKUs share the load.")] = None,
    seconds: Annotated[
        float | None, typer.Option(min=0.1, max=86_400, help="Of each measurement; soak: of all.")
    ] = None,
    repeats: Annotated[int, typer.Option(min=1, max=99, help="Rounds; the median counts.")] = 3,
    soaking: Annotated[bool, typer.Option("--soak", help="10 minutes of batched load instead.")] = False,
    quick: Quick = False,
    json_file: JsonFile = None,
    data: DataFolder = None,
) -> None:
    """Holds a second, strategy by strategy, on one machine in one run. Exit code 0 only when the books balance."""
    settings = quick_settings() if quick else EngineSettings()
    settings = replace(
        settings,
        strategies=_strategies(strategy),
        shards=_numbers("--shards", shards, settings.shards, 1, 1024),
        lanes=_numbers("--lanes", lanes, settings.lanes, 1, LANES_MAX),
        batch=_numbers("--batch", batch, settings.batch, 1, 2_000),
        commit_ms=_numbers("--commit-ms", commit_ms, settings.commit_ms, 0, 100),
        hot=_numbers("--hot", hot, settings.hot, 1, 1_000),
        history=history,
        seconds=seconds or settings.seconds,
        repeats=repeats,
    )
    if soaking:
        run_long(_soak(data, json_file, settings, seconds))
    run_long(_engine(data, json_file, settings))


@app.command("http", epilog="Example: fairgate bench http --workers 1,2 --json http.json")
def measure_http(
    workers: Annotated[str | None, typer.Option(help="Workers of the stock API, separated by commas.")] = None,
    connections: Annotated[int, typer.Option(min=1, max=4096, help="Connections that load it.")] = 64,
    seconds: Annotated[float | None, typer.Option(min=0.2, max=3600, help="Of each measurement.")] = None,
    repeats: Annotated[int | None, typer.Option(min=1, max=99, help="Rounds; the median counts.")] = None,
    quick: Quick = False,
    json_file: JsonFile = None,
    data: DataFolder = None,
) -> None:
    """The stock API under load, beside an app that does nothing and a bare Redis decrement. Exit code 0 only when the books balance."""
    settings = quick_http_settings() if quick else HttpSettings()
    settings = replace(
        settings,
        workers=_numbers("--workers", workers, settings.workers, 1, 64),
        connections=connections,
        seconds=seconds or settings.seconds,
        repeats=repeats or settings.repeats,
        client=closed_loop_client(),
    )
    run_long(_http(data, json_file, settings))


@app.command("gateway", epilog="Example: fairgate bench gateway --workers 1,2 --json gateway.json")
def measure_gateway(
    workers: Annotated[str | None, typer.Option(help="Workers of the gateway, separated by commas.")] = None,
    connections: Annotated[int, typer.Option(min=1, max=4096, help="Connections that load it.")] = 64,
    seconds: Annotated[float | None, typer.Option(min=0.2, max=60, help="Of each measurement.")] = None,
    repeats: Annotated[int | None, typer.Option(min=1, max=99, help="Rounds; the median counts.")] = None,
    entries: Annotated[int | None, typer.Option(min=1_000, max=10_000_000, help="Entries in the draw.")] = None,
    quick: Quick = False,
    json_file: JsonFile = None,
    data: DataFolder = None,
) -> None:
    """The line under load: document, gate, join, claim; and a large draw. Exit code 0 only when the records agree with the answers."""
    settings = quick_gateway_settings() if quick else GatewaySettings()
    settings = replace(
        settings,
        workers=_numbers("--workers", workers, settings.workers, 1, 64),
        connections=connections,
        seconds=seconds or settings.seconds,
        repeats=repeats or settings.repeats,
        entries=entries or settings.entries,
        client=closed_loop_client(),
    )
    run_long(_gateway(data, json_file, settings))


@dataclass(frozen=True, slots=True)
class Bench:
    """Servers of the bench's own, and where it says how far it is."""

    stack: Stack
    ground: Ground


@contextlib.asynccontextmanager
async def open_bench(data: Path | None) -> AsyncIterator[Bench]:
    """Durable servers on a new folder, migrated, for the block. Raises StackError."""
    from fairgate.migrations.migrate import migrate  # SQLAlchemy takes a while to import

    for name in SERVERS_NAMED:
        if os.environ.get(name):
            fail(f"The bench fills and loads servers of its own: unset {name}.")
    with _folder(data) as folder:
        async with open_stack(folder, "own") as stack:
            settings = settings_for(stack)
            await migrate(settings.database_url)
            yield Bench(stack, Ground(settings, migrate, stock_tables()))


def stock_tables() -> tuple[str, ...]:
    """The scripts that make the stock's tables, in order."""
    return tuple(read_text("fairgate.migrations", "versions", name) for name in STOCK_SCRIPTS)


async def _engine(data: Path | None, json_file: Path | None, settings: EngineSettings) -> int:
    async with open_bench(data) as bench:
        async with bench.ground.pool() as pool:
            machine = await describe_machine(pool)
        with _progress() as (bar, task):

            def tell(done: int, of: int, what: str) -> None:
                bar.update(task, completed=done, total=of, description=what)

            measured = await EngineBench(bench.ground, settings, tell).run()
    document = engine_document(machine, settings, measured)
    console = Console()
    console.print(engine_tables(measured))
    if any(settings.commit_ms):
        console.print("commit +ms is simulated: commit_delay with commit_siblings = 0, the locks held meanwhile.")
    _write(json_file, document)
    return 1 if honest_faults(measured) else 0


async def _http(data: Path | None, json_file: Path | None, settings: HttpSettings) -> int:
    async with open_bench(data) as bench, bench.ground.pool() as pool:
        machine = await describe_machine(pool)
        chassis = bench.ground.settings
        keyring = Keyring(pool, chassis.master_key_bytes, chassis.public_url + chassis.prefix)
        await keyring.refresh()
        shop = await open_shop(pool, Stock(pool), keyring)
        with tempfile.TemporaryDirectory(prefix="fairgate-feeds-") as feeds, _progress() as (bar, task):

            def tell(done: int, of: int, what: str) -> None:
                bar.update(task, completed=done, total=of, description=what)

            stage = HttpStage(pool, chassis.redis_url, shop, partial(served_app, bench.stack), Path(feeds))
            measured = await HttpBench(stage, settings, tell).run()
    Console().print(http_tables(measured))
    for fault in measured.faults:
        print(f"The books: {fault}", file=sys.stderr)
    _write(json_file, http_document(machine, settings, measured))
    return 1 if measured.faults else 0


async def _gateway(data: Path | None, json_file: Path | None, settings: GatewaySettings) -> int:
    async with open_bench(data) as bench, bench.ground.pool() as pool:
        machine = await describe_machine(pool)
        chassis = bench.ground.settings
        keyring = Keyring(pool, chassis.master_key_bytes, chassis.public_url + chassis.prefix)
        await keyring.refresh()
        with tempfile.TemporaryDirectory(prefix="fairgate-feeds-") as feeds, _progress() as (bar, task):

            def tell(done: int, of: int, what: str) -> None:
                bar.update(task, completed=done, total=of, description=what)

            stage = GatewayStage(pool, chassis.redis_url, keyring, partial(served_app, bench.stack), Path(feeds))
            measured = await GatewayBench(stage, settings, tell).run()
    Console().print(gateway_tables(measured))
    for fault in measured.faults:
        print(f"The records: {fault}", file=sys.stderr)
    _write(json_file, gateway_document(machine, settings, measured))
    return 1 if measured.faults else 0


@contextlib.asynccontextmanager
async def served_app(stack: Stack, app_name: str, workers: int) -> AsyncIterator[int]:
    """The stock API, the gateway, or a floor of the bench's, with so many workers as a child for the block; gives its port."""
    port = _free_port()
    own = {"FAIRGATE_LOG_LEVEL": "warning"}
    ours = app_name in ("stock", "gateway")
    if ours:
        name = app_name.upper()
        own |= {f"FAIRGATE_{name}_PORT": str(port), f"FAIRGATE_{name}_WORKERS": str(workers)}
    program = ("fairgate", "serve", app_name) if ours else ("loadtest.bench.floors", app_name, str(port), str(workers))
    service = Service(
        f"bench-{app_name}",
        (sys.executable, "-m", *program),
        ready=ready(f"http://{HOST}:{port}{'/readyz' if ours else '/'}"),
        environment=stack.environment() | own,
    )
    await stack.supervisor.start(service)
    try:
        yield port
    finally:
        await stack.supervisor.stop(service.name)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


async def _soak(data: Path | None, json_file: Path | None, settings: EngineSettings, seconds: float | None) -> int:
    plan = SoakSettings(shards=settings.shards[-1], lanes=LaneSettings(settings.lanes[0], settings.batch[0]))
    plan = plan if seconds is None else replace(plan, seconds=seconds, window_seconds=min(10.0, seconds / 5))
    async with open_bench(data) as bench:
        async with bench.ground.pool() as pool:
            machine = await describe_machine(pool)
        with _progress() as (bar, task):

            def tell(share: float, per_second: float) -> None:
                bar.update(task, completed=round(100 * share), total=100, description=f"{per_second:,.0f} holds/s")

            soaked = await soak(bench.ground, plan, tell)
    Console().print(soak_table(soaked))
    _write(json_file, {"machine": machine, "soak": soaked.document()})
    return 1 if soaked.faults else 0


@contextlib.contextmanager
def _folder(data: Path | None) -> Iterator[Path]:
    """The folder for the servers' data: the one named, which is kept, or a temporary one."""
    if data is not None:
        yield data
        return
    with tempfile.TemporaryDirectory(prefix="fairgate-bench-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o711)  # the servers run under an account of their own when we are root
        yield Path(folder) / "stack"


@contextlib.contextmanager
def _progress() -> Iterator[tuple[Progress, TaskID]]:
    """A bar on the error output, so that tables can be piped away."""
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True)) as bar:
        yield bar, bar.add_task("starting", total=None)


def _write(file: Path | None, document: Mapping[str, object]) -> None:
    if file is not None:
        with _written(file):
            file.write_bytes(orjson.dumps(document, option=orjson.OPT_INDENT_2) + b"\n")


@contextlib.contextmanager
def _written(file: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        fail(f"{file} cannot be written: {error.strerror}.")


def _strategies(text: str) -> tuple[StrategyName, ...]:
    """The strategies named in `text`, in their own order."""
    asked = {name.strip() for name in text.split(",")}
    unknown = asked - set(get_args(StrategyName))
    if unknown:
        fail(f"There is no strategy {', '.join(sorted(unknown))}: choose among {', '.join(get_args(StrategyName))}.")
    names: tuple[StrategyName, ...] = get_args(StrategyName)
    return tuple(name for name in names if name in asked)


def _numbers(option: str, text: str | None, default: tuple[int, ...], least: int, most: int) -> tuple[int, ...]:
    """Whole numbers separated by commas, ascending, none twice."""
    if text is None:
        return default
    try:
        numbers = sorted({int(part) for part in text.split(",")})
    except ValueError:
        fail(f"{option} takes whole numbers separated by commas, such as 1,8,64.")
    if not least <= numbers[0] <= numbers[-1] <= most:
        fail(f"{option} takes numbers from {least} to {most:,}.")
    return tuple(numbers)
