"""Renewal on activity: the slot first, then a longer pass for the same right; what was left never comes back by it."""

import json
from base64 import urlsafe_b64decode

import pytest
import redis.asyncio as redis
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from admission.passes import Pass, PassRefused, PassSigner, PassVerifier
from chassis.database import Pool
from chassis.settings import Settings
from tests.line_world import LineWorld, line_world, until


def read(token: str) -> dict[str, object]:
    claims: dict[str, object] = json.loads(urlsafe_b64decode(token.split(".")[1] + "=="))
    return claims


async def visit(world: LineWorld, token: str) -> str | None:
    """Pass the gate as a browser does: the longer pass that it gives, if any."""
    answer = await world.http.get("/gate/onsale?dialect=nginx", headers={"Cookie": f"fairgate-pass-onsale={token}"})
    assert answer.status_code == 204
    world.http.cookies.clear()  # this client shows what a test says, and nothing besides
    cookie = answer.headers.get("set-cookie")
    if cookie is None:
        assert answer.headers["fairgate-pass"] == token
        return None
    longer: str = answer.headers["fairgate-pass"]
    assert cookie.startswith(f"fairgate-pass-onsale={longer};")
    assert "HttpOnly" in cookie
    return longer


async def renewed(world: LineWorld, token: str) -> str:
    """Shop on until the gate gives a longer pass."""
    given: list[str] = []

    async def longer() -> bool:
        found = await visit(world, token)
        if found is not None:
            given.append(found)
        return bool(given)

    await until(longer, "a longer pass is given")
    return given[0]


async def test_an_active_buyers_slot_is_longer_before_the_longer_pass_is_given(settings: Settings, pool: Pool) -> None:
    async with line_world(settings, pool) as world, redis.Redis.from_url(settings.redis_url) as memory:
        await world.put(rate_per_minute=60_000, pass_seconds=30)
        buyer = await world.join()
        token = await world.admitted(buyer)
        longer = await renewed(world, token)
        old, new = read(token), read(longer)
        assert {name: new[name] for name in ("sub", "jti", "iat", "nbf", "aud")} == {
            name: old[name] for name in ("sub", "jti", "iat", "nbf", "aud")
        }
        assert int(str(new["exp"])) > int(str(old["exp"]))
        assert int(await memory.zscore("{onsale}:slots", buyer.ticket_id) or 0) >= int(str(new["exp"]))
        assert await memory.zcard("{onsale}:slots") == 1
        again = await world.claim(buyer)
        assert again.status_code == 200
        assert int(str(read(again.json()["pass"])["exp"])) >= int(str(new["exp"]))

        async def kept() -> bool:
            kept_until = await pool.fetchval("SELECT expires_at FROM line.claims WHERE ticket_id = $1", buyer.ticket_id)
            return kept_until is not None and kept_until >= int(str(new["exp"]))

        await until(kept, "Postgres has the longer slot, so that a lost Redis gets it back")


async def test_leaving_ends_every_renewed_pass_too(settings: Settings, pool: Pool) -> None:
    async with line_world(settings, pool) as world:
        await world.put(rate_per_minute=60_000, pass_seconds=30)
        token = await world.admitted(await world.join())
        longer = await renewed(world, token)
        left = await world.http.delete("/rooms/onsale/passes", headers={"Fairgate-Pass": token})
        assert left.status_code == 204
        for one in (token, longer):
            answer = await world.http.get("/gate/onsale?dialect=nginx", headers={"Fairgate-Pass": one})
            assert answer.status_code == 401
        assert await pool.fetchval("SELECT expires_at FROM line.revocations") >= int(str(read(longer)["exp"]))


async def test_the_first_pass_of_a_renewed_slot_still_gives_it_back_after_its_own_end(
    settings: Settings, pool: Pool
) -> None:
    """C-05: a shop may hold the pass that its buyer came with."""
    async with line_world(settings, pool) as world, redis.Redis.from_url(settings.redis_url) as memory:
        await world.put(rate_per_minute=60_000, pass_seconds=6)
        token = await world.admitted(await world.join())
        latest = [token]

        async def over() -> bool:
            longer = await visit(world, latest[-1])
            latest.extend([longer] if longer is not None else [])
            answer = await world.http.get("/gate/onsale?dialect=nginx", headers={"Fairgate-Pass": token})
            return answer.status_code == 401

        await until(over, "the first pass is over while its buyer shops on")
        assert await memory.zcard("{onsale}:slots") == 1
        assert (await world.http.delete("/rooms/onsale/passes", headers={"Fairgate-Pass": token})).status_code == 204
        assert await memory.zcard("{onsale}:slots") == 0
        answer = await world.http.get("/gate/onsale?dialect=nginx", headers={"Fairgate-Pass": latest[-1]})
        assert answer.status_code == 401


async def test_a_room_without_renewal_lengthens_nothing(settings: Settings, pool: Pool) -> None:
    async with line_world(settings, pool) as world, redis.Redis.from_url(settings.redis_url) as memory:
        await world.put(rate_per_minute=60_000, pass_seconds=5, renew=False)
        buyer = await world.join()
        token = await world.admitted(buyer)
        slot = await memory.zscore("{onsale}:slots", buyer.ticket_id)

        async def over() -> bool:
            answer = await world.http.get("/gate/onsale?dialect=nginx", headers={"Fairgate-Pass": token})
            assert "set-cookie" not in answer.headers
            return answer.status_code == 401

        await until(over, "the pass has expired at its own time")
        assert slot == int(str(read(token)["exp"]))


def test_a_pass_that_was_seen_before_ends_at_its_own_exp_although_a_longer_one_is_about() -> None:
    private = Ed25519PrivateKey.generate()
    signer = PassSigner("k1", private, "https://shop.example/.fairgate")
    verifier = PassVerifier()
    verifier.trust_keys({"k1": private.public_key().public_bytes_raw()})
    old = signer.sign(Pass("onsale", "ticket-1", "jti-1", 100, 700))
    longer = signer.sign(Pass("onsale", "ticket-1", "jti-1", 100, 900))
    assert verifier.verify(old, "onsale", 699) == verifier.verify(old, "onsale", 200)
    assert verifier.verify(longer, "onsale", 800).expires_at == 900
    with pytest.raises(PassRefused, match="expired"):
        verifier.verify(old, "onsale", 700)
