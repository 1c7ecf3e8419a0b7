"""The waiting page in real Chromium: keyboards, screen readers, lost networks, two tabs, two rooms, no script, no cookies."""

import contextlib
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, BrowserContext, Page, expect
from playwright.async_api import Route as Interception
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import Mount, Route

from admission.app import create
from admission.room_settings import RoomSettings
from admission.rooms import Rooms
from chassis.database import Pool
from chassis.settings import Settings
from tests.line_world import LineWorld, serving, soon, until
from tests.test_browser_walk import chromium

PATIENCE_MILLISECONDS = 60_000
AXE = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}
STATES = ["join", "entered", "waiting", "called", "admitted", "missed", "ended", "moved", "refused"]


@dataclass(frozen=True, slots=True)
class Site:
    """A shop's host with the gateway mounted below its prefix, and a browser."""

    url: str
    world: LineWorld
    browser: Browser

    async def page(self, room: str = "onsale", **options: object) -> Page:
        """The waiting page in a browser of its own."""
        context = await self.browser.new_context(**options)  # type: ignore[arg-type]
        return await self.open(context, room)

    async def open(self, context: BrowserContext, room: str = "onsale") -> Page:
        page = await context.new_page()
        page.set_default_timeout(PATIENCE_MILLISECONDS)
        await page.goto(f"{self.url}/.fairgate/rooms/{room}?return=/shop")
        return page


@contextlib.asynccontextmanager
async def open_site(settings: Settings, pool: Pool) -> AsyncIterator[Site]:
    async def shop(_request: Request) -> HTMLResponse:
        return HTMLResponse('<!doctype html><html lang="en"><title>Shop</title><h1>The shop</h1>')

    gateway = create(settings)

    @contextlib.asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        async with gateway.router.lifespan_context(gateway):
            yield

    app = Starlette(routes=[Mount("/.fairgate", gateway), Route("/{path:path}", shop)], lifespan=lifespan)
    async with serving(app) as url, chromium() as browser:
        world = LineWorld(f"{url}/.fairgate", pool, "onsale")
        async with world.http:
            yield Site(url, world, browser)


async def join(page: Page) -> None:
    await page.get_by_role("button", name="Join the line").click()
    await expect(page.locator("#room")).not_to_have_attribute("data-state", "join", timeout=PATIENCE_MILLISECONDS)


async def in_state(page: Page, state: str) -> None:
    await expect(page.locator(f"[data-show={state}]")).to_be_visible(timeout=PATIENCE_MILLISECONDS)


@pytest.mark.timeout(240)
async def test_axe_finds_nothing_in_any_state_light_or_dark(settings: Settings, pool: Pool) -> None:
    async with open_site(settings, pool) as site:
        await site.world.put(method="fifo", rate_per_minute=1, message="Doors at nine", active_max=1)
        await site.world.join()
        axe = Axe()
        for scheme in ("light", "dark"):
            page = await site.page(color_scheme=scheme, reduced_motion="reduce", locale="de-DE")
            found = (await axe.run(page, options=AXE)).response["violations"]
            assert found == [], "join"
            await page.get_by_role("button", name="Anstellen").click()
            await in_state(page, "waiting")
            for state in STATES:
                # Each part as it is shown, with every notice: the page holds them all.
                await page.evaluate(
                    """(state) => {
                      for (const part of document.querySelectorAll("[data-show]")) part.hidden = part.dataset.show !== state;
                      for (const notice of document.querySelectorAll(".notice")) notice.hidden = !notice.textContent.trim();
                    }""",
                    state,
                )
                found = (await axe.run(page, options=AXE)).response["violations"]
                assert found == [], (
                    f"{state} {scheme}: {[(rule['id'], [node['html'] for node in rule['nodes']]) for rule in found]}"
                )
            await page.context.close()


