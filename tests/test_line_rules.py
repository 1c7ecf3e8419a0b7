"""The line's pure rules: the draw, dense places, tickets, passes, segments, return targets, settings."""

import json
import subprocess
import sys
from datetime import UTC, datetime

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from admission.arrivals import SHARE_MIN
from admission.calling import Call, Observed, Segment, doubtful_places
from admission.calling import plan_segment as plan
from admission.draw import draw_key, drawn_place
from admission.pacing import SURGE_MAX, Pacing
from admission.passes import Pass, PassRefused, PassSigner, PassVerifier, pass_id
from admission.places import Drawn, Gap, Layout, dense
from admission.returns import safe_return
from admission.room_settings import RoomSettings, read_settings
from admission.tickets import Ticket, TicketKeys, TicketRefused, client_id_of, new_secret, proves
from chassis.problems import Problem

KEY = draw_key(b"s" * 32, "onsale", 1, 5)


@pytest.mark.parametrize("entries", [1, 2, 3, 17, 999, 1000, 1001, 1025, 4097])
def test_the_draw_is_a_bijection(entries: int) -> None:
    places = {drawn_place(KEY, entries, entry) for entry in range(1, entries + 1)}
    assert places == set(range(1, entries + 1))


@pytest.mark.parametrize("entries", [8, 1_024])
def test_the_draw_favours_no_entry(entries: int) -> None:
    """Over many secrets each eighth of the line holds the first entry equally often (chi squared, 7 degrees, p > 1e-6)."""
    draws = 4_000
    counts = [0] * 8
    for number in range(draws):
        key = draw_key(number.to_bytes(32, "big"), "onsale", 1, entries)
        counts[(drawn_place(key, entries, 1) - 1) * 8 // entries] += 1
    expected = draws / 8
    assert sum((count - expected) ** 2 / expected for count in counts) < 40.5


def test_two_processes_draw_the_same_places() -> None:
    program = (
        "import json; from admission.draw import draw_key, drawn_place\n"
        "keys = [(n, draw_key(b's' * 32, 'onsale', 1, n)) for n in (7, 5000)]\n"
        "print(json.dumps([[drawn_place(k, n, e) for e in range(1, 8)] for n, k in keys]))"
    )
    other = json.loads(subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout)
    keys = [(entries, draw_key(b"s" * 32, "onsale", 1, entries)) for entries in (7, 5000)]
    assert other == [[drawn_place(key, entries, entry) for entry in range(1, 8)] for entries, key in keys]


@given(st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), max_size=5), st.integers(1, 400))
def test_recording_a_gap_only_improves_places(steps: list[tuple[int, int]], index: int) -> None:
    gaps: list[Gap] = []
    before, last = index, 0
    for issued, lost in steps:
        gaps.append(Gap(last + issued + 1, last + issued + lost))
        last = gaps[-1].last
        after = dense(index, gaps)
        assert 1 <= after <= before
        before = after


@given(st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), max_size=5))
def test_tickets_outside_gaps_have_places_of_their_own_without_holes(steps: list[tuple[int, int]]) -> None:
    gaps: list[Gap] = []
    issued_numbers: list[int] = []
    last = 0
    for issued, lost in steps:
        issued_numbers += range(last + 1, last + issued + 1)
        gaps.append(Gap(last + issued + 1, last + issued + lost))
        last = gaps[-1].last
    assert [dense(number, gaps) for number in issued_numbers] == list(range(1, len(issued_numbers) + 1))


def test_an_entry_lost_in_a_gap_still_has_a_place() -> None:
    layout = Layout("onsale", 1, Drawn(3, KEY), entry_gaps=(Gap(4, 1000),))
    ticket = Ticket("onsale", 1, "entry", 17, 0, client_id_of(new_secret()))
    place = layout.place_of(ticket)
    assert place is not None
    assert 1 <= place <= 3


def ticket_keys() -> TicketKeys:
    return TicketKeys("k1", {"k1": b"a" * 32, "k0": b"b" * 32})


def test_a_ticket_says_everything_and_a_secret_proves_it() -> None:
    secret = new_secret()
    ticket = Ticket("onsale", 1, "number", 7, 1_790_000_000, client_id_of(secret))
    keys = ticket_keys()
    assert keys.read(keys.sign(ticket), "onsale", 1) == ticket
    assert proves(secret, ticket)
    assert not proves(new_secret(), ticket)


def test_a_rotated_ticket_key_still_reads() -> None:
    ticket = Ticket("onsale", 1, "number", 7, 0, client_id_of(new_secret()))
    old = TicketKeys("k0", {"k0": b"b" * 32})
    assert ticket_keys().read(old.sign(ticket), "onsale", 1) == ticket


@given(st.data())
def test_a_changed_ticket_is_refused(data: st.DataObject) -> None:
    keys = ticket_keys()
    token = keys.sign(Ticket("onsale", 1, "entry", 12, 0, client_id_of("x")))
    at = data.draw(st.integers(0, len(token) - 1))
    other = data.draw(st.characters(codec="ascii").filter(lambda character: character != token[at]))
    with pytest.raises(TicketRefused):
        keys.read(token[:at] + other + token[at + 1 :], "onsale", 1)


