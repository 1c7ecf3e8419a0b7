"""The public document: small, the same for everybody, and enough for a browser to work out its own place and wait."""

import asyncio
import contextlib
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.types import ASGIApp, Receive, Scope, Send

from admission.app import create
from admission.outflow import KEPT_MS, UNSEEN, Outflow, Reading, pace_of, slowed
from chassis.database import Pool
from chassis.settings import Settings
from tests.line_world import LineWorld, line_world, serving, soon, until
from tests.shop_world import ROOM, nginx, unused_port

POLLS, POLLERS = 3_000, 50


def moved(*stretches: tuple[float, float], rate: int = 600) -> Outflow:
    """The readings of a line that moved at so many a minute for so many seconds, stretch by stretch."""
    outflow, at_ms, called = UNSEEN, 0.0, 0.0
    for per_minute, seconds in stretches:
        for _ in range(int(seconds)):
            outflow = outflow.noted(Reading(at_ms, int(called), flowing=True), rate)
            at_ms, called = at_ms + 1_000, called + per_minute / 60
    return outflow


def test_a_wait_comes_from_how_fast_the_line_has_moved_not_from_what_is_configured() -> None:
    pace = pace_of(moved((300, 200)), 600)
    assert pace is not None
    assert pace.per_minute == pytest.approx(300, rel=0.02)
    low, high = pace.wait_seconds(99)
    assert low <= 20 <= high <= 24, "a hundred places at 300 a minute take twenty seconds"


def test_before_enough_is_seen_a_wait_comes_from_the_configured_rate_and_says_so() -> None:
    pace = pace_of(moved((300, 15)), 600)
    assert pace is not None
    assert pace.per_minute is None
    assert pace.wait_seconds(99) == (10, 15)


def test_a_line_that_flows_unevenly_has_a_wider_wait() -> None:
    even, uneven = pace_of(moved((300, 240)), 600), pace_of(moved(*[(450, 20), (150, 20)] * 6), 600)
    assert even is not None
    assert uneven is not None
    assert uneven.high - uneven.low > 2 * (even.high - even.low)