async def test_the_keyboard_alone_joins_and_goes_in_and_a_screen_reader_hears_it(
    settings: Settings, pool: Pool
) -> None:
    async with open_site(settings, pool) as site:
        await site.world.put(method="fifo", rate_per_minute=60_000, paused=True)
        page = await site.page()
        await expect(page.locator("h2:focus")).to_have_text("Join the line")
        await page.keyboard.press("Tab")
        await expect(page.locator("button:focus")).to_have_text("Join the line")
        await page.keyboard.press("Enter")
        await in_state(page, "waiting")
        await expect(page.locator("[role=status]#heard")).to_contain_text("People ahead")
        await expect(page.locator("[data-reason=paused]")).to_be_visible()
        await expect(page.locator("#wait")).to_contain_text("from when the line goes on")
        assert await page.locator("[aria-live]").count() == 0, "nothing else is read out while numbers change"
        await site.world.put(method="fifo", rate_per_minute=60_000)
        await expect(page).to_have_url(re.compile("/shop$"), timeout=PATIENCE_MILLISECONDS)


async def test_whoever_wants_to_go_in_by_hand_has_a_countdown_and_may_do_so(settings: Settings, pool: Pool) -> None:
    async with open_site(settings, pool) as site:
        await site.world.put(method="fifo", rate_per_minute=60_000, paused=True, turn_seconds=600)
        page = await site.page()
        await join(page)
        await page.get_by_label("Take me in by itself").uncheck()
        await site.world.put(method="fifo", rate_per_minute=60_000, turn_seconds=600)
        await in_state(page, "called")
        await expect(page.locator("#countdown")).to_have_text(re.compile(r"^(9|10):\d\d$"))
        assert await page.locator("#countdown").get_attribute("aria-hidden") == "true"
        await expect(page.locator("h2:focus")).to_have_text("It is your turn")
        assert "It is your turn" in await page.title()
        await page.get_by_role("button", name="Go in now").click()
        await expect(page).to_have_url(re.compile("/shop$"))


@pytest.mark.timeout(240)
async def test_ten_minutes_without_a_network_cost_nothing_and_the_page_mends_itself(
    settings: Settings, pool: Pool
) -> None:
    async with open_site(settings, pool) as site:
        await site.world.put(method="fifo", rate_per_minute=60_000, paused=True)
        context = await site.browser.new_context()
        page = await context.new_page()
        await page.clock.install()
        await page.goto(f"{site.url}/.fairgate/rooms/onsale?return=/shop")
        await join(page)
        await context.set_offline(True)

        async def notices() -> bool:
            await page.clock.run_for(5_000)
            return await page.locator("#offline").is_visible()

        await until(notices, "the page says that it is offline")
        await page.clock.run_for(600_000)
        await expect(page.locator("[data-show=waiting]")).to_be_visible()
        await context.set_offline(False)

        async def mended() -> bool:
            await page.clock.run_for(5_000)
            return not await page.locator("#offline").is_visible()

        await until(mended, "the page goes on by itself")
        await site.world.put(method="fifo", rate_per_minute=60_000)

        async def inside() -> bool:
            if "/shop" not in page.url.partition("?")[0]:
                await page.clock.run_for(2_000)
            return page.url.partition("?")[0].endswith("/shop")

        await until(inside, "the page goes in")


async def test_two_tabs_share_one_place_and_two_rooms_have_one_each(settings: Settings, pool: Pool) -> None:
    async with open_site(settings, pool) as site:
        await site.world.put(method="fifo", rate_per_minute=1, active_max=1)
        await Rooms(pool).put("other", RoomSettings(method="fifo", rate_per_minute=1))
        await site.world.join()
        first = await site.page()
        second = await site.open(first.context)
        button = first.get_by_role("button", name="Join the line")
        await button.dblclick()
        await in_state(first, "waiting")
        await second.get_by_role("button", name="Join the line").click()
        await in_state(second, "waiting")
        assert await first.locator("#place").text_content() == await second.locator("#place").text_content() == "2"
        assert (await site.world.status())["issued"] in (1, 2)

        async def known() -> bool:
            return (await site.world.http.get("/rooms/other/status")).status_code == 200

        await until(known, "the other room is there")
        other = await site.open(first.context, "other")
        await join(other)
        await first.reload()
        await in_state(first, "waiting")
        names = {cookie["name"] for cookie in await first.context.cookies()}
        assert {"fairgate-ticket-onsale", "fairgate-ticket-other"} <= names


