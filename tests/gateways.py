"""Gateways as processes of their own, whose logs a test may read and which it may stop as an operator would."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import httpx

from chassis.settings import Settings
from tests.line_world import until
from tests.servers import PROJECT
from tests.shop_world import unused_port

STOP_SECONDS_MAX = 60.0


@dataclass(frozen=True, slots=True)
class Gateway:
    """A running `fairgate serve gateway`."""

    url: str
    process: asyncio.subprocess.Process
    log: Path

    async def stop(self) -> int:
        """Stop it gracefully, as a deploy does; its exit code."""
        if self.process.returncode is None:
            self.process.send_signal(signal.SIGTERM)
        return await asyncio.wait_for(self.process.wait(), STOP_SECONDS_MAX)


@contextlib.asynccontextmanager
async def gateway_process(settings: Settings, log: Path, *, log_level: str = "info") -> AsyncIterator[Gateway]:
    """A gateway that serves; stopped at the end, if the test has not done so."""
    port = unused_port()
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("FAIRGATE_")},
        "FAIRGATE_DATABASE_URL": settings.database_url,
        "FAIRGATE_REDIS_URL": settings.redis_url,
        "FAIRGATE_MASTER_KEY": settings.master_key.get_secret_value(),
        "FAIRGATE_GATEWAY_PORT": str(port),
        "FAIRGATE_LOG_LEVEL": log_level,
    }
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "fairgate", "serve", "gateway"),
            env=environment,
            stdout=output,
            stderr=output,
            cwd=PROJECT,
        )
    gateway = Gateway(f"http://127.0.0.1:{port}", process, log)
    try:
        async with httpx.AsyncClient(base_url=gateway.url, trust_env=False) as asked:

            async def ready() -> bool:
                assert process.returncode is None, log.read_text()
                try:
                    return (await asked.get("/readyz")).status_code == 200
                except httpx.HTTPError:
                    return False

            await until(ready, "the gateway serves")
        yield gateway
    finally:
        await gateway.stop()
