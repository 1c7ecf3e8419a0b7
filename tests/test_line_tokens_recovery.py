"""Going on from another device: a one-time code moves the place and nothing else; the old device is told."""

import asyncio
import re
import secrets
from base64 import urlsafe_b64decode
from datetime import UTC, datetime, timedelta

import httpx
import jsonschema
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from admission.attempts import Attempts
from admission.recovery_codes import ALPHABET, new_code, read_code
from admission.tickets import Ticket, TicketKeys, client_id_of, new_secret, proves, read_words
from chassis.database import Pool
from chassis.problems import Problem
from chassis.settings import Settings
from tests.line_world import Buyer, LineWorld, line_world, until

MAKE, REDEEM = "/rooms/onsale/recovery", "/rooms/onsale/recovered"


async def code_of(world: LineWorld, buyer: Buyer) -> str:
    answer = await world.http.post(MAKE, headers=buyer.headers)
    assert answer.status_code == 201, answer.text
    code: str = answer.json()["code"]
    return code


async def redeem(world: LineWorld, code: str, secret: str) -> httpx.Response:
    return await world.http.post(REDEEM, json={"code": code, "client_id": client_id_of(secret)})


def moved(buyer: Buyer, secret: str, answer: httpx.Response) -> Buyer:
    """The buyer on the other device."""
    document = answer.json()
    return Buyer(secret, client_id_of(secret), document["ticket"], document["ticket_id"], document)


def token_subject(token: str) -> tuple[str, str]:
    claims = orjson.loads(urlsafe_b64decode(token.split(".")[1] + "=="))
    return claims["sub"], claims["jti"]


async def test_a_place_goes_on_from_another_device_and_its_pass_with_it(settings: Settings, pool: Pool) -> None:
    async with line_world(settings, pool) as world:
        await world.put(rate_per_minute=60_000)
        buyer = await world.join()
        token = await world.admitted(buyer)
        secret = new_secret()
        answer = await redeem(world, await code_of(world, buyer), secret)
        assert answer.status_code == 201
        document = (await world.http.get("/openapi.json")).json()
        schema = {"$ref": "#/components/schemas/Ticket", "components": document["components"]}
        jsonschema.Draft202012Validator(schema).validate(answer.json())
        phone = moved(buyer, secret, answer)
        assert phone.ticket_id == buyer.ticket_id
        assert phone.joined["number"] == buyer.joined["number"]
        assert (await world.place(phone))["place"] == 1
        assert token_subject(await world.admitted(phone)) == token_subject(token)
        by_old_secret = {"Fairgate-Ticket": phone.ticket, "Fairgate-Secret": buyer.secret}
        refused = await world.http.post("/rooms/onsale/passes", headers=by_old_secret)
        assert (refused.status_code, refused.json()["code"]) == (403, "secret-refused")
        joined = await world.http.post(
            "/rooms/onsale/tickets", json={"client_id": phone.client_id}, headers={"Fairgate-Ticket": phone.ticket}
        )
        assert joined.json()["ticket"] == phone.ticket


async def test_the_old_device_may_not_go_on_and_hears_why(settings: Settings, pool: Pool) -> None:
    async with line_world(settings, pool) as world:
        await world.put(rate_per_minute=60_000)
        buyer = await world.join()
        await redeem(world, await code_of(world, buyer), new_secret())

        async def told() -> bool:
            answer = await world.http.get("/rooms/onsale/place", headers=buyer.headers)
            return answer.status_code == 403 and answer.json()["reason"] == "moved"

        await until(told, "the old device is told")
        for method, address in (("POST", "/rooms/onsale/passes"), ("POST", MAKE)):
            answer = await world.http.request(method, address, headers=buyer.headers)
            assert (answer.status_code, answer.json()["reason"]) == (403, "moved")
        rejoined = await world.http.post("/rooms/onsale/tickets", json={"client_id": buyer.client_id})
        assert (rejoined.status_code, rejoined.json()["reason"]) == (403, "moved")


async def test_a_code_works_once_and_the_same_device_may_ask_again(settings: Settings, pool: Pool) -> None:
    async with line_world(settings, pool) as world:
        await world.put()
        code = await code_of(world, await world.join())
        secret = new_secret()
        first, again = await redeem(world, code, secret), await redeem(world, code, secret)
        assert (first.status_code, again.status_code) == (201, 200)
        assert first.json()["ticket"] == again.json()["ticket"]
        other = await redeem(world, code, new_secret())
        assert (other.status_code, other.json()["code"]) == (404, "recovery-refused")


