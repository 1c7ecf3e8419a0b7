"""The draw's stages on real servers: what stands before what, crashes between, the beacon, lost and restored entries."""

import asyncio
import contextlib
import hashlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable

import msgspec
import pytest
import redis.asyncio as redis
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from admission.merkle import leaf
from admission.proofs import Proof, place_of, verify, verify_ticket
from admission.room_settings import Beacon, RoomSettings
from admission.rooms import Rooms
from admission.tickets import client_digest, read_unverified
from chassis.database import Pool, read_text
from chassis.problems import Problem
from chassis.settings import Settings
from tests.line_world import Buyer, LineWorld, line_world, serving, soon, until

ROOM = "/rooms/onsale"


class Source:
    """A beacon's server that answers what the test says."""

    def __init__(self) -> None:
        self.answer: dict[str, object] | bytes | None = None
        self.asked = 0

    async def round(self, request: Request) -> Response:
        self.asked += 1
        if self.answer is None:
            return Response("too early", status_code=404)
        body = self.answer if isinstance(self.answer, bytes) else json.dumps(self.answer).encode()
        return Response(body, media_type="application/json")


@contextlib.asynccontextmanager
async def beacon_source() -> AsyncIterator[tuple[Source, str]]:
    source = Source()
    async with serving(Starlette(routes=[Route("/chain/public/{round}", source.round)])) as url:
        yield source, f"{url}/chain"


def value_of(number: int) -> dict[str, object]:
    signature = hashlib.sha512(str(number).encode()).digest()
    return {"round": number, "randomness": hashlib.sha256(signature).hexdigest(), "signature": signature.hex()}


async def proof_of(world: LineWorld, epoch: int | None = None) -> Proof:
    answer = await world.http.get(f"{ROOM}/draw", params={} if epoch is None else {"epoch": epoch})
    assert answer.status_code == 200, answer.text
    return msgspec.json.decode(answer.content, type=Proof)


async def reaches(world: LineWorld, stage: str) -> Proof:
    """Wait until the public proof is as far as `stage`."""

    async def there() -> bool:
        if (await proof_of(world)).stage != stage:
            return False
        drawn = (await world.status())["draw"]  # what the worker itself goes by is read half a second later at most
        return isinstance(drawn, dict) and drawn["stage"] == stage

    await until(there, f"the draw reaches {stage}")
    return await proof_of(world)


async def leaves_of(world: LineWorld) -> bytes:
    answer = await world.http.get(f"{ROOM}/draw/leaves")
    assert answer.status_code == 200, answer.text
    return answer.content


async def entered(world: LineWorld, count: int) -> list[Buyer]:
    """Buyers who joined at once, in the order of their entries."""
    return sorted(await asyncio.gather(*(world.join() for _ in range(count))), key=number_of)


def joined_at(buyer: Buyer) -> int:
    return read_unverified(str(buyer.joined["ticket"])).joined_at


def number_of(buyer: Buyer) -> int:
    return int(str(buyer.joined["entry"]))


async def test_a_whole_draw_is_proven_from_public_files_alone(settings: Settings, pool: Pool) -> None:
    async with line_world(settings, pool) as world:
        prequeue_at = soon(5).replace(microsecond=0)
        await world.put(prequeue_at=prequeue_at, opens_at=soon(9), rate_per_minute=6_000)
        early = await proof_of(world)
        assert (early.stage, early.secret, early.root) == ("committed", None, None)
        assert (await world.http.get(f"{ROOM}/draw/leaves")).status_code == 404
        await world.shows("phase", "prequeue")
        buyers = await entered(world, 15)
        proof = await reaches(world, "drawn")
        assert proof.commitment == early.commitment
        assert (early.prequeue_at, proof.prequeue_at) == (None, prequeue_at)
        leaves = await leaves_of(world)
        assert len(leaves) == 15 * 32
        assert all(finding.holds for finding in verify(proof, leaves))
        places = []
        for buyer in buyers:
            entry = number_of(buyer)
            assert verify_ticket(proof, leaves, entry, client_digest(buyer.client_id), joined_at(buyer)).holds
            inclusion = (await world.http.get(f"{ROOM}/draw/entries/{entry}")).json()
            shown = (await world.place(buyer))["place"]
            assert place_of(proof, entry) == inclusion["place"] == shown
            assert inclusion["leaf"] == leaf("onsale", 1, entry, client_digest(buyer.client_id)).hex()
            places.append(inclusion["place"])
        assert sorted(places) == list(range(1, 16))
        status = await world.status()
        drawn = status["draw"]
        assert isinstance(drawn, dict)
        assert (drawn["root"], drawn["secret"], drawn["stage"]) == (proof.root, proof.secret, "drawn")


