"""Tokens cut, swapped, forged, of the other kind or absurdly long, and odd headers and queries: refused in words, never a 5xx."""

import asyncio
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

import httpx
import jwt
import orjson
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from admission.passes import CLOCK_SKEW_SECONDS, Pass, PassRefused, PassSigner, PassVerifier, pass_id
from admission.signing_keys import SigningKeys
from admission.tickets import Ticket, TicketKeys, client_id_of
from chassis.database import Pool
from chassis.settings import Settings
from tests.line_world import Buyer, LineWorld, line_world, until

PLACE, PASSES, TICKETS = "/rooms/onsale/place", "/rooms/onsale/passes", "/rooms/onsale/tickets"
GATES = ("/gate/onsale?dialect=nginx", "/gate/onsale?dialect=caddy")


@dataclass(frozen=True, slots=True)
class Shown:
    """One buyer's good tokens, to spoil."""

    buyer: Buyer
    token: str
    foreign: Buyer
    revoked: str


async def with_good_tokens(world: LineWorld, settings: Settings, pool: Pool) -> Shown:
    """A buyer who was let in, one of another room, and a pass by a key that was revoked since."""
    await world.put(rate_per_minute=60_000)
    buyer = await world.join()
    revoked = await world.admitted(buyer)
    other = LineWorld(world.url, pool, "other")
    async with other.http:
        await other.put()
        foreign = await other.join()
    kid = jwt.get_unverified_header(revoked)["kid"]
    await SigningKeys(pool, settings.master_key_bytes).revoke(kid, actor="test")

    async def signed_anew() -> bool:
        return bool(jwt.get_unverified_header(await world.admitted(buyer))["kid"] != kid)

    await until(signed_anew, "another key signs")

    async def refused() -> bool:
        return (await world.http.get(GATES[0], headers={"Fairgate-Pass": revoked})).status_code == 401

    await until(refused, "the revoked key is known")
    return Shown(buyer, await world.admitted(buyer), foreign, revoked)


def spoilt_passes(shown: Shown) -> Mapping[str, str]:
    header, payload, signature = shown.token.split(".")
    claims = orjson.loads(urlsafe_b64decode(payload + "=="))
    kid = jwt.get_unverified_header(shown.token)["kid"]
    stranger = Ed25519PrivateKey.generate()
    return {
        "cut": shown.token[:-1],
        "cut in the middle": f"{header}.{payload[:-4]}.{signature}",
        "no signature": f"{header}.{payload}.",
        "of the other kind": shown.buyer.ticket,
        "by a revoked key": shown.revoked,
        "alg none": jwt.encode(claims, "", algorithm="none", headers={"kid": kid}),
        "by a stranger who names our key": PassSigner(kid, stranger, "us").sign(_pass_of(claims)),
        "by a stranger": PassSigner("stranger", stranger, "us").sign(_pass_of(claims)),
        "typed as another thing": ".".join([_part({"alg": "EdDSA", "kid": kid, "typ": "at+jwt"}), payload, signature]),
        "100 kB long": shown.token + "A" * 100_000,
        "100 kB of nothing": "A" * 100_000,
        "not ASCII": "größe." * 3,
        "a JWT of lists": ".".join([_part(["x"]), _part(["x"]), signature]),
        "deeply nested": f"{_b64(b'[' * 5_000)}.{payload}.{signature}",
    }


def spoilt_tickets(shown: Shown) -> Mapping[str, str]:
    ticket = shown.buyer.ticket
    mark, kid, body, mac = ticket.split(".")
    moved = Ticket("onsale", 1, "number", 1, 0, client_id_of("a")).moved_to(client_id_of("b"))
    return {
        "cut": ticket[:-1],
        "cut in the middle": f"{mark}.{kid}.{body[:-4]}.{mac}",
        "of another room": shown.foreign.ticket,
        "of the other kind": shown.token,
        "by a stranger who names our key": TicketKeys(kid, {kid: b"x" * 32}).sign(moved),
        "by a stranger": TicketKeys("stranger", {"stranger": b"x" * 32}).sign(moved),
        "100 kB long": ticket + "A" * 100_000,
        "not ASCII": "fgt1.größe.a.b",
        "empty parts": "fgt1...",
    }


