"""Ends a command cleanly on Ctrl-C, SIGTERM or a closed terminal: its blocks are left in order, its children stopped."""

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any

STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run_until_stopped(main: Coroutine[Any, Any, int]) -> int:
    """Run `main` and return its exit code, or 128 + the signal's number when a signal cancelled it.

    Only the first signal counts: the end is bounded, and a second one would leave it half done.
    """
    return asyncio.run(_cancelled_by_signals(main))


async def _cancelled_by_signals(main: Coroutine[Any, Any, int]) -> int:
    loop = asyncio.get_running_loop()
    task = loop.create_task(main)
    received: list[signal.Signals] = []

    def stop(which: signal.Signals) -> None:
        if not received:
            received.append(which)
            task.cancel()

    for which in STOPS:
        loop.add_signal_handler(which, stop, which)
    try:
        return await task
    except asyncio.CancelledError:
        if not received:
            raise
        return 128 + received[0]