def test_nobody_waiting_says_nothing_about_how_fast_the_line_is() -> None:
    outflow = UNSEEN
    for second in range(200):
        outflow = outflow.noted(Reading(second * 1_000, second // 20, flowing=False), 600)
    pace = pace_of(outflow, 600)
    assert pace is not None
    assert pace.per_minute is None


def test_a_line_that_stands_still_promises_nothing() -> None:
    assert pace_of(moved((0, 200)), 600) is None


def test_a_line_that_slows_down_says_so_and_one_that_does_not_never_does() -> None:
    assert slowed(moved((600, 200), (300, 70)), 270_000)
    assert not slowed(moved((600, 270)), 270_000)
    assert not slowed(moved((300, 200), (600, 70)), 270_000)
    lowered = moved((600, 100)).noted(Reading(100_000, 1_000, flowing=True), 60)
    assert slowed(lowered, 101_000)
    assert not slowed(lowered, 101_000 + KEPT_MS)


@given(
    st.lists(st.tuples(st.integers(0, 20_000), st.integers(0, 500), st.booleans()), max_size=80), st.integers(1, 5_000)
)
def test_whatever_was_seen_a_wait_is_a_range_that_shrinks_as_the_line_moves(
    steps: list[tuple[int, int, bool]], rate: int
) -> None:
    outflow, at_ms, called = UNSEEN, 0, 0
    for elapsed_ms, calls, flowing in steps:
        at_ms, called = at_ms + elapsed_ms, called + calls
        outflow = outflow.noted(Reading(at_ms, called, flowing), rate)
    assert len(outflow.readings) <= 2 * KEPT_MS / 5_000 + len(steps)
    pace = pace_of(outflow, rate)
    if pace is not None:
        waits = [pace.wait_seconds(ahead) for ahead in (1_000, 100, 10, 0)]
        assert all(0 <= low <= high for low, high in waits)
        assert waits == sorted(waits, reverse=True)


async def test_the_document_is_enough_to_work_out_place_and_wait(settings: Settings, pool: Pool) -> None:
    async with line_world(settings, pool) as world:
        await world.put(method="fifo", rate_per_minute=6, turn_seconds=60)
        buyers = [await world.join() for _ in range(4)]
        last = buyers[-1]

        async def counted() -> bool:
            return (await world.status())["issued"] == 4

        await until(counted, "all four are counted")
        mine = await world.place(last)
        document = await world.status()
        place = mine["place"]
        assert isinstance(place, int)
        low, high = seconds_per_place(document)
        ahead = max(0, place - int(str(document["called"])) - 1)
        wait = mine["wait_seconds"]
        assert isinstance(wait, list)
        assert ahead - int(str(mine["ahead"])) in (0, 1), "the later answer may have come a place further"
        assert wait[0] <= (ahead + 1) * low + 1
        assert wait[1] <= (ahead + 1) * high + 1
        assert document["reasons"] == []
        assert document["waiting"] == int(str(document["issued"])) - int(str(document["called"]))
        poll = document["poll"]
        assert isinstance(poll, dict)
        assert poll["near_seconds"] < poll["far_seconds"] < poll["place_seconds"]


async def test_a_queue_that_is_held_back_says_why_and_how_long_places_take_once_it_goes_on(
    settings: Settings, pool: Pool
) -> None:
    """C-31: a paused room shows no wait at all."""
    async with line_world(settings, pool) as world:
        await world.put(method="fifo", rate_per_minute=6, paused=True)
        buyer = await world.join()
        await world.shows("reasons", ["paused"])
        assert (await world.place(buyer))["wait_seconds"] is None, "from now on nothing can be promised"
        low, high = seconds_per_place(await world.status())
        assert 0 < low < high, "and yet it is known what a place takes"


async def test_a_wait_that_grows_has_its_reason_shown(settings: Settings, pool: Pool) -> None:
    """C-19: the wait rises for some, and nobody says why."""
    async with line_world(settings, pool) as world:
        await world.put(method="fifo", rate_per_minute=60)
        await world.put(method="fifo", rate_per_minute=6)
        await world.shows("reasons", ["slowed"])
        await world.put(method="fifo", rate_per_minute=6, active_max=1)
        await world.admitted(await world.join())
        await world.shows("reasons", ["full", "slowed"])


async def test_who_waits_and_who_is_in_are_counted_as_they_are(settings: Settings, pool: Pool) -> None:
    """C-02 and C-07: positions that are over stay in the count, and the newest one is not to be seen."""
    async with line_world(settings, pool) as world:
        await world.put(method="fifo", rate_per_minute=60_000)
        first, second = await world.join(), await world.join()
        await world.admitted(first)
        await world.admitted(second)
        await world.shows("active", 2)
        left = await world.http.delete(f"/rooms/{world.room}/passes", headers=first.headers)
        assert left.status_code == 204
        await world.shows("active", 1)
        document = await world.status()
        assert [document[name] for name in ("issued", "called", "waiting", "admitted")] == [2, 2, 0, 2]


async def test_the_document_is_the_same_bytes_for_everybody_and_cheap_to_ask_again(
    settings: Settings, pool: Pool
) -> None:
    async with line_world(settings, pool) as world:
        await world.put()
        buyer = await world.join()

        async def unchanged() -> bool:
            first = await world.http.get(
                "/rooms/onsale/status", headers={"Cookie": f"fairgate-ticket-onsale={buyer.ticket}"}
            )
            again = await world.http.get("/rooms/onsale/status", headers={"If-None-Match": first.headers["etag"]})
            assert "set-cookie" not in first.headers
            assert "vary" not in first.headers
            assert "s-maxage=1" in first.headers["cache-control"]
            assert buyer.ticket_id not in first.text
            return again.status_code == 304 and again.content == b""

        await until(unchanged, "the same document is not sent twice")


async def test_no_document_may_be_shown_for_more_than_two_seconds(settings: Settings, pool: Pool) -> None:
    """C-04: caches give answers of before a reset for up to a day."""
    async with line_world(settings, pool) as world:
        await world.put()
        caching = (await world.http.get("/rooms/onsale/status")).headers["cache-control"]
        ages = dict(part.strip().partition("=")[::2] for part in caching.split(",") if "=" in part)
        assert int(ages["s-maxage"]) + int(ages["stale-while-revalidate"]) <= 2


async def test_thousands_poll_a_cache_and_the_origin_is_asked_about_once_a_second(
    settings: Settings, pool: Pool
) -> None:
    counted = Counted(create(settings))
    url = f"http://127.0.0.1:{unused_port()}"
    async with serving(counted) as origin:
        world = LineWorld(origin, pool, ROOM)
        async with (
            world.http,
            open_folder() as folder,
            nginx(folder, url, dict.fromkeys(("gateway", "stock", "shop"), origin)),
        ):
            await world.put(opens_at=soon(600))
            counted.asked.clear()
            began = time.monotonic()
            async with httpx.AsyncClient(base_url=url, timeout=30, trust_env=False) as crowd:
                await asyncio.gather(*(poll(crowd, number) for number in range(POLLERS)))
                seconds = time.monotonic() - began
                asked = counted.asked[f"/rooms/{ROOM}/status"]
                print(f"{POLLS} polls in {seconds:.1f} s reached the origin {asked} times")
                assert asked <= 2 * seconds + 5
                first = await crowd.get(f"/.fairgate/rooms/{ROOM}/status")
                assert first.json()["epoch"] == 1
                unchanged = {"If-None-Match": first.headers["etag"]}
                assert (await crowd.get(f"/.fairgate/rooms/{ROOM}/status", headers=unchanged)).status_code in (200, 304)
                await pool.execute("UPDATE line.rooms SET epoch = epoch + 1")

                async def is_new() -> bool:
                    return bool((await crowd.get(f"/.fairgate/rooms/{ROOM}/status")).json()["epoch"] == 2)

                reset_at = time.monotonic()
                await until(is_new, "the new epoch is seen through the cache")
                print(f"the new epoch was seen after {time.monotonic() - reset_at:.1f} s")


def seconds_per_place(document: dict[str, object]) -> tuple[float, float]:
    shown = document["seconds_per_place"]
    assert isinstance(shown, list)
    return float(shown[0]), float(shown[1])


@contextlib.asynccontextmanager
async def open_folder() -> AsyncIterator[Path]:
    """A folder that nginx's workers may enter, whoever we are: pytest's own is closed to them when we are root."""
    with tempfile.TemporaryDirectory(prefix="fairgate-front-") as folder:
        Path(folder).chmod(0o711)
        yield Path(folder)


async def poll(crowd: httpx.AsyncClient, number: int) -> None:
    """One of many who ask for the document through the cache, with cookies and queries of their own."""
    for turn in range(POLLS // POLLERS):
        answer = await crowd.get(
            f"/.fairgate/rooms/{ROOM}/status?{number}-{turn}", headers={"Cookie": f"fairgate-ticket-{ROOM}={number}"}
        )
        assert answer.status_code == 200
        assert answer.json()["room"] == ROOM


class Counted:
    """An app that counts what it is asked for, by path."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.asked: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            self.asked[scope["path"]] += 1
        await self._app(scope, receive, send)
