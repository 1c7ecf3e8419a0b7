"""Signing keys: rotated with overlap, revoked at once, pruned only when nothing alive can carry their signature."""

import asyncio
import contextlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import AsyncIterator

import httpx
import jsonschema
import orjson
import pytest

from admission.keyring import PURPOSES
from admission.passes import PassRefused
from admission.room_settings import RoomSettings
from admission.rooms import Rooms
from admission.signing_keys import PASS_KEY_KEPT_SECONDS, PUBLISHED_SECONDS, Purpose, SigningKey, SigningKeys
from admission.trust import Trust
from chassis.database import Pool
from chassis.keys import ApiKeys
from chassis.settings import Settings
from counters.app import create as create_stock
from tests.line_world import LineWorld, line_world, serving, until

GATE = "/gate/onsale?dialect=nginx"
ASKED = {"lines": [{"sku": "none", "quantity": 1}]}


@contextlib.asynccontextmanager
async def two_gateways(settings: Settings, pool: Pool) -> AsyncIterator[tuple[LineWorld, LineWorld]]:
    async with line_world(settings, pool) as first, line_world(settings, pool) as second:
        yield first, second


def signing_keys(settings: Settings, pool: Pool) -> SigningKeys:
    return SigningKeys(pool, settings.master_key_bytes)


def kid_of(token: str) -> str:
    """The kid in a pass's header or a ticket's second part."""
    head = token.split(".")
    if head[0] == "fgt1":
        return head[1]
    kid: str = orjson.loads(urlsafe_b64decode(head[0] + "=="))["kid"]
    return kid


async def current(keys: SigningKeys, purpose: Purpose) -> SigningKey:
    return next(key for key in await keys.list() if key.purpose == purpose and key.state == "current")


async def let_sign(pool: Pool) -> None:
    """Let the five seconds pass in which a next key is only published."""
    await pool.execute("UPDATE line.signing_keys SET activates_at = clock_timestamp() WHERE state = 'next'")


async def gate(world: LineWorld, token: str) -> int:
    return (await world.http.get(GATE, headers={"Fairgate-Pass": token})).status_code


@pytest.mark.parametrize("purpose", ["pass", "ticket"])
async def test_a_next_key_verifies_everywhere_before_it_signs_and_the_old_one_after(
    settings: Settings, pool: Pool, purpose: Purpose
) -> None:
    async with two_gateways(settings, pool) as (world, other):
        await world.put(rate_per_minute=60_000)
        keys = signing_keys(settings, pool)
        old = await current(keys, purpose)
        before = await world.join()
        old_pass = await world.admitted(before)
        new, made = await keys.rotate(purpose, actor="test")
        assert made
        assert new.activates_at is not None
        assert (new.activates_at - new.created_at).total_seconds() >= 5
        buyer = await world.join()
        assert kid_of(await world.admitted(buyer) if purpose == "pass" else buyer.ticket) == old.kid
        await let_sign(pool)

        async def signs() -> bool:
            return (await current(keys, purpose)).kid == new.kid

        await until(signs, "the next key becomes the current one")

        async def signed_with_the_new_one() -> bool:
            nonlocal buyer
            buyer = await world.join()
            token = await world.admitted(buyer) if purpose == "pass" else buyer.ticket
            return kid_of(token) == new.kid

        await until(signed_with_the_new_one, "the worker signs with it")
        assert await gate(other, await world.admitted(buyer)) == 204
        assert (await other.place(buyer))["state"] == "admitted"
        assert await gate(other, old_pass) == 204
        assert (await other.place(before))["state"] == "admitted"
        retired = next(key for key in await keys.list() if key.kid == old.kid)
        assert retired.state == "retired"
        renewed = await world.http.post(
            "/rooms/onsale/tickets", json={"client_id": before.client_id}, headers={"Fairgate-Ticket": before.ticket}
        )
        assert (renewed.status_code, renewed.json()["ticket_id"]) == (200, before.ticket_id)
        assert kid_of(renewed.json()["ticket"]) == (await current(keys, "ticket")).kid