async def test_without_javascript_one_joins_waits_and_goes_in(settings: Settings, pool: Pool) -> None:
    """C-53: visitors without JavaScript are left out of a draw that they thought they had entered."""
    async with open_site(settings, pool) as site:
        await site.world.put(method="draw", rate_per_minute=60_000, opens_at=soon(600))
        page = await site.page(java_script_enabled=False)
        await page.get_by_role("button", name="Join the line").click()
        await in_state(page, "entered")
        assert await page.locator("meta[http-equiv=refresh]").count() == 1
        await until(lambda: _entered(site), "the entry counts")
        await site.world.open_at(soon(-1))
        enter = page.get_by_role("button", name="Go in now")
        await expect(enter).to_be_visible(timeout=PATIENCE_MILLISECONDS)
        await enter.click()
        await expect(page).to_have_url(re.compile("/shop$"))


async def test_a_place_shown_never_rises_and_going_back_and_reloading_keep_it(settings: Settings, pool: Pool) -> None:
    async with open_site(settings, pool) as site:
        await site.world.put(method="fifo", rate_per_minute=60)
        for _ in range(8):
            await site.world.join()
        page = await site.page()
        await page.add_init_script(
            "new MutationObserver(() => { const seen = document.getElementById('ahead'); if (seen)"
            " (window.seen ||= []).push(Number(seen.textContent)); })"
            ".observe(document, { childList: true, subtree: true, characterData: true });"
        )
        await join(page)
        place = await page.locator("#place").text_content()
        for _ in range(3):
            await page.reload()
        await page.goto("about:blank")
        await page.go_back()
        assert await page.locator("#place").text_content() == place
        seen = await page.evaluate("window.seen || []")
        assert seen == sorted(seen, reverse=True)


async def test_a_browser_that_blocks_cookies_is_told_so(settings: Settings, pool: Pool) -> None:
    """C-23: cookies off, never admitted, no explanation."""

    async def keep_none(route: Interception) -> None:
        answer = await route.fetch(max_redirects=0)
        kept = {name: value for name, value in answer.headers.items() if name != "set-cookie"}
        await context.clear_cookies()  # fetching has put them there
        await route.fulfill(response=answer, headers=kept)

    async with open_site(settings, pool) as site:
        await site.world.put()
        context = await site.browser.new_context()
        await context.route("**/rooms/onsale**", keep_none)
        page = await site.open(context)
        await page.get_by_role("button", name="Join the line").click()
        await expect(page.locator("#cookies")).to_contain_text("keeps no cookies")


async def test_a_place_goes_on_on_another_device_and_the_first_is_told(settings: Settings, pool: Pool) -> None:
    async with open_site(settings, pool) as site:
        await site.world.put(method="fifo", rate_per_minute=1, active_max=1)
        await site.world.join()
        first = await site.page()
        await join(first)
        place = await first.locator("#place").text_content()
        await first.get_by_role("button", name="Go on from another device").click()
        code = await first.locator("#code").text_content()
        assert code is not None
        second = await site.page()
        await second.goto("about:blank")
        await second.goto(f"{site.url}/.fairgate/rooms/onsale?return=/shop#recovery={code}")
        await expect(second.locator("#code")).to_have_value(code)
        assert "#" not in second.url
        await second.get_by_role("button", name="Take my place over").click()
        await in_state(second, "waiting")
        assert await second.locator("#place").text_content() == place

        async def told() -> bool:
            await first.goto(f"{site.url}/.fairgate/rooms/onsale")
            return await first.locator("[data-show=moved]").is_visible()

        await until(told, "the first device is told")


async def _entered(site: Site) -> bool:
    return (await site.world.status())["issued"] == 1
