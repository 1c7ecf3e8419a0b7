"""The main job, whole: `fairgate demo` with a small crowd while its servers and processes are killed, then the audit."""

import asyncio
import json
import os
import signal
import socket
import sys
import tempfile
from pathlib import Path

import psutil
import pytest

from tests.servers import PROJECT, gone, until

SHOPPERS = 60
DEMO_SECONDS_MAX = 220.0


def free_port() -> int:
    """The first of five free ports in a row."""
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = int(probe.getsockname()[1])
        if port < 60_000 and all(_free(port + offset) for offset in range(5)):
            return port


def _free(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


def descendants(process_id: int, *words: str) -> list[psutil.Process]:
    """The demo's processes whose command line holds all of `words`."""
    found = []
    for process in psutil.Process(process_id).children(recursive=True):
        try:
            line = " ".join(process.cmdline())
        except psutil.Error:
            continue
        if all(word in line for word in words):
            found.append(process)
    return found


@pytest.mark.timeout(300)
@pytest.mark.xdist_group("demo")
async def test_a_sale_survives_kill_9_of_everything_and_its_books_balance() -> None:
    with tempfile.TemporaryDirectory(prefix="fairgate-demo-") as folder:
        Path(folder).chmod(0o711)
        data = Path(folder) / "data"
        demo = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "fairgate", "demo", "--exit", "--shoppers", str(SHOPPERS), "--data", str(data),
            "--port", str(free_port()), "--rate", "240",
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, cwd=PROJECT, env=_environment(),
        )  # fmt: skip
        assert demo.stdout is not None
        said = asyncio.create_task(demo.stdout.read())

        async def some_sold() -> bool:
            try:
                progress = json.loads((data / "crowd" / "progress.json").read_text())
            except (OSError, ValueError):
                return demo.returncode is not None
            return bool(progress["sold"] >= 3)

        await until(some_sold, 120)
        for words in (
            ("postgres", "-D"),
            ("valkey-server",),
            ("serve", "stock"),
            ("serve", "reconciler"),
            ("serve", "gateway"),
        ):
            victims = [process for process in descendants(demo.pid, *words) if "launch.py" not in process.cmdline()]
            assert victims, f"no process of the demo matches {words}"
            victims[0].send_signal(signal.SIGKILL)
        async with asyncio.timeout(DEMO_SECONDS_MAX):
            output = (await said).decode()
            code = await demo.wait()
        assert code == 0, output
        assert "every promise was kept" in output

        audit = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "fairgate", "audit", "--json", "--data", str(data),
            stdout=asyncio.subprocess.PIPE, cwd=PROJECT, env=_environment(),
        )  # fmt: skip
        answer, _ = await audit.communicate()
        assert audit.returncode == 0
        assert json.loads(answer) == {"balanced": True, "faults": []}
        await gone(data)


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("FAIRGATE_")}