@pytest.mark.timeout(180)
async def test_every_spoilt_token_is_refused_in_words_wherever_it_is_shown(settings: Settings, pool: Pool) -> None:
    async with line_world(settings, pool) as world:
        shown = await with_good_tokens(world, settings, pool)
        for what, token in spoilt_passes(shown).items():
            for gate in GATES:
                for headers in _ways("Fairgate-Pass", "fairgate-pass-onsale", token):
                    answer = await world.http.get(gate, headers=headers)
                    assert answer.status_code in (400, 401, 429, 431), (what, answer.status_code)
        for what, token in spoilt_tickets(shown).items():
            for headers in _ways("Fairgate-Ticket", "fairgate-ticket-onsale", token):
                proven = [*headers, (b"fairgate-secret", shown.buyer.secret.encode())]
                for method, address in (("GET", PLACE), ("POST", PASSES)):
                    answer = await world.http.request(method, address, headers=proven)
                    assert answer.status_code in (400, 401, 403, 431), (what, answer.status_code)
                    if answer.status_code == 403:
                        assert answer.json()["code"] == "ticket-refused"
        assert (await world.http.get(GATES[0], headers={"Fairgate-Pass": shown.token})).status_code == 204


async def test_doubled_headers_and_cookies_take_the_first_good_one_or_are_refused(
    settings: Settings, pool: Pool
) -> None:
    async with line_world(settings, pool) as world:
        shown = await with_good_tokens(world, settings, pool)
        good, bad = shown.buyer.ticket.encode(), shown.foreign.ticket.encode()
        for pair in ((good, bad), (bad, good), (good, good), (b"", good)):
            doubled = [(b"fairgate-ticket", value) for value in pair]
            assert (await world.http.get(PLACE, headers=doubled)).status_code in (200, 400, 401, 403)
            name = b"fairgate-ticket-onsale="
            cookies = [(b"cookie", b"; ".join(name + value for value in pair))]
            assert (await world.http.get(PLACE, headers=cookies)).status_code == 200
        many = [(b"cookie", b"; ".join(b"fairgate-ticket-onsale=x%d" % number for number in range(1_000)))]
        assert (await world.http.get(PLACE, headers=many)).status_code == 403


