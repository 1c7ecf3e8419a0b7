"""A room's phases and methods, by schedule and by hand, over HTTP; and what operators did, noted for good."""

import asyncio
import re
import secrets
from importlib.resources import files
from typing import Any

import asyncpg
import httpx
import pytest
from redis.asyncio import Redis

from admission.book import Book
from admission.calling import Observed, stands_by
from admission.controller import Controller
from admission.line import EPOCH_KEYS
from admission.redis_bond import RedisBond
from admission.room_settings import RoomSettings, phase_of
from chassis.database import Pool
from chassis.keys import ApiKeys
from chassis.leases import Lease
from chassis.settings import Settings
from tests.line_world import Buyer, LineWorld, client_id_of, line_world, soon, until

ROOM = "/admin/rooms/onsale"


async def operator(pool: Pool) -> dict[str, str]:
    return {"Authorization": f"Bearer {await ApiKeys(pool).create('ops', 'operator')}"}


async def by_hand(world: LineWorld, key: dict[str, str], hand: str, phase: str) -> None:
    """An operator's hand, seen in the public document."""
    answer = await world.http.post(f"{ROOM}/{hand}", headers=key)
    assert answer.status_code == 200, answer.text
    await world.shows("phase", phase)


async def tries_to_join(world: LineWorld) -> httpx.Response:
    return await world.http.post("/rooms/onsale/tickets", json={"client_id": client_id_of(secrets.token_hex())})


async def heard(settings: Settings, **fields: str) -> None:
    """Wait until the scripts, which hear of settings with the leader's next step, go by these."""

    async def go_by_them() -> bool:
        async with Redis.from_url(settings.redis_url, decode_responses=True) as redis:
            return await redis.hmget("{onsale}:line", list(fields)) == list(fields.values())

    await until(go_by_them, f"the scripts go by {fields}")


async def opened(settings: Settings) -> bool:
    async with Redis.from_url(settings.redis_url, decode_responses=True) as redis:
        return bool(await redis.hget("{onsale}:e2:line", "phase") == "open")


async def called(world: LineWorld, buyer: Buyer) -> None:
    async def is_called() -> bool:
        return (await world.place(buyer))["state"] == "called"

    await until(is_called, "the buyer is called")


async def test_an_operator_leads_a_sale_through_its_phases_by_hand(settings: Settings, pool: Pool) -> None:
    async with line_world(settings, pool) as world:
        key = await operator(pool)
        await world.put(method="draw", phase="draft", rate_per_minute=60_000)
        early = await tries_to_join(world)
        assert (early.status_code, early.json().get("reason")) == (409, "not-yet"), early.text
        await by_hand(world, key, "prequeue", "prequeue")
        await heard(settings, phase="prequeue")
        buyer = await world.join()
        assert buyer.joined["entry"] == 1
        await by_hand(world, key, "open", "open")
        await called(world, buyer)
        await by_hand(world, key, "pause", "paused")
        await heard(settings, paused="1")
        refused = await world.claim(buyer)
        assert (refused.status_code, refused.json().get("reason")) == (202, "paused"), refused.text
        latecomer = await world.join()
        assert (await world.place(latecomer))["place"] == 2
        await by_hand(world, key, "resume", "open")
        await world.admitted(buyer)
        await world.admitted(latecomer)
        await by_hand(world, key, "close", "closed")
        await heard(settings, phase="closed")
        late = await tries_to_join(world)
        assert (late.status_code, late.json()["reason"]) == (409, "closed")


async def test_nobody_is_let_in_after_the_close(settings: Settings, pool: Pool) -> None:
    async with line_world(settings, pool) as world:
        key = await operator(pool)
        await world.put(method="fifo", rate_per_minute=60_000)
        buyer, inside = await world.join(), await world.join()
        await world.admitted(inside)
        await called(world, buyer)
        await by_hand(world, key, "close", "closed")

        async def refused() -> bool:
            answer = await world.claim(buyer)
            return answer.status_code == 409 and answer.json()["code"] == "room-closed"

        await until(refused, "the claim is refused")
        assert (await world.claim(inside)).status_code == 200


async def test_a_room_that_has_opened_does_not_go_back_before_its_opening(settings: Settings, pool: Pool) -> None:
    async with line_world(settings, pool) as world:
        key = await operator(pool)
        await world.put(method="fifo")
        before = (await world.http.get(ROOM, headers=key)).json()
        for hand in ("draft", "prequeue"):
            answer = await world.http.post(f"{ROOM}/{hand}", headers=key)
            assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, "/phase")
        answer = await world.http.patch(ROOM, json={"opens_at": soon(60).isoformat()}, headers=key)
        assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, "/opens_at")
        assert (await world.http.get(ROOM, headers=key)).json() == before