@given(st.text(max_size=600))
def test_any_text_is_refused_as_a_ticket_and_as_a_pass(token: str) -> None:
    with pytest.raises(TicketRefused):
        ticket_keys().read(token, "onsale", 1)
    with pytest.raises(PassRefused):
        PassVerifier().verify(token, None, 0)


def test_a_ticket_counts_in_its_own_room_and_epoch_only() -> None:
    keys = ticket_keys()
    token = keys.sign(Ticket("onsale", 1, "entry", 12, 0, client_id_of("x")))
    for room, epoch, reason in (("other", 1, "wrong-room"), ("onsale", 2, "old-epoch")):
        with pytest.raises(TicketRefused) as refused:
            keys.read(token, room, epoch)
        assert refused.value.reason == reason


NOW = 1_790_000_000
PRIVATE = Ed25519PrivateKey.from_private_bytes(b"p" * 32)
PASS = Pass("onsale", "ticket", pass_id("ticket", 1), NOW, NOW + 60, None)


def verifier() -> PassVerifier:
    made = PassVerifier()
    made.trust_keys({"k": PRIVATE.public_key().public_bytes_raw()})
    return made


def test_a_pass_verifies_with_the_public_key_alone() -> None:
    token = PassSigner("k", PRIVATE, "http://127.0.0.1:8000/.fairgate").sign(PASS)
    assert verifier().verify(token, "onsale", NOW) == PASS
    claims = jwt.decode(
        token,
        PRIVATE.public_key(),
        ["EdDSA"],
        audience="onsale",
        options={"verify_exp": False, "verify_iat": False, "verify_nbf": False},
    )
    assert claims["iss"] == "http://127.0.0.1:8000/.fairgate"


def test_a_pass_is_refused_for_each_reason_also_when_it_was_seen_before() -> None:
    token = PassSigner("k", PRIVATE, "us").sign(PASS)
    judge = verifier()
    judge.verify(token, "onsale", NOW)
    refusals = {"wrong-room": ("other", NOW), "expired": ("onsale", NOW + 60)}
    for reason, (room, now) in refusals.items():
        with pytest.raises(PassRefused, match=reason):
            judge.verify(token, room, now)
    with pytest.raises(PassRefused, match="not-yet"):
        verifier().verify(token, "onsale", NOW - 300)
    judge.revoke([(PASS.jti, PASS.expires_at)], NOW)
    with pytest.raises(PassRefused, match="revoked"):
        judge.verify(token, "onsale", NOW)
    fresh = verifier()
    fresh.verify(token, "onsale", NOW)
    fresh.trust_keys({})
    with pytest.raises(PassRefused, match="unknown-key"):
        fresh.verify(token, "onsale", NOW)


@pytest.mark.parametrize("algorithm", ["none", "HS256"])
def test_a_pass_of_another_algorithm_is_refused(algorithm: str) -> None:
    claims = {"aud": "onsale", "sub": "s", "jti": "j", "iat": NOW, "nbf": NOW, "exp": NOW + 60}
    key = "" if algorithm == "none" else "k" * 32
    token = jwt.encode(claims, key, algorithm=algorithm, headers={"kid": "k"})
    with pytest.raises(PassRefused, match="malformed"):
        verifier().verify(token, "onsale", NOW)


def test_the_table_of_verified_passes_is_bounded() -> None:
    signer = PassSigner("k", PRIVATE, "us")
    judge = PassVerifier(verified_max=10)
    judge.trust_keys({"k": PRIVATE.public_key().public_bytes_raw()})
    for number in range(50):
        judge.verify(signer.sign(Pass("onsale", str(number), str(number), NOW, NOW + 60)), "onsale", NOW)
    assert len(judge._verified) == 10


def observed(**changes: object) -> Observed:
    facts: dict[str, object] = {
        "now_ms": 10_000, "reached": 5.5, "called": 5, "active": 0, "entries": 0, "numbers": 100,
        "over": 5, "clock_ms": 4_000, "stepped_ms": 9_500, "entries_closed": True,
    }  # fmt: skip
    return Observed(**{**facts, **changes})  # type: ignore[arg-type]


def plan_segment(observed: Observed, settings: RoomSettings, places: int | None) -> Segment:
    return plan(observed, settings, places, Pacing())[0]


def test_the_line_is_never_called_more_than_three_seconds_ahead() -> None:
    segment = plan_segment(observed(), RoomSettings(rate_per_minute=60), 100)
    assert segment.base == 5.5
    assert segment.called_max <= 5.5 + segment.call_rate * 3 / 60
    assert segment.call_rate <= 60 * SURGE_MAX / SHARE_MIN
    assert segment.valid_until_ms == 13_000
    assert segment.clock_ms == 4_500