@pytest.mark.timeout(180)
async def test_whatever_headers_and_queries_say_there_is_no_5xx(settings: Settings, pool: Pool) -> None:
    async with line_world(settings, pool) as world:
        shown = await with_good_tokens(world, settings, pool)
        loop = asyncio.get_running_loop()
        tokens = [*spoilt_passes(shown).values(), *spoilt_tickets(shown).values(), shown.token, shown.buyer.ticket]
        value = st.one_of(
            st.sampled_from([token.encode("latin-1") for token in tokens if len(token) < 10_000]),
            st.binary(max_size=80).map(lambda raw: bytes(one for one in raw if one not in b"\r\n\0").strip()),
            st.tuples(st.sampled_from(tokens[:3]), st.integers(0, 400), st.characters(codec="latin-1")).map(
                lambda cut: _clean(cut[0][: cut[1]] + cut[2] + cut[0][cut[1] + 1 :])
            ),
        )
        names = st.sampled_from(
            [b"fairgate-ticket", b"fairgate-secret", b"fairgate-pass", b"cookie", b"authorization", b"if-none-match",
             b"content-type", b"origin", b"accept", b"accept-language", b"x-original-uri", b"x-original-method"]
        )  # fmt: skip
        headers = st.lists(st.tuples(names, value), max_size=6)
        queries = st.dictionaries(
            st.sampled_from(["return", "dialect", "since", "before", "lang", "recovered", "epoch", "%", "a[]"]),
            st.text(max_size=30),
            max_size=3,
        )

        @examples(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
        @given(st.sampled_from(_ADDRESSES), headers, queries, st.binary(max_size=60))
        def try_it(
            address: tuple[str, str], sent: list[tuple[bytes, bytes]], query: dict[str, str], body: bytes
        ) -> None:
            future = asyncio.run_coroutine_threadsafe(_send(world, address, sent, query, body), loop)
            assert future.result(20) < 500

        await asyncio.to_thread(try_it)


@pytest.mark.parametrize("line", [b"GET /rooms/onsale/place?%zz=%00 HTTP/1.1", b"GET /rooms/onsale/place?a=b&&=&#x HTTP/1.1", b"GET /rooms/%ff%fe/place HTTP/1.1", b"POST //rooms/onsale/recovered HTTP/1.1"])  # fmt: skip
async def test_odd_request_lines_are_refused(settings: Settings, pool: Pool, line: bytes) -> None:
    async with line_world(settings, pool) as world:
        await world.put()
        address = urlsplit(world.url)
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        writer.write(line + b"\r\nHost: x\r\nFairgate-Ticket: a\r\nFairgate-Ticket: b\r\nConnection: close\r\n\r\n")
        status = int((await reader.readline()).split()[1])
        writer.close()
        assert 400 <= status < 500


@pytest.mark.parametrize("room", ["onsale", None])
def test_a_clock_that_is_five_minutes_off_lets_nobody_in_early_or_late(room: str | None) -> None:
    now = 1_790_000_000
    private = Ed25519PrivateKey.generate()
    token = PassSigner("k", private, "us").sign(Pass("onsale", "s", pass_id("s", 1), now, now + 600))

    def judged(at: float) -> Callable[[], Pass]:
        verifier = PassVerifier()
        verifier.trust_keys({"k": private.public_key().public_bytes_raw()})
        return lambda: verifier.verify(token, room, at)

    assert judged(now - CLOCK_SKEW_SECONDS)().issued_at == now
    assert judged(now + 599)().expires_at == now + 600
    for at, reason in ((now - 300, "not-yet"), (now - 31, "not-yet"), (now + 600, "expired"), (now + 900, "expired")):
        with pytest.raises(PassRefused, match=reason):
            judged(at)()


def test_a_pass_of_the_version_before_counts_in_the_first_epoch_and_no_other_kind_of_token_does() -> None:
    now = 1_790_000_000
    private = Ed25519PrivateKey.generate()
    verifier = PassVerifier()
    verifier.trust_keys({"k": private.public_key().public_bytes_raw()})
    claims = {"aud": "onsale", "sub": "s", "jti": "j", "iat": now, "nbf": now, "exp": now + 60}

    def typed(typ: str | None) -> str:
        return jwt.encode(claims, private, algorithm="EdDSA", headers={"kid": "k", "typ": typ})

    for old in ("JWT", None):
        assert verifier.verify(typed(old), "onsale", now).epoch == 1
    for other in ("at+jwt", "fairgate-revocations+jws"):
        with pytest.raises(PassRefused, match="malformed"):
            verifier.verify(typed(other), "onsale", now)
    verifier.trust_epochs({"other": 7})
    assert verifier.verify(typed("JWT"), "onsale", now).epoch == 1
    verifier.trust_epochs({"onsale": 2})
    with pytest.raises(PassRefused, match="old-epoch"):
        verifier.verify(typed("JWT"), "onsale", now)


_ADDRESSES = [
    ("GET", "/rooms/onsale"),
    ("GET", "/rooms/onsale/status"),
    ("GET", PLACE),
    ("POST", TICKETS),
    ("POST", PASSES),
    ("DELETE", PASSES),
    ("POST", "/rooms/onsale/recovery"),
    ("POST", "/rooms/onsale/recovered"),
    ("POST", "/rooms/onsale/leave"),
    ("GET", "/gate/onsale"),
    ("GET", "/.well-known/jwks.json"),
    ("GET", "/admin/signing-keys"),
    ("POST", "/admin/signing-keys/pass/rotate"),
    ("POST", "/admin/signing-keys/%ff/revoke"),
]


async def _send(
    world: LineWorld, address: tuple[str, str], headers: list[tuple[bytes, bytes]], query: dict[str, str], body: bytes
) -> int:
    method, path = address
    try:
        answer = await world.http.request(method, path, params=query, headers=headers, content=body)
    except httpx.LocalProtocolError:
        return 400  # what cannot be sent cannot hurt
    return answer.status_code


def _ways(header: str, cookie: str, token: str) -> list[list[tuple[bytes, bytes]]]:
    """The token as header and as cookie."""
    raw = token.encode("utf-8")
    return [[(header.encode(), raw)], [(b"Cookie", cookie.encode() + b"=" + raw)]]


def _pass_of(claims: Mapping[str, object]) -> Pass:
    return Pass(
        str(claims["aud"]), str(claims["sub"]), str(claims["jti"]), int(str(claims["iat"])), int(str(claims["exp"]))
    )


def _clean(text: str) -> bytes:
    return bytes(one for one in text.encode("latin-1", "replace") if one not in b"\r\n\0").strip()


def _part(value: object) -> str:
    return _b64(orjson.dumps(value))


def _b64(raw: bytes) -> str:
    return urlsafe_b64encode(raw).rstrip(b"=").decode()
