"""Revocation by operators: out everywhere within two seconds, the slot free, and whom it concerns is told why."""

import json
from base64 import urlsafe_b64decode

import httpx
import jwt
import pytest
import redis.asyncio as redis
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from admission.passes import Pass, PassRefused, PassSigner, PassVerifier
from admission.revocation_list import LIST_KIND, RefusedIdentity, RefusedPass, RevocationLists
from chassis.database import Pool
from chassis.keys import ApiKeys
from chassis.settings import Settings
from tests.line_world import LineWorld, line_world, until
from tests.test_line_turns import two_workers, until_state

WORDS = "Bought by a script. Write to fair@shop.example"


async def revoke(world: LineWorld, kind: str, subject: str, reason: str = WORDS) -> httpx.Response:
    operator = {"Authorization": f"Bearer {await ApiKeys(world.pool).create('ops', 'operator')}"}
    body = {"kind": kind, "subject": subject, "reason": reason}
    return await world.http.post("/admin/rooms/onsale/revocations", json=body, headers=operator)


async def at_the_gate(world: LineWorld, token: str) -> int:
    return (await world.http.get("/gate/onsale?dialect=nginx", headers={"Fairgate-Pass": token})).status_code


async def test_a_revoked_ticket_is_out_everywhere_frees_its_slot_and_is_told_why(
    settings: Settings, pool: Pool
) -> None:
    """C-47: nobody is thrown out in silence."""
    async with two_workers(settings, pool) as (world, other):
        await world.put(rate_per_minute=60_000, active_max=1)
        buyer, next_in_line = await world.join(), await world.join()
        token = await world.admitted(buyer)

        async def known() -> bool:
            return await at_the_gate(other, token) == 204

        await until(known, "the other worker knows the key")
        answer = await revoke(world, "ticket", buyer.ticket_id)
        assert (answer.status_code, answer.json()["reason"]) == (201, WORDS)

        async def out() -> bool:
            return [await at_the_gate(one, token) for one in (world, other)] == [401, 401]

        await until(out, "the pass is refused everywhere")

        async def told() -> bool:
            answers = [await one.http.get("/rooms/onsale/place", headers=buyer.headers) for one in (world, other)]
            return [answer.status_code for answer in answers] == [403, 403] and all(
                WORDS in answer.json()["detail"] and answer.json()["reason"] == "revoked" for answer in answers
            )

        await until(told, "its owner is told")
        claim = await world.claim(buyer)
        assert (claim.status_code, claim.json()["code"], claim.json()["reason"]) == (403, "ticket-refused", "revoked")
        again = await world.http.post("/rooms/onsale/tickets", json={"client_id": buyer.client_id})
        assert (again.status_code, again.json()["reason"]) == (403, "revoked")
        await world.admitted(next_in_line)


async def test_a_ticket_revoked_while_it_waits_is_never_let_in(settings: Settings, pool: Pool) -> None:
    async with line_world(settings, pool) as world, redis.Redis.from_url(settings.redis_url) as memory:
        await world.put(rate_per_minute=60_000)
        buyer = await world.join()
        await until_state(world, buyer, "called")
        await revoke(world, "ticket", buyer.ticket_id)

        async def marked() -> bool:
            record = await memory.hget("{onsale}:claims", buyer.ticket_id)
            return str(record).rstrip("'").endswith("revoked")

        await until(marked, "the line knows")
        assert (await world.claim(buyer)).status_code == 403
        assert await memory.zcard("{onsale}:slots") == 0


async def test_a_revoked_pass_is_out_and_its_slot_is_free_and_a_repeat_is_one_revocation(
    settings: Settings, pool: Pool
) -> None:
    async with line_world(settings, pool) as world:
        await world.put(rate_per_minute=60_000, active_max=1)
        buyer, next_in_line = await world.join(), await world.join()
        token = await world.admitted(buyer)
        jti = json.loads(urlsafe_b64decode(token.split(".")[1] + "=="))["jti"]

        async def kept() -> bool:
            return bool(await pool.fetchval("SELECT count(*) FROM line.claims"))

        await until(kept, "the claim is in Postgres")
        assert (await revoke(world, "pass", jti)).status_code == 201
        repeated = await revoke(world, "pass", jti, "another reason")
        assert (repeated.status_code, repeated.json()["reason"]) == (200, WORDS)
        actions = await pool.fetch("SELECT detail FROM line.operator_actions WHERE action = 'revoke'")
        assert [json.loads(row["detail"])["subject"] for row in actions] == [jti]
        await world.admitted(next_in_line)
        assert await at_the_gate(world, token) == 401
        assert (await world.claim(buyer)).status_code == 410
        unknown = await revoke(world, "pass", "no-such-pass")
        assert unknown.status_code == 404