def test_those_expected_and_those_inside_stay_below_the_cap() -> None:
    settings = RoomSettings(rate_per_minute=60_000, active_max=10)
    segment = plan_segment(observed(active=4, doubtful=2, door=3), settings, 100)
    assert (segment.called_max, segment.calling) == (6, "running")
    segment = plan_segment(observed(active=4, doubtful=2, door=4), settings, 100)
    assert (segment.called_max, segment.calling) == (5, "full")


def test_a_full_or_paused_room_stops_the_turn_clock_and_uncalls_nobody() -> None:
    full = plan_segment(observed(active=4, door=3), RoomSettings(active_max=4), 100)
    paused = plan_segment(observed(), RoomSettings(paused=True), 100)
    assert (full.called_max, full.clock_ms) == (5, 4_000)
    assert (paused.called_max, paused.call_rate, paused.clock_ms) == (5, 0, 4_000)


def test_an_idle_line_saves_less_than_one_place() -> None:
    segment = plan_segment(observed(reached=900.0, called=5), RoomSettings(rate_per_minute=60), 5)
    assert segment.base < 6
    assert segment.called_max == 5


def test_a_stalled_controller_stops_the_turn_clock() -> None:
    segment = plan_segment(observed(stepped_ms=-600_000), RoomSettings(), 100)
    assert segment.clock_ms == 7_000


def test_places_whose_claim_may_be_lost_are_dated_by_their_call() -> None:
    calls = (Call(3, 1_000), Call(6, 2_000))
    assert doubtful_places(calls, {5}, over=1, called=6) == {2: 1_000, 3: 1_000, 4: 2_000, 6: 2_000}


@pytest.mark.parametrize(
    "target",
    ["//evil.example", "/\\evil.example", "https://evil.example", "javascript:alert(1)", "/\t/evil.example", "\\\\evil", "", "evil", "/a\r\nSet-Cookie: x=1", "/" + "a" * 3000],
)  # fmt: skip
def test_a_return_target_on_another_origin_is_not_followed(target: str) -> None:
    assert safe_return(target) == "/"


def test_a_return_path_is_kept_with_its_query() -> None:
    assert safe_return("/seats?row=A&x=%2F#b") == "/seats?row=A&x=%2F#b"
    assert safe_return("/größe") == "/gr%C3%B6%C3%9Fe"


def test_cloudflares_names_work_and_never_twice() -> None:
    settings = read_settings(
        {"new_users_per_minute": 300, "total_active_users": 50, "session_duration": 5, "queueing_method": "random", "queue_all": True}
    )  # fmt: skip
    assert settings == RoomSettings(rate_per_minute=300, active_max=50, pass_seconds=300, method="draw", paused=True)
    with pytest.raises(Problem, match="says the same"):
        read_settings({"new_users_per_minute": 300, "rate_per_minute": 300})


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"rate_per_minute": 0}, "/rate_per_minute"),
        ({"rate_per_minute": 1.5}, "/rate_per_minute"),
        ({"opens_at": "2026-01-01T00:00:00"}, "/opens_at"),
        ({"prequeue_at": "2026-01-01T00:00:00Z"}, "/prequeue_at"),
        ({"opens_at": "2026-01-01T00:00:00Z", "closes_at": "2026-01-01T00:00:00Z"}, "/closes_at"),
        (
            {"opens_at": "2026-01-01T00:00:00Z", "closes_at": "2026-01-01T00:01:00Z", "turn_seconds": 90},
            "/turn_seconds",
        ),
        ({"method": "lottery"}, "/method"),
        ({"rate_min_per_minute": 90}, "/rate_min_per_minute"),
        ({"skus": ["a", "b", "a"]}, "/skus"),
        ({"title": "A line\n"}, "/title"),
        ({"beacon": {"source": "https://beacon.example\n", "round": 1}}, "/beacon/source"),
        ({"method": "draw", "standby_above_per_minute": 9}, "/standby_above_per_minute"),
        ({"method": "fifo", "beacon": {"source": "https://beacon.example", "round": 1}}, "/beacon"),
        ({"beacon": {"source": "http://beacon.example", "round": 1}}, "/beacon/source"),
        ({"beacon": {"source": "http://localhost.evil.example", "round": 1}}, "/beacon/source"),
        ({"beacon": {"source": "https://[", "round": 1}}, "/beacon/source"),
        ({"beacon": {"source": "https://beacon.example", "round": 0}}, "/beacon/round"),
    ],
)
def test_settings_that_cannot_hold_are_refused_by_field(fields: dict[str, object], pointer: str) -> None:
    with pytest.raises(Problem) as refused:
        read_settings(fields)
    errors = refused.value.extensions["errors"]
    assert isinstance(errors, list)
    assert errors[0]["pointer"] == pointer


@pytest.mark.parametrize("name", ["bypass", "bots", "origins", "template"])
def test_what_is_not_built_is_refused(name: str) -> None:
    with pytest.raises(Problem, match="unknown field"):
        read_settings({name: 1})


def test_moments_are_read_with_their_zone() -> None:
    settings = read_settings({"opens_at": "2026-01-01T01:00:00+01:00"})
    assert settings.opens_at == datetime(2026, 1, 1, tzinfo=UTC)