async def test_passthrough_admits_everybody_and_counts_them_apart(settings: Settings, pool: Pool) -> None:
    async with line_world(settings, pool) as world:
        key = await operator(pool)
        await world.put(method="fifo", rate_per_minute=1, active_max=1)
        first, second = await world.join(), await world.join()
        await world.admitted(first)
        assert (await world.claim(second)).status_code == 202
        assert (await world.http.patch(ROOM, json={"method": "passthrough"}, headers=key)).status_code == 200
        await heard(settings, method="passthrough")
        for buyer in (second, await world.join(), await world.join()):
            await world.admitted(buyer)
        await world.shows("passed_through", 3)
        assert (await world.status())["admitted"] == 1
        assert (await world.http.patch(ROOM, json={"method": "fifo"}, headers=key)).status_code == 200
        await heard(settings, method="fifo")
        waits = await world.join()
        assert (await world.claim(waits)).status_code == 202


async def test_a_rejecting_room_takes_nobody_and_keeps_every_place(settings: Settings, pool: Pool) -> None:
    async with line_world(settings, pool) as world:
        key = await operator(pool)
        await world.put(method="fifo", rate_per_minute=60_000)
        buyer = await world.join()
        await called(world, buyer)
        await world.http.patch(ROOM, json={"method": "reject"}, headers=key)

        async def rejects() -> bool:
            answer = await tries_to_join(world)
            return answer.status_code == 409 and answer.json()["reason"] == "rejecting"

        await until(rejects, "newcomers are rejected")
        assert (await world.claim(buyer)).status_code == 202
        assert (await world.place(buyer))["place"] == 1
        await world.http.patch(ROOM, json={"method": "fifo"}, headers=key)
        await world.admitted(buyer)


async def test_a_room_on_standby_wakes_when_many_arrive_and_sleeps_again(settings: Settings, pool: Pool) -> None:
    async with line_world(settings, pool) as world, Redis.from_url(settings.redis_url) as redis:
        await world.put(method="fifo", rate_per_minute=600, standby_above_per_minute=5)
        await world.shows("phase", "standby")
        for _ in range(5):  # below capacity nobody waits: admitted at the first asking
            assert (await world.claim(await world.join())).status_code == 201
        crowd = [await world.join() for _ in range(3)]
        await world.shows("phase", "open")
        for buyer in crowd:
            await world.admitted(buyer)
        assert (await world.status())["phase"] == "open"  # nobody waits, but the crowd came only now
        await redis.hset("{onsale}:line", "arrivals_at_ms", "0")  # a quiet minute goes by
        await world.shows("phase", "standby")
        assert (await world.claim(await world.join())).status_code == 201


@pytest.mark.parametrize(
    ("dormant", "called_places", "arrivals_left", "sleeps"),
    [(True, 0, 0.0, True), (False, 9, 10.0, False), (False, 10, 4.9, False), (False, 10, 5.0, True)],
)
def test_a_room_falls_asleep_only_when_nobody_waits_and_few_come(
    dormant: bool, called_places: int, arrivals_left: float, sleeps: bool
) -> None:
    observed = Observed(
        now_ms=0,
        reached=float(called_places),
        called=called_places,
        active=0,
        entries=0,
        numbers=10,
        over=0,
        clock_ms=0,
        stepped_ms=0,
        entries_closed=True,
        dormant=dormant,
        arrivals_left=arrivals_left,
    )
    assert stands_by(RoomSettings(standby_above_per_minute=10), observed, 10) is sleeps
    assert not stands_by(RoomSettings(), observed, 10)


async def test_a_reset_begins_a_new_line_and_ends_every_ticket(settings: Settings, pool: Pool) -> None:
    async with line_world(settings, pool) as world:
        key = await operator(pool)
        await world.put(method="fifo", rate_per_minute=60_000)
        old = await world.join()
        wrong = await world.http.post(f"{ROOM}/reset", json={"epoch": 7}, headers=key)
        assert wrong.status_code == 422
        assert (await world.http.post(f"{ROOM}/reset", json={"epoch": 1}, headers=key)).json()["epoch"] == 2
        assert (await world.http.post(f"{ROOM}/reset", json={"epoch": 1}, headers=key)).status_code == 422
        await world.shows("epoch", 2)
        await world.shows("phase", "draft")
        await by_hand(world, key, "open", "open")
        await until(lambda: opened(settings), "the scripts hear that it is open")
        refused = await world.http.get("/rooms/onsale/place", headers={"Fairgate-Ticket": old.ticket})
        assert (refused.status_code, refused.json()["reason"]) == (403, "old-epoch")
        assert (await world.claim(old)).status_code == 403
        await world.shows("line", "reachable")
        new = await world.join()
        assert new.joined["number"] == 1
        await world.admitted(new)
        await forgotten(settings, pool)