async def test_rotating_while_a_key_waits_answers_that_key(settings: Settings, pool: Pool) -> None:
    async with line_world(settings, pool):
        keys = signing_keys(settings, pool)
        answers = await asyncio.gather(*(keys.rotate("pass", actor="test") for _ in range(5)))
        assert len({key.kid for key, _ in answers}) == 1
        assert [made for _, made in answers].count(True) == 1
        noted = await pool.fetch("SELECT actor, room FROM line.operator_actions WHERE action = 'rotate-key'")
        assert [tuple(row) for row in noted] == [("test", None)]


async def test_many_workers_that_find_a_key_due_activate_it_once(settings: Settings, pool: Pool) -> None:
    async with line_world(settings, pool):
        keys = signing_keys(settings, pool)
        await keys.rotate("ticket", actor="test")
        await let_sign(pool)
        await asyncio.gather(*(keys.activate("ticket") for _ in range(8)))
        assert sorted(key.state for key in await keys.list() if key.purpose == "ticket") == ["current", "retired"]


async def test_a_pass_by_a_key_that_a_verifier_has_not_heard_of_is_accepted_at_once(
    settings: Settings, pool: Pool
) -> None:
    async with two_gateways(settings, pool) as (world, other), serving(create_stock(settings)) as stock:
        await world.put(rate_per_minute=60_000)
        buyer = await world.join()
        first = await world.admitted(buyer)
        keys = signing_keys(settings, pool)
        old = await current(keys, "pass")
        await keys.revoke(old.kid, actor="test")  # another key signs at once, published nowhere before

        async def signed_anew() -> bool:
            return kid_of(await world.admitted(buyer)) != old.kid

        await until(signed_anew, "the pass is signed anew")
        token = await world.admitted(buyer)
        async with httpx.AsyncClient(base_url=stock, trust_env=False) as shop:
            asked = await shop.post("/v1/holds", json=ASKED, headers={"Fairgate-Pass": token, "Idempotency-Key": "a"})
            assert asked.status_code == 404, asked.text  # the pass is good; the SKU does not exist
        assert await gate(other, token) == 204
        assert _claims(token) == _claims(first)


async def test_an_unknown_key_is_asked_for_once_a_second_at_most(settings: Settings, pool: Pool) -> None:
    async with line_world(settings, pool) as world:
        await world.put(rate_per_minute=60_000)
        token = await world.admitted(await world.join())
    trust = Trust(pool)
    readings = 0
    refresh = trust.refresh

    async def counted() -> None:
        nonlocal readings
        readings += 1
        await refresh()

    trust._refetch._refresh = counted
    unknown = [f"{token[:3]}.{number}" for number in range(3)]
    assert not any([await trust.learn(text) for text in unknown])
    assert readings == 0  # no JWT, no key to ask for
    forged = [_with_kid(token, f"made-up-{number}") for number in range(50)]
    await asyncio.gather(*(trust.learn(text) for text in forged))
    assert readings == 1
    assert trust.verifier.verify(token, "onsale", _claims(token)["iat"]).room == "onsale"


async def test_a_revoked_pass_key_is_refused_everywhere_and_the_ticket_gives_the_same_right_again(
    settings: Settings, pool: Pool
) -> None:
    async with two_gateways(settings, pool) as (world, other), serving(create_stock(settings)) as stock:
        await world.put(rate_per_minute=60_000)
        buyer = await world.join()
        token = await world.admitted(buyer)
        assert await gate(other, token) == 204
        await signing_keys(settings, pool).revoke(kid_of(token), actor="test")

        async def refused() -> bool:
            return await gate(world, token) == await gate(other, token) == 401

        await until(refused, "both gates refuse it")
        async with httpx.AsyncClient(base_url=stock, trust_env=False) as shop:

            async def refused_by_the_stock() -> bool:
                headers = {"Fairgate-Pass": token, "Idempotency-Key": "a"}
                answer = await shop.post("/v1/holds", json=ASKED, headers=headers)
                return answer.status_code == 403 and answer.json()["reason"] == "revoked-key"

            await until(refused_by_the_stock, "the stock refuses it")
        again = await world.admitted(buyer)
        assert _claims(again) == _claims(token)

        async def lets_in() -> bool:  # an unknown key is looked for once a second at most
            return await gate(other, again) == 204

        await until(lets_in, "the other gate knows the new key")
        published = await other.http.get("/.well-known/jwks.json")
        assert kid_of(token) not in [key["kid"] for key in published.json()["keys"]]
        assert int(published.headers["cache-control"].rpartition("max-age=")[2]) < PUBLISHED_SECONDS