async def test_of_two_devices_that_race_for_a_code_one_wins(settings: Settings, pool: Pool) -> None:
    async with line_world(settings, pool) as world, line_world(settings, pool) as other:
        await world.put()
        for _ in range(5):
            code = await code_of(world, await world.join())
            answers = await asyncio.gather(*(redeem(worker, code, new_secret()) for worker in (world, other) * 3))
            assert sorted(answer.status_code for answer in answers) == [201, 404, 404, 404, 404, 404]
        assert await pool.fetchval("SELECT count(*) FROM line.revoked_tickets WHERE kind = 'device'") == 5


async def test_a_second_code_voids_the_first(settings: Settings, pool: Pool) -> None:
    async with line_world(settings, pool) as world:
        await world.put()
        buyer = await world.join()
        first, second = await code_of(world, buyer), await code_of(world, buyer)
        assert (await redeem(world, first, new_secret())).status_code == 404
        assert (await redeem(world, second, new_secret())).status_code == 201


async def test_a_code_ends_after_ten_minutes_and_is_forgotten(settings: Settings, pool: Pool) -> None:
    async with line_world(settings, pool) as world:
        await world.put()
        answer = await world.http.post(MAKE, headers=(await world.join()).headers)
        expires_at = datetime.fromisoformat(answer.json()["expires_at"])
        assert timedelta(minutes=9) < expires_at - datetime.now(UTC) < timedelta(minutes=11)
        await pool.execute("UPDATE line.recoveries SET expires_at = clock_timestamp()")
        assert (await redeem(world, answer.json()["code"], new_secret())).status_code == 404


async def test_a_place_may_move_on_and_back_to_the_first_device_with_a_new_secret(
    settings: Settings, pool: Pool
) -> None:
    async with line_world(settings, pool) as world:
        await world.put()
        buyer = await world.join()
        secret = new_secret()
        own = await redeem(world, await code_of(world, buyer), buyer.secret)
        assert (own.status_code, own.json()["errors"][0]["pointer"]) == (422, "/client_id")
        phone = moved(buyer, secret, await redeem(world, await code_of(world, buyer), secret))
        code = await code_of(world, phone)
        assert (await redeem(world, code, buyer.secret)).status_code == 422  # given away: it stays given away
        back = await redeem(world, code, new_secret())
        assert back.status_code == 201
        assert back.json()["ticket_id"] == buyer.ticket_id


async def test_codes_are_refused_in_words_and_tried_only_so_often(settings: Settings, pool: Pool) -> None:
    async with line_world(settings, pool) as world:
        await world.put()
        buyer = await world.join()
        needs_secret = await world.http.post(MAKE, headers={"Fairgate-Ticket": buyer.ticket})
        assert (needs_secret.status_code, needs_secret.json()["code"]) == (401, "secret-required")
        foreign = await world.http.post(MAKE, headers={"Cookie": _cookie(buyer), "Origin": "http://evil.example"})
        assert (foreign.status_code, foreign.json()["code"]) == (403, "foreign-origin")
        codes = []
        for number in range(60):
            typed = secrets.token_hex(6) if number % 2 else "\u00e4" * number
            answer = await redeem(world, typed, new_secret())
            codes.append(answer.status_code)
        assert set(codes) <= {404, 429}
        async with line_world(settings, pool, "other") as other:
            await other.put()
            elsewhere = await other.http.post(
                "/rooms/other/recovered",
                json={"code": await code_of(world, buyer), "client_id": client_id_of(new_secret())},
            )
            assert elsewhere.status_code == 404  # a code counts in its own room


async def test_only_hashes_of_codes_are_stored(settings: Settings, pool: Pool) -> None:
    async with line_world(settings, pool) as world:
        await world.put()
        buyer = await world.join()
        code = await code_of(world, buyer)
        row = await pool.fetchrow("SELECT * FROM line.recoveries")
        assert row is not None
        stored = " ".join(str(value) for value in row.values())
        assert code not in stored
        assert code.replace("-", "") not in stored
        assert buyer.ticket not in stored
        assert buyer.secret not in stored