async def forgotten(settings: Settings, pool: Pool) -> None:
    """A pass of what the gateway does each minute leaves nothing of the ended epoch in Redis."""
    bond = RedisBond(settings.redis_url)
    book = Book(pool, bond)
    await book.refresh()
    await Controller(pool, bond, book, Lease(pool, "controller", "pruner"), settings.master_key_bytes).prune()
    async with Redis.from_url(settings.redis_url, decode_responses=True) as redis:
        left = {key async for key in redis.scan_iter("{onsale}:*") if not key.startswith("{onsale}:e2:")}
    await bond.close()
    assert left <= {"{onsale}:stock"}


def test_the_keys_of_an_epoch_are_those_that_the_scripts_name() -> None:
    named = {
        name
        for script in files("admission").joinpath("lua").iterdir()
        for name in re.findall(r"\{room\}:(\w+)", script.read_text(encoding="utf-8"))
    }
    assert named - {"stock"} == set(EPOCH_KEYS)


async def test_a_change_reaches_every_worker_within_two_seconds(settings: Settings, pool: Pool) -> None:
    async with line_world(settings, pool) as one, line_world(settings, pool) as other:
        key = await operator(pool)
        await one.put(method="fifo", rate_per_minute=60)
        await other.shows("rate_per_minute", 60)
        changed = {"rate_per_minute": 120, "message": "More seats", "turn_seconds": 30, "active_max": 9}
        assert (await one.http.patch(ROOM, json=changed, headers=key)).status_code == 200
        for world in (one, other):
            await world.shows("rate_per_minute", 120)
            assert (await world.status())["message"] == "More seats"


async def test_what_operators_did_is_noted_once_and_for_good(settings: Settings, pool: Pool) -> None:
    async with line_world(settings, pool) as world:
        key = await operator(pool)
        for _ in range(2):
            assert (await world.http.put(ROOM, json={"rate_per_minute": 30}, headers=key)).status_code == 200
        for _ in range(2):
            assert (await world.http.post(f"{ROOM}/pause", headers=key)).status_code == 200
        assert (await world.http.patch(ROOM, json={"rate_per_minute": 0}, headers=key)).status_code == 422
        assert (await world.http.post(f"{ROOM}/explode", headers=key)).status_code == 404
        assert (await world.http.post(f"{ROOM}/pause")).status_code == 401
        listed: list[dict[str, Any]] = (await world.http.get(f"{ROOM}/actions", headers=key)).json()["actions"]
        assert [one["action"] for one in listed] == ["pause", "create"]
        assert listed[0]["detail"] == {"paused": True}
        assert all(one["actor"].startswith("ops (") for one in listed)
        for statement in ("UPDATE line.operator_actions SET actor = 'x'", "DELETE FROM line.operator_actions"):
            with pytest.raises(asyncpg.IntegrityConstraintViolationError, match="append-only"):
                await pool.execute(statement)


async def test_operators_at_once_lose_none_of_their_changes(settings: Settings, pool: Pool) -> None:
    async with line_world(settings, pool) as world:
        key = await operator(pool)
        await world.put(method="fifo")
        changes = [{"rate_per_minute": 77}, {"active_max": 5}, {"turn_seconds": 33}, {"message": "Hello"}] * 3
        answers = await asyncio.gather(*(world.http.patch(ROOM, json=change, headers=key) for change in changes))
        assert {answer.status_code for answer in answers} == {200}
        room = (await world.http.get(ROOM, headers=key)).json()
        assert (room["rate_per_minute"], room["active_max"], room["turn_seconds"], room["message"]) == (
            77,
            5,
            33,
            "Hello",
        )


def test_a_phase_set_by_hand_overrules_the_schedule() -> None:
    now_ms = soon(0).timestamp() * 1000
    scheduled = RoomSettings(prequeue_at=soon(60), opens_at=soon(120), closes_at=soon(600))
    assert phase_of(scheduled, now_ms) == "draft"
    assert phase_of(scheduled, now_ms + 90_000) == "prequeue"
    assert phase_of(scheduled, now_ms + 200_000) == "open"
    assert phase_of(scheduled, now_ms + 700_000) == "closed"
    opened = RoomSettings(phase="open", prequeue_at=soon(60), opens_at=soon(120), paused=True)
    assert phase_of(opened, now_ms) == "paused"
    assert phase_of(RoomSettings(), now_ms, dormant=True) == "standby"