async def test_the_draw_waits_for_the_beacon_it_has_committed_to(settings: Settings, pool: Pool) -> None:
    async with beacon_source() as (source, address), line_world(settings, pool) as world:
        await world.put(opens_at=soon(3), rate_per_minute=6_000, beacon=Beacon(address, 77))
        buyers = await entered(world, 5)
        proof = await reaches(world, "root")
        late = await world.join()
        assert late.joined["number"] == 1
        wrongs: tuple[dict[str, object] | bytes, ...] = (
            value_of(78),
            {"round": 77},
            b"{",
            {"round": 77, "randomness": "00" * 32, "signature": "00"},
            b"9" * 40_000,
        )
        for wrong in wrongs:
            source.answer, asked = wrong, source.asked

            async def asked_again(asked: int = asked) -> bool:
                return source.asked > asked + 1

            await until(asked_again, "the beacon is asked again")
        assert (await proof_of(world)).stage == "root"
        assert (await world.place(buyers[0]))["state"] == "entered"
        source.answer = value_of(77)
        proof = await reaches(world, "drawn")
        assert proof.beacon_value == value_of(77)["randomness"]
        assert all(finding.holds for finding in verify(proof, await leaves_of(world)))
        await world.admitted(buyers[0])
        assert (await world.place(late))["place"] == 6


async def test_a_draw_goes_on_without_its_beacon_where_it_said_so_and_the_proof_is_marked(
    settings: Settings, pool: Pool
) -> None:
    async with beacon_source() as (_, address), line_world(settings, pool) as world:
        await world.put(opens_at=soon(3), rate_per_minute=6_000, beacon=Beacon(address, 1, "without"))
        await entered(world, 3)
        await reaches(world, "root")
        await pool.execute("ALTER TABLE line.draws DROP CONSTRAINT draw_root_follows_the_close")
        await pool.execute("UPDATE line.draws SET entries_closed_at = entries_closed_at - interval '50 seconds'")
        assert (await proof_of(world)).stage == "root"  # ten seconds are missing yet
        await pool.execute("UPDATE line.draws SET entries_closed_at = entries_closed_at - interval '11 seconds'")
        proof = await reaches(world, "drawn")
        assert (proof.beacon_missed, proof.beacon_value) == (True, None)
        assert all(finding.holds for finding in verify(proof, await leaves_of(world)) if finding.what != "stages")


async def test_the_beacon_changes_only_before_the_pre_queue_and_commits_anew(settings: Settings, pool: Pool) -> None:
    async with line_world(settings, pool) as world:
        await world.put(prequeue_at=soon(600), opens_at=soon(700))
        first = await proof_of(world)
        rooms = Rooms(pool)
        beacon = Beacon("https://beacon.example/chain", 9)
        await rooms.change("onsale", {"beacon": msgspec.to_builtins(beacon)}, actor="test")

        async def committed_anew() -> bool:
            answer = await world.http.get(f"{ROOM}/draw")
            return answer.status_code == 200 and answer.json()["beacon"] is not None

        await until(committed_anew, "the draw commits to the beacon")
        assert (await proof_of(world)).commitment != first.commitment
        await rooms.change("onsale", {"prequeue_at": None}, actor="test")
        await world.shows("phase", "prequeue")
        stands = await proof_of(world)
        with pytest.raises(Problem, match="committed"):
            await rooms.change("onsale", {"beacon": None}, actor="test")
        with pytest.raises(Problem, match="committed"):
            await rooms.put("onsale", RoomSettings(prequeue_at=soon(600), opens_at=soon(700)), actor="test")
        assert (await proof_of(world)).commitment == stands.commitment
        await world.join()  # known to Redis alone for a moment
        await rooms.change("onsale", {"phase": "draft"}, actor="test")
        with pytest.raises(Problem, match="people have entered"):
            await rooms.change("onsale", {"beacon": None}, actor="test")
        assert (await rooms.get("onsale")).settings.beacon == beacon
        assert (await proof_of(world)).commitment == stands.commitment


