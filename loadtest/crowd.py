"""Sends a crowd: Locust, headless, as a child process. Importing Locust patches sockets, so it never runs in ours."""

import asyncio
import contextlib
import os
import signal
import sys
from importlib.util import find_spec
from pathlib import Path

from loadtest.progress import Progress, read_progress
from loadtest.settings import CrowdSettings

LOCUSTFILE = Path(__file__).with_name("locustfile.py")
GRACE_SECONDS = 15.0
STOP_SECONDS = 5.0


class CrowdError(Exception):
    """The crowd cannot be sent; the message says what to do."""


class Crowd:
    """One crowd on its way to `host`, an origin such as http://127.0.0.1:8000."""

    def __init__(self, settings: CrowdSettings, host: str) -> None:
        self._settings = settings
        self._host = host
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Send the crowd. Raises CrowdError."""
        if find_spec("locust") is None:
            raise CrowdError("Locust is not installed: run `make setup`, or pip install 'fairgate[loadtest]'.")
        try:
            self._settings.folder.mkdir(parents=True, exist_ok=True)
            log = (self._settings.folder / "locust.log").open("wb")
        except OSError as error:
            raise CrowdError(f"{self._settings.folder} cannot be written: {error.strerror}.") from None
        shoppers = str(self._settings.shoppers)
        with log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "locust", "-f", str(LOCUSTFILE), "--headless", "--only-summary", "--host", self._host,
                "-u", shoppers, "-r", shoppers, "--exit-code-on-error", "0",
                stdin=asyncio.subprocess.PIPE, stdout=log, stderr=log,
                env={**os.environ, **self._settings.environment()}, start_new_session=True,
            )  # fmt: skip

    def progress(self) -> Progress:
        """How far it has come: from a small file, without waiting."""
        return read_progress(self._settings.folder, self._settings.shoppers)

    async def wait(self) -> int:
        """Locust's exit code; a crowd that does not end in its time is stopped."""
        assert self._process is not None, "the crowd was not sent"
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait(), self._settings.seconds_max + GRACE_SECONDS)
        await self.stop()
        assert self._process.returncode is not None
        return self._process.returncode

    async def stop(self) -> None:
        """End the crowd, if it has not ended; no process is left."""
        if self._process is None or self._process.returncode is not None:
            return
        for ending in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, ending)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._process.wait(), STOP_SECONDS)
                return
