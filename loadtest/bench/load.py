"""Runs a load client as a child process: wrk where it is installed and the loop is closed, else our own."""

import asyncio
import contextlib
import secrets
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from loadtest.bench.feed import Feed
from loadtest.bench.raw import Loaded

SCRIPT = Path(__file__).with_name("load.lua")
GRACE_SECONDS = 30.0

Client = Literal["wrk", "raw"]


class LoadError(Exception):
    """A load client did not do its work; the message holds its last words."""


@dataclass(frozen=True, slots=True)
class Target:
    """A server on this machine, and over how many connections it is loaded."""

    port: int
    connections: int
    host: str = "127.0.0.1"


def closed_loop_client() -> Client:
    """wrk where it is installed."""
    return "wrk" if shutil.which("wrk") else "raw"


async def load_closed(target: Target, feed: Feed, seconds: float, folder: Path, client: Client) -> Loaded:
    """Send the feed's requests, each connection again once it is answered. Raises LoadError."""
    with _written(feed, folder) as file:
        if client == "raw":
            return await _run(_raw(target, feed, file, seconds), seconds)
        whole_seconds = max(1, round(seconds))  # wrk knows no others
        argv = (
            "wrk", "-t", "1", "-c", str(target.connections), "-d", f"{whole_seconds}s", "-s", str(SCRIPT),
            f"http://{target.host}:{target.port}", "--", str(file), _prefix(), "rotate" if feed.rotate else "once",
        )  # fmt: skip
        return await _run(argv, whole_seconds)


async def load_open(target: Target, feed: Feed, seconds: float, folder: Path, rate: float) -> Loaded:
    """Send `rate` requests a second whether or not earlier ones are answered; latencies from the intended send time."""
    with _written(feed, folder) as file:
        return await _run((*_raw(target, feed, file, seconds), "--rate", str(rate)), seconds)


def _raw(target: Target, feed: Feed, file: Path, seconds: float) -> tuple[str, ...]:
    return (
        sys.executable, "-m", "loadtest.bench.raw", "--host", target.host, "--port", str(target.port),
        "--connections", str(target.connections), "--seconds", str(seconds), "--prefix", _prefix(), str(file),
        *(("--rotate",) if feed.rotate else ()),
    )  # fmt: skip


async def _run(argv: tuple[str, ...], seconds: float) -> Loaded:
    """The client's last line, which is its result; no process is left."""
    process = await asyncio.create_subprocess_exec(
        *argv, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    try:
        output, _ = await asyncio.wait_for(process.communicate(), seconds + GRACE_SECONDS)
    except TimeoutError:
        raise LoadError(f"{Path(argv[0]).name} did not end in its time") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    lines = output.decode(errors="replace").strip().splitlines() or ["it said nothing"]
    try:
        return msgspec.json.decode(lines[-1], type=Loaded)
    except msgspec.MsgspecError:
        raise LoadError(f"{Path(argv[0]).name} failed: {lines[-1]}") from None


@contextlib.contextmanager
def _written(feed: Feed, folder: Path) -> Iterator[Path]:
    """The feed's file for the block."""
    file = folder / f"feed-{secrets.token_hex(4)}"
    feed.write(file)
    try:
        yield file
    finally:
        file.unlink()


def _prefix() -> str:
    """What the keys of one run begin with: no other run uses them."""
    return f"{secrets.token_hex(6)}-"