@pytest.mark.parametrize("stage", ["close_entries", "set_root", "close_draw"])
async def test_a_draw_resumes_where_a_crash_stopped_it(settings: Settings, pool: Pool, stage: str) -> None:
    """The store refuses the stage for a while, as it does to a leader that dies there; then another leader goes on."""
    column = {"close_entries": "entries_closed_at", "set_root": "root", "close_draw": "closed_at"}[stage]
    async with line_world(settings, pool) as world:
        await world.put(opens_at=soon(3), rate_per_minute=6_000)
        buyers = await entered(world, 4)
        await pool.execute(f"ALTER TABLE line.draws ADD CONSTRAINT not_yet CHECK ({column} IS NULL)")
        before = {"close_entries": "committed", "set_root": "entries-closed", "close_draw": "root"}[stage]
        await world.shows("phase", "open")
        stopped = await reaches(world, before)
        assert stopped.secret is None
    async with line_world(settings, pool) as world:
        await pool.execute("ALTER TABLE line.draws DROP CONSTRAINT not_yet")
        proof = await reaches(world, "drawn")
        assert (proof.commitment, proof.entries_closed_at, proof.root) == (
            stopped.commitment,
            stopped.entries_closed_at or proof.entries_closed_at,
            stopped.root or proof.root,
        )
        assert all(finding.holds for finding in verify(proof, await leaves_of(world)))
        assert sorted(place_of(proof, number_of(buyer)) or 0 for buyer in buyers) == [1, 2, 3, 4]


async def test_a_client_cannot_enter_twice_by_a_loss_of_redis(settings: Settings, pool: Pool) -> None:
    async with line_world(settings, pool) as world:
        await world.put(opens_at=soon(600))
        buyers = await entered(world, 12)
        await kept(world, 12)
        async with redis.Redis.from_url(settings.redis_url) as client:
            await client.flushall()

        async def again(buyer: Buyer) -> bool:
            answer = await world.http.post(f"{ROOM}/tickets", json={"client_id": buyer.client_id})
            assert answer.status_code in (200, 503), answer.text
            return answer.status_code == 200 and answer.json()["entry"] == buyer.joined["entry"]

        for buyer in buyers:
            await until(lambda buyer=buyer: again(buyer), "the buyer is known again")  # type: ignore[misc]
        assert number_of(await world.join()) > 12


async def test_a_lost_entry_is_back_in_the_tree_when_its_ticket_is_shown_in_time(
    settings: Settings, pool: Pool
) -> None:
    async with line_world(settings, pool) as world:
        await world.put(opens_at=soon(600))
        buyers = await entered(world, 6)
        await lose(settings, world, buyers[2:])
        back, late = buyers[3], buyers[4]
        await world.place(back)
        await until(in_order(pool, number_of(back)), "the entry is kept")
        more = await world.join()
        await world.open_at(soon(1))
        proof = await reaches(world, "drawn")
        leaves = await leaves_of(world)
        assert all(finding.holds for finding in verify(proof, leaves))
        assert verify_ticket(proof, leaves, number_of(back), client_digest(back.client_id), joined_at(back)).holds
        assert proof.entries == 4  # two that were kept, the one restored, and the newcomer
        shared = (await world.place(late))["place"]

        async def listed() -> bool:
            return number_of(late) in (await proof_of(world)).restored

        await until(listed, "the late one is listed")
        proof = await proof_of(world)
        assert all(finding.holds for finding in verify(proof, await leaves_of(world)))
        assert verify_ticket(proof, leaves, number_of(late), client_digest(late.client_id), joined_at(late)).holds
        assert shared == place_of(proof, number_of(late))
        places = [place_of(proof, number_of(buyer)) for buyer in (*buyers[:2], back, more)]
        assert sorted(place or 0 for place in places) == [1, 2, 3, 4]


async def test_a_reset_keeps_the_earlier_proof_public(settings: Settings, pool: Pool) -> None:
    async with line_world(settings, pool) as world:
        await world.put(opens_at=soon(3), rate_per_minute=6_000)
        await entered(world, 3)
        before = await reaches(world, "drawn")
        leaves = await leaves_of(world)
        unnamed = {
            path: (await world.http.get(f"{ROOM}/{path}")).headers["cache-control"]
            for path in ("draw", "draw/leaves", "draw/entries/1")
        }
        await Rooms(pool).reset("onsale", 1, actor="test")
        await world.shows("epoch", 2)
        await pool.execute(read_text("admission", "sql", "prune_line.sql"), 5_000)
        assert (
            await pool.fetchval("SELECT count(*) FROM line.entries") == 0
        )  # who entered is forgotten, the leaves stay
        assert await proof_of(world, 1) == before
        assert (await world.http.get(f"{ROOM}/draw/leaves?epoch=1")).content == leaves
        assert (await world.http.get(f"{ROOM}/draw/entries/1?epoch=1")).json()["epoch"] == 1
        for path in ("draw", "draw/leaves", "draw/entries/1"):  # what a cache keeps for long names its epoch
            named = await world.http.get(f"{ROOM}/{path}?epoch=1")
            assert "max-age=1," not in named.headers["cache-control"]
            assert "max-age=1," in unnamed[path]

        async def begun() -> bool:
            answer = await world.http.get(f"{ROOM}/draw")
            return answer.status_code == 200 and answer.json()["epoch"] == 2

        await until(begun, "the next epoch has its own draw")
        assert (await proof_of(world)).commitment != before.commitment