@pytest.mark.parametrize(
    "body",
    [
        {"kind": "device", "subject": "x", "reason": "y"},
        {"kind": "ticket", "subject": "", "reason": "y"},
        {"kind": "ticket", "subject": "x" * 201, "reason": "y"},
        {"kind": "ticket", "subject": "x"},
        {"kind": "ticket", "subject": "no ticket id", "reason": "y"},
        {"kind": "ticket", "subject": "x", "reason": "a\nb"},
    ],
)
async def test_a_revocation_that_says_too_little_is_refused(
    settings: Settings, pool: Pool, body: dict[str, str]
) -> None:
    async with line_world(settings, pool) as world:
        await world.put()
        operator = {"Authorization": f"Bearer {await ApiKeys(pool).create('ops', 'operator')}"}
        refused = await world.http.post("/admin/rooms/onsale/revocations", json=body, headers=operator)
        assert (refused.status_code, refused.json()["code"]) == (422, "invalid")
        nobody = await world.http.post("/admin/rooms/onsale/revocations", json=body)
        assert nobody.status_code == 401


async def test_a_place_that_moved_to_another_device_says_so_on_the_old_one(settings: Settings, pool: Pool) -> None:
    async with line_world(settings, pool) as world:
        await world.put(rate_per_minute=1)
        buyer = await world.join()
        await pool.execute(
            "INSERT INTO line.revoked_tickets (room, epoch, kind, subject, reason) VALUES ('onsale', 1, 'device', $1, 'moved')",
            buyer.client_id,
        )

        async def moved() -> bool:
            answer = await world.http.get("/rooms/onsale/place", headers=buyer.headers)
            return answer.status_code == 403 and answer.json()["reason"] == "moved"

        await until(moved, "the old device is told")


async def test_the_public_list_is_signed_and_tells_verifiers_what_is_new(settings: Settings, pool: Pool) -> None:
    async with line_world(settings, pool) as world:
        await world.put(rate_per_minute=60_000)
        token = await world.admitted(await world.join())
        key = jwt.PyJWKSet.from_dict((await world.http.get("/.well-known/jwks.json")).json()).keys[0]

        async def read(since: str = "") -> dict[str, object]:
            answer = await world.http.get(f"/rooms/onsale/revocations{since}")
            assert answer.headers["content-type"] == "application/jose"
            assert jwt.get_unverified_header(answer.text)["typ"] == LIST_KIND
            claims: dict[str, object] = jwt.decode(answer.text, key.key, algorithms=["EdDSA"], audience="onsale")
            return claims

        before = await read()
        assert before["passes"] == []
        await world.http.delete("/rooms/onsale/passes", headers={"Fairgate-Pass": token})

        async def listed() -> bool:
            return bool((await read(f"?since={before['next']}"))["passes"])

        await until(listed, "the pass is listed")
        jti = json.loads(urlsafe_b64decode(token.split(".")[1] + "=="))["jti"]
        whole = await world.http.get("/rooms/onsale/revocations")
        listed_passes = jwt.decode(whole.text, key.key, algorithms=["EdDSA"], audience="onsale")["passes"]
        assert [one["jti"] for one in listed_passes] == [jti]
        same = await world.http.get("/rooms/onsale/revocations", headers={"If-None-Match": whole.headers["etag"]})
        assert same.status_code == 304
        assert (await world.http.get("/rooms/onsale/revocations?since=-1")).status_code == 422
        assert await at_the_gate(world, whole.text) == 401  # no list serves as a pass


def test_passes_of_a_revoked_identity_are_refused_and_no_others() -> None:
    private = Ed25519PrivateKey.generate()
    signer = PassSigner("k1", private, "https://shop.example/.fairgate")
    verifier = PassVerifier()
    verifier.trust_keys({"k1": private.public_key().public_bytes_raw()})
    of_identity = signer.sign(Pass("onsale", "ticket-1", "jti-1", 100, 700, "buyer-7"))
    without = signer.sign(Pass("onsale", "ticket-2", "jti-2", 100, 700))
    assert verifier.verify(of_identity, "onsale", 200).identity == "buyer-7"
    verifier.revoke_identities([("onsale", 1, "buyer-7")])
    with pytest.raises(PassRefused, match="revoked"):
        verifier.verify(of_identity, "onsale", 200)
    assert verifier.verify(without, "onsale", 200).subject == "ticket-2"


def test_a_list_since_an_earlier_one_misses_nothing_written_since() -> None:
    lists = RevocationLists()
    lists.note([RefusedPass("onsale", "a", 500, 10), RefusedPass("other", "b", 500, 11)], 12, now=100)
    first = lists.since("onsale", 0)
    assert ([one.jti for one in first.passes], first.next) == (["a"], 12)
    late: list[RefusedPass | RefusedIdentity] = [
        RefusedPass("onsale", "c", 600, 12),
        RefusedIdentity("onsale", 1, "buyer-7", 14),
    ]
    lists.note(late, 15, now=100)
    news = lists.since("onsale", first.next)
    assert [one.jti for one in news.passes] == ["c"]
    assert [one.identity for one in news.identities] == ["buyer-7"]
    assert "buyer-7" not in json.dumps(news.claims("us", 100))
    assert lists.since("onsale", 99).passes == lists.since("onsale", 0).passes  # a number from a database that is gone
    assert first.tag != news.tag
    assert lists.since("onsale", 12).tag == news.tag
    lists.note([], 16, now=550)
    assert [one.jti for one in lists.since("onsale", 0).passes] == ["c"]