async def test_without_javascript_the_code_is_shown_and_typed(settings: Settings, pool: Pool) -> None:
    async with line_world(settings, pool) as world:
        await world.put()
        buyer = await world.join()
        shown = await world.http.post(MAKE, data={"x": ""}, headers={"Cookie": _cookie(buyer)})
        assert shown.headers["content-type"].startswith("text/html")
        assert "no-store" in shown.headers["cache-control"]
        found = re.search(r'id="code">([0-9A-Z]{4}-[0-9A-Z]{4}-[0-9A-Z]{4})<', shown.text)
        assert found
        typed = found[1].lower().replace("-", " ").replace("0", "o").replace("1", "l")
        wrong = await world.http.post(REDEEM, data={"code": "0000-0000-0000", "return": "/seats"})
        assert (wrong.status_code, wrong.headers["location"]) == (
            303,
            "/.fairgate/rooms/onsale?return=/seats&recovered=refused",
        )
        form = {"code": typed, "return": "/seats", "attempt": "as the page wrote it"}
        done, sent_again = await world.http.post(REDEEM, data=form), await world.http.post(REDEEM, data=form)
        for answer in (done, sent_again):
            assert (answer.status_code, answer.headers["location"]) == (303, "/.fairgate/rooms/onsale?return=/seats")
            ticket, secret = answer.cookies["fairgate-ticket-onsale"], answer.cookies["fairgate-secret-onsale"]
            world.http.cookies.clear()
            phone = Buyer(secret, client_id_of(secret), ticket, buyer.ticket_id, {})
            assert token_subject(await world.admitted(phone))[0] == buyer.ticket_id
        stolen = await world.http.post(REDEEM, data={**form, "attempt": "another page"})
        assert "recovered=refused" in stolen.headers["location"]


def _cookie(buyer: Buyer) -> str:
    return f"fairgate-ticket-onsale={buyer.ticket}; fairgate-secret-onsale={buyer.secret}"


def test_codes_have_sixty_random_bits() -> None:
    assert len(ALPHABET) ** 12 >= 2**60
    codes = {new_code() for _ in range(1_000)}
    assert len(codes) == 1_000
    assert all(read_code(code) == code for code in codes)


@given(st.text(ALPHABET, min_size=12, max_size=12), st.data())
def test_a_code_is_read_however_it_is_typed(characters: str, data: st.DataObject) -> None:
    code = "-".join(characters[start : start + 4] for start in (0, 4, 8))
    typed = ""
    for character in code.replace("-", ""):
        same = {"0": "0Oo", "1": "1IiLl"}.get(character, character + character.lower())
        typed += data.draw(st.sampled_from(same)) + data.draw(st.sampled_from(["", "", " ", "-"]))
    assert read_code(typed) == code


@given(st.text(max_size=100))
def test_whatever_is_typed_is_a_code_or_none(typed: str) -> None:
    read = read_code(typed)
    assert read is None or set(read) <= {*ALPHABET, "-"}


def test_a_place_keeps_its_name_wherever_it_moves() -> None:
    keys = TicketKeys("k", {"k": b"a" * 32})
    first = Ticket("onsale", 1, "entry", 7, 1_790_000_000, client_id_of("a"))
    second, third = first.moved_to(client_id_of("b")), first.moved_to(client_id_of("b")).moved_to(client_id_of("c"))
    for ticket, secret in ((first, "a"), (second, "b"), (third, "c")):
        assert ticket.ticket_id == first.ticket_id
        assert ticket.entrant == first.client_id
        assert proves(secret, ticket)
        assert keys.read(keys.sign(ticket), "onsale", 1) == ticket
        assert read_words(ticket.words()) == ticket
    assert orjson.loads(first.words()) == ["onsale", 1, "entry", 7, 1_790_000_000, first.client_id]
    assert not proves("a", third)


def test_tries_are_bounded_in_each_room_and_given_back_with_time() -> None:
    attempts = Attempts(burst=2, per_second=0.001)
    attempts.take("onsale")
    attempts.take("onsale")
    with pytest.raises(Problem) as refused:
        attempts.take("onsale")
    assert refused.value.status == 429
    assert int(refused.value.headers["Retry-After"]) > 1
    attempts.take("other")
    quick = Attempts(burst=1, per_second=1e9)
    for _ in range(100):
        quick.take("onsale")