async def test_odd_questions_about_a_draw_are_refused_in_words(settings: Settings, pool: Pool) -> None:
    async with line_world(settings, pool) as world:
        await world.put(opens_at=soon(600))
        for query in ("epoch=0", "epoch=x", "epoch=99999999999999999999", "epoch=-1", "epoch=", "epoch=%00", "epoch=²"):
            assert (await world.http.get(f"{ROOM}/draw?{query}")).status_code == 422, query
        for path in (
            "draw?epoch=7",
            "draw/entries/1",
            "draw/entries/0",
            "draw/entries/x",
            f"draw/entries/{'9' * 400}",
            "draw/leaves",
        ):
            assert (await world.http.get(f"{ROOM}/{path}")).status_code == 404, path
        await world.put(method="passthrough", opens_at=soon(600))
    async with line_world(settings, pool, "fifo") as world:
        await world.put(method="fifo")
        assert (await world.http.get("/rooms/fifo/draw")).status_code == 404


async def kept(world: LineWorld, count: int) -> None:
    """Wait until Postgres holds `count` entries."""

    async def there() -> bool:
        return bool(await world.pool.fetchval("SELECT count(*) FROM line.entries") == count)

    await until(there, "the entries are kept")


def in_order(pool: Pool, entry: int) -> Callable[[], Awaitable[bool]]:
    async def there() -> bool:
        return bool(await pool.fetchval("SELECT true FROM line.entries WHERE entry = $1 AND NOT late", entry))

    return there


async def lose(settings: Settings, world: LineWorld, buyers: list[Buyer]) -> None:
    """Make it as if these buyers' entries had been lost with Redis before anything had saved them."""
    first = min(number_of(buyer) for buyer in buyers)
    await kept(world, len(buyers) + first - 1)
    await world.pool.execute("DELETE FROM line.entries WHERE entry >= $1", first)
    await world.pool.execute("UPDATE line.progress SET entries_known = $1", first - 1)
    async with redis.Redis.from_url(settings.redis_url) as client:
        await client.flushall()

    async def restored() -> bool:
        return bool(await world.pool.fetchval("SELECT true FROM line.gaps WHERE kind = 'entry' AND first = $1", first))

    await until(restored, "the loss is made good")
    await world.shows("line", "reachable")


async def test_a_visitor_without_javascript_takes_part_in_the_draw_and_is_told_so(
    settings: Settings, pool: Pool
) -> None:
    async with line_world(settings, pool) as world:
        await world.put(opens_at=soon(4), rate_per_minute=60)
        others = await entered(world, 3)
        joined = await world.http.post(f"{ROOM}/tickets", data={"return": "/"})
        assert joined.status_code == 303
        page = await world.http.get(ROOM, headers={"Accept": "text/html"})
        assert "You are in the draw" in page.text
        proof = await reaches(world, "drawn")
        assert proof.entries == 4
        mine = (await world.http.get(ROOM)).json()["place"]["place"]
        places = [place_of(proof, number_of(buyer)) for buyer in others]
        assert sorted([mine, *(place or 0 for place in places)]) == [1, 2, 3, 4]


async def test_a_room_whose_secret_cannot_be_opened_keeps_no_other_from_its_draw(
    settings: Settings, pool: Pool
) -> None:
    async with line_world(settings, pool) as world:
        await Rooms(pool).put("broken", RoomSettings(opens_at=soon(4)))
        await world.put(opens_at=soon(4), rate_per_minute=6_000)
        await entered(world, 2)
        await pool.execute("UPDATE line.draws SET sealed_secret = sha256(sealed_secret) WHERE room = 'broken'")
        await reaches(world, "drawn")

        async def rooted() -> bool:
            return bool((await world.http.get("/rooms/broken/draw")).json()["stage"] == "root")

        await until(rooted, "the broken room has come as far as it can")
        buyer = await world.join()
        await world.admitted(buyer)
