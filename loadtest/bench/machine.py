"""What a figure was measured on: a claim about speed without its machine says nothing."""

import os
import platform
from importlib.metadata import version
from pathlib import Path

import asyncpg

from chassis.database import Pool


async def describe_machine(pool: Pool) -> dict[str, object]:
    """Processor, memory, versions, and how durable Postgres' commits are."""
    names = ("server_version", "fsync", "synchronous_commit", "shared_buffers", "wal_sync_method")
    postgres = {name: await pool.fetchval("SELECT current_setting($1)", name) for name in names}
    return {
        "processor": _processor(),
        "cores": os.cpu_count() or 0,
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "asyncpg": asyncpg.__version__,
        "uvicorn": version("uvicorn"),
        "postgres": postgres,
        "load_before": round(os.getloadavg()[0], 2),
    }


def _processor() -> str:
    """The processor's name as the kernel tells it, else the kind of machine."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