async def test_whoever_joins_again_after_a_ticket_key_was_revoked_has_the_same_place(
    settings: Settings, pool: Pool
) -> None:
    async with line_world(settings, pool) as world:
        await world.put(rate_per_minute=1)
        buyers = [await world.join() for _ in range(3)]
        browser = await world.http.post("/rooms/onsale/tickets", data={"return": "/"})
        cookies = dict(browser.cookies)
        world.http.cookies.clear()
        await signing_keys(settings, pool).revoke(kid_of(buyers[0].ticket), actor="test")

        async def refused() -> bool:
            answer = await world.http.get("/rooms/onsale/place", headers={"Fairgate-Ticket": buyers[2].ticket})
            return answer.status_code == 403 and answer.json()["reason"] == "revoked-key"

        await until(refused, "the ticket is refused")
        assert "Join again" in (await world.claim(buyers[2])).json()["detail"]
        again = await world.http.post("/rooms/onsale/tickets", json={"client_id": buyers[2].client_id})
        assert again.status_code == 200
        assert again.json()["number"] == buyers[2].joined["number"]
        assert again.json()["ticket_id"] == buyers[2].ticket_id
        answer = await world.http.post("/rooms/onsale/tickets", data={"return": "/"}, headers=_cookie(cookies))
        assert answer.status_code == 303
        ticket = answer.cookies["fairgate-ticket-onsale"]
        world.http.cookies.clear()

        async def fourth() -> bool:
            place = await world.http.get("/rooms/onsale/place", headers={"Fairgate-Ticket": ticket})
            return bool(place.json()["place"] == 4)

        await until(fourth, "it has the place that it had")


async def test_revoking_twice_is_once_and_an_unknown_key_is_told(settings: Settings, pool: Pool) -> None:
    async with line_world(settings, pool) as world:
        api = ApiKeys(pool)
        admin = {"Authorization": f"Bearer {await api.create('root', 'admin')}"}
        operator = {"Authorization": f"Bearer {await api.create('ops', 'operator')}"}
        assert (await world.http.get("/admin/signing-keys")).status_code == 401
        for address in ("/admin/signing-keys/pass/rotate", "/admin/signing-keys/x/revoke"):
            assert (await world.http.post(address, headers=operator)).status_code == 403
        rotated = await world.http.post("/admin/signing-keys/pass/rotate", headers=admin)
        repeated = await world.http.post("/admin/signing-keys/pass/rotate", headers=admin)
        assert (rotated.status_code, repeated.status_code) == (201, 200)
        assert rotated.json() == repeated.json()
        listed = (await world.http.get("/admin/signing-keys", headers=admin)).json()
        document = (await world.http.get("/openapi.json")).json()
        schema = {"$ref": "#/components/schemas/SigningKeys", "components": document["components"]}
        jsonschema.Draft202012Validator(schema).validate(listed)
        assert [key["state"] for key in listed["keys"] if key["purpose"] == "pass"] == ["next", "current"]
        kid = next(key["kid"] for key in listed["keys"] if (key["purpose"], key["state"]) == ("pass", "current"))
        first = await world.http.post(f"/admin/signing-keys/{kid}/revoke", headers=admin)
        second = await world.http.post(f"/admin/signing-keys/{kid}/revoke", headers=admin)
        assert first.status_code == second.status_code == 200
        assert first.json() == second.json()
        assert first.json()["state"] == "revoked"
        states = {key.kid: key.state for key in await signing_keys(settings, pool).list()}
        assert states[rotated.json()["kid"]] == "current"  # the one that waited steps in
        for wrong in ("/admin/signing-keys/x/revoke", "/admin/signing-keys/seal/rotate"):
            assert (await world.http.post(wrong, headers=admin)).status_code == 404
        noted = await Rooms(pool).actions(None)
        assert [one["action"] for one in noted] == ["revoke-key", "rotate-key"]
        assert str(noted[0]["actor"]).startswith("root (")


