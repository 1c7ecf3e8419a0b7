"""A person's walk through the pages in real Chromium: queue, be let in, put a ticket in the basket, pay. With and without JavaScript."""

import asyncio
import contextlib
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page, async_playwright, expect

from tests.conftest import need
from tests.servers import PROJECT, gone
from tests.test_demo import free_port

OPEN_SECONDS_MAX = 150.0
STEP_MILLISECONDS_MAX = 60_000
# Chromium's own services look for the network at every start; none of them is wanted here.
QUIET = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)


@contextlib.asynccontextmanager
async def open_house() -> AsyncIterator[str]:
    """A demo with a handful of shoppers that stays open afterwards; gives its public address. Ended by Ctrl-C."""
    with tempfile.TemporaryDirectory(prefix="fairgate-walk-") as folder:
        Path(folder).chmod(0o711)
        data, port = Path(folder) / "data", free_port()
        demo = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "fairgate", "demo", "--shoppers", "3", "--rate", "600", "--data", str(data), "--port", str(port),
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, cwd=PROJECT,
            env={name: value for name, value in os.environ.items() if not name.startswith("FAIRGATE_")},
        )  # fmt: skip
        assert demo.stdout is not None
        said = ""
        try:
            async with asyncio.timeout(OPEN_SECONDS_MAX):
                while "The house stays open" not in said:
                    line = await demo.stdout.readline()
                    assert line, said
                    said += line.decode()
            assert "every promise was kept" in said, said
            yield f"http://127.0.0.1:{port}"
        finally:
            demo.send_signal(signal.SIGINT)
            await demo.communicate()
            await gone(data)


def browser_path() -> str | None:
    """Where Chromium is; skips the test where it is not."""
    path = shutil.which("chromium")
    need(path, "Chromium is not installed: apt-get install chromium")
    return path


@contextlib.asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=browser_path(), args=list(QUIET))
        yield browser
        await browser.close()


async def buy(page: Page) -> None:
    """From inside the shop to the ticket."""
    await expect(page.get_by_role("heading", name="On sale now")).to_be_visible(timeout=STEP_MILLISECONDS_MAX)
    await page.get_by_role("button", name="Put in the basket").first.click()
    await expect(page.get_by_role("heading", name="Your basket")).to_be_visible()
    await page.get_by_role("button", name="Pay").click()
    await expect(page.get_by_role("heading", name="These are yours")).to_be_visible(timeout=STEP_MILLISECONDS_MAX)


@pytest.mark.timeout(300)
@pytest.mark.xdist_group("demo")
async def test_a_person_queues_and_buys_in_a_browser_with_and_without_javascript() -> None:
    async with open_house() as address, chromium() as browser:
        for script in (True, False):
            context = await browser.new_context(java_script_enabled=script)
            page = await context.new_page()
            await page.goto(f"{address}/")
            assert "/.fairgate/rooms/onsale" in page.url
            await page.get_by_role("button", name="Join the line").click()
            if script:  # the page goes in by itself when the turn has come
                await expect(page).to_have_url(f"{address}/", timeout=STEP_MILLISECONDS_MAX)
            else:  # the page reloads itself, and shows a button when the turn has come
                enter = page.get_by_role("button", name="Go in")
                await expect(enter).to_be_visible(timeout=STEP_MILLISECONDS_MAX)
                await enter.click()
            await buy(page)
            await context.close()