async def test_a_retired_key_goes_only_when_nothing_alive_can_carry_its_signature(
    settings: Settings, pool: Pool
) -> None:
    async with line_world(settings, pool) as world:
        await world.put()
        keys = signing_keys(settings, pool)
        for purpose in PURPOSES:
            await keys.rotate(purpose, actor="test")
        await let_sign(pool)
        for purpose in PURPOSES:
            await keys.activate(purpose)

        async def retired() -> list[str]:
            await keys.prune()
            return sorted(key.purpose for key in await keys.list() if key.state == "retired")

        assert await retired() == ["pass", "ticket"]
        aged = (
            "UPDATE line.signing_keys SET retired_at = retired_at - make_interval(secs => $1) WHERE state = 'retired'"
        )
        await pool.execute(aged, PASS_KEY_KEPT_SECONDS - 60)
        assert await retired() == ["pass"]  # no pass is as old, and no room's epoch is older than the ticket key
        await pool.execute(aged, 120.0)
        assert await retired() == []
        await keys.rotate("ticket", actor="test")
        await let_sign(pool)
        await keys.activate("ticket")
        await pool.execute(aged, 3_600.0)
        await pool.execute("UPDATE line.draws SET committed_at = committed_at - interval '1 day'")
        assert await retired() == ["ticket"]  # the sale that it signed for goes on
        await Rooms(pool).reset("onsale", 1, actor="test")

        async def begun() -> bool:
            return bool(await pool.fetchval("SELECT count(*) = 1 FROM line.draws WHERE epoch = 2"))

        await until(begun, "the next epoch begins")
        assert await retired() == []


async def test_a_pass_of_an_ended_epoch_is_refused_by_gate_and_stock(settings: Settings, pool: Pool) -> None:
    async with line_world(settings, pool) as world, serving(create_stock(settings)) as stock:
        await world.put(rate_per_minute=60_000)
        buyer = await world.join()
        token = await world.admitted(buyer)
        assert _claims(token)["epoch"] == 1
        await Rooms(pool).reset("onsale", 1, actor="test")

        async def refused() -> bool:
            return await gate(world, token) == 401

        await until(refused, "the gate refuses it")
        async with httpx.AsyncClient(base_url=stock, trust_env=False) as shop:

            async def refused_by_the_stock() -> bool:
                headers = {"Fairgate-Pass": token, "Idempotency-Key": "a"}
                answer = await shop.post("/v1/holds", json=ASKED, headers=headers)
                return answer.status_code == 403 and answer.json()["reason"] == "old-epoch"

            await until(refused_by_the_stock, "the stock refuses it")
            mine = await shop.get("/v1/holds/019a0000-0000-7000-8000-000000000001", headers={"Fairgate-Pass": token})
            assert mine.status_code == 404  # it still says whose holds it made
        await Rooms(pool).put("onsale", RoomSettings(rate_per_minute=60_000))
        await world.shows("phase", "open")
        await world.shows("line", "reachable")
        later = await world.admitted(await world.join())
        assert _claims(later)["epoch"] == 2
        assert await gate(world, later) == 204


async def test_trust_refuses_a_revoked_key_by_name_also_for_a_pass_seen_before(settings: Settings, pool: Pool) -> None:
    async with line_world(settings, pool) as world:
        await world.put(rate_per_minute=60_000)
        token = await world.admitted(await world.join())
    trust = Trust(pool)
    await trust.refresh()
    now = _claims(token)["iat"]
    assert trust.verifier.verify(token, "onsale", now).epoch == 1
    await signing_keys(settings, pool).revoke(kid_of(token), actor="test")
    await trust.refresh()
    with pytest.raises(PassRefused, match="revoked-key"):
        trust.verifier.verify(token, "onsale", now)
    with pytest.raises(PassRefused, match="revoked-key"):
        trust.verifier.read(token)


def _claims(token: str) -> dict[str, int]:
    claims: dict[str, int] = orjson.loads(urlsafe_b64decode(token.split(".")[1] + "=="))
    return claims


def _with_kid(token: str, kid: str) -> str:
    header = urlsafe_b64encode(orjson.dumps({"alg": "EdDSA", "kid": kid})).rstrip(b"=").decode()
    return ".".join([header, *token.split(".")[1:]])


def _cookie(cookies: dict[str, str]) -> dict[str, str]:
    return {"Cookie": "; ".join(f"{name}={value}" for name, value in cookies.items())}
