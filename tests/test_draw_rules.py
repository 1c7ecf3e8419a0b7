"""The draw's pure rules: the tree over its entries, its proof, and what a changed proof gives away."""

import hashlib
from datetime import timedelta
from itertools import product

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from admission.draw import commitment, draw_key, drawn_place
from admission.merkle import (
    CHUNK_LEAVES,
    EMPTY_LEAF,
    chunk_length,
    chunks_of,
    includes,
    leaf,
    levels,
    path,
    root,
)
from admission.places import Gap, gaps_length
from admission.proofs import Finding, Proof, place_of, proof_document, verify, verify_ticket, whole_order
from admission.room_settings import Beacon
from admission.stages import Draw
from tests.draw_world import BEACON, BEGAN, JOINED, SECRET, client, drawn_proof


def tree_by_definition(leaves: list[bytes]) -> bytes:
    """RFC 6962, section 2.1, word for word."""
    if not leaves:
        return hashlib.sha256(b"").digest()
    if len(leaves) == 1:
        return leaves[0]
    k = 1
    while k * 2 < len(leaves):
        k *= 2
    return hashlib.sha256(b"\x01" + tree_by_definition(leaves[:k]) + tree_by_definition(leaves[k:])).digest()


def numbered(length: int) -> list[bytes]:
    return [hashlib.sha256(number.to_bytes(8, "big")).digest() for number in range(length)]


@pytest.mark.parametrize("length", [*range(18), 255, 256, 257, 1023, 1024, 1025, 2048, 2049, 3071, 5000])
def test_the_tree_is_that_of_rfc_6962_also_when_it_is_made_of_chunks(length: int) -> None:
    leaves = numbered(length)
    chunks = [leaves[at : at + CHUNK_LEAVES] for at in range(0, length, CHUNK_LEAVES)]
    assert root(leaves) == root([root(chunk) for chunk in chunks]) == tree_by_definition(leaves)
    assert len(chunks) == chunks_of(length)
    assert [len(chunk) for chunk in chunks] == [chunk_length(length, at) for at in range(len(chunks))]


@given(st.integers(1, 3_000), st.data())
@settings(max_examples=40, deadline=None)
def test_a_path_proves_its_own_leaf_and_no_other(length: int, data: st.DataObject) -> None:
    leaves = numbered(length)
    index = data.draw(st.integers(0, length - 1))
    chunk, at = divmod(index, CHUNK_LEAVES)
    chunks = [leaves[first : first + CHUNK_LEAVES] for first in range(0, length, CHUNK_LEAVES)]
    found = [*path(levels(chunks[chunk]), at), *path(levels([root(one) for one in chunks]), chunk)]
    assert found == path(levels(leaves), index)
    assert includes(root(leaves), length, index, leaves[index], found)
    assert not includes(root(leaves), length, index, EMPTY_LEAF, found)
    assert not includes(root(leaves), length, index, leaves[index], [*found, EMPTY_LEAF])
    assert not includes(root(leaves), length, length, leaves[index], found)
    if length > 1:
        other = (index + 1 + data.draw(st.integers(0, length - 2))) % length
        assert not includes(root(leaves), length, other, leaves[index], found)


def test_a_leaf_is_bound_to_room_epoch_entry_and_client() -> None:
    made = {
        leaf(room, epoch, entry, client)
        for room, epoch, entry, client in product(("a", "b"), (1, 2), (1, 2), (b"c" * 32, b"d" * 32))
    }
    assert len(made) == 16


@pytest.mark.parametrize(
    ("entries", "draws"), [(10, 5_000), (999, 2_000), (1_000, 2_000), (1_500, 2_000), (1_000_000, 2_000)]
)
def test_every_part_of_the_line_is_as_likely_for_every_entry(entries: int, draws: int) -> None:
    """Chi squared over ten parts of the line, for three entries; 9 degrees of freedom, p > 1e-6. The keys are fixed."""
    for entry in (1, entries // 2, entries):
        counts = [0] * 10
        for number in range(draws):
            key = draw_key(number.to_bytes(32, "big"), "uniform", 1, entries)
            counts[(drawn_place(key, entries, entry) - 1) * 10 // entries] += 1
        expected = draws / 10
        assert sum((count - expected) ** 2 / expected for count in counts) < 46


def test_neighbours_do_not_stay_neighbours() -> None:
    """Two entries in a row land on any distance: chi squared over ten classes, 9 degrees of freedom, p > 1e-6."""
    entries, counts = 1_000_000, [0] * 10
    key = draw_key(SECRET, "uniform", 1, entries)
    for entry in range(1, 3_001):
        distance = (drawn_place(key, entries, entry + 1) - drawn_place(key, entries, entry)) % entries
        counts[distance * 10 // entries] += 1
    assert sum((count - 300) ** 2 / 300 for count in counts) < 46


@given(st.binary(min_size=32, max_size=32), st.integers(1, 3_000))
@settings(max_examples=25, deadline=None)
def test_every_place_is_given_once_for_any_key(key: bytes, entries: int) -> None:
    assert sorted(drawn_place(key, entries, entry) for entry in range(1, entries + 1)) == list(range(1, entries + 1))


def failed(findings: list[Finding]) -> list[str]:
    return [finding.what for finding in findings if finding.holds is False]


@pytest.mark.parametrize("last_entry", [0, 1, 800, 1_024, 2_500])
@pytest.mark.parametrize(("beacon", "missed"), [(None, False), (BEACON, False), (BEACON, True)])
def test_an_honest_proof_holds(last_entry: int, beacon: Beacon | None, missed: bool) -> None:
    gaps = (Gap(40, 60),) if last_entry > 60 else ()
    proof, leaves = drawn_proof(last_entry, gaps, beacon, missed)
    assert all(finding.holds for finding in verify(proof, leaves))
    order = list(whole_order(proof))
    assert sorted(place for _, place in order) == list(range(1, last_entry - gaps_length(gaps) + 1))
    assert all(place == place_of(proof, entry) for entry, place in order[:50])
    assert all(verify_ticket(proof, leaves, entry, client(entry), JOINED).holds for entry, _ in order[:50])


@pytest.mark.parametrize(
    ("change", "caught"),
    [
        ({"secret": "00" * 32}, "commitment"),
        ({"epoch": 3}, "commitment"),
        ({"room": "other"}, "commitment"),
        ({"beacon": msgspec.structs.replace(BEACON, round=1)}, "commitment"),
        ({"beacon": None}, "commitment"),
        ({"beacon_value": None}, "beacon"),
        ({"beacon_missed": True}, "beacon"),
        ({"beacon_at": None}, "stages"),
        ({"beacon_value": None, "beacon_at": None}, "stages"),
        ({"beacon": None, "beacon_missed": True}, "commitment"),
        ({"root": "00" * 32}, "root"),
        ({"entries": 2_469}, "entries"),
        ({"gaps": ((40, 59), (2_000, 2_010)), "entries": 2_469}, None),  # a leaf without an owner is only noted
        ({"gaps": ((40, 61), (2_000, 2_010)), "entries": 2_467}, "root"),
        ({"gaps": ((2_000, 2_010), (40, 60))}, "entries"),
        ({"last_entry": 2_501, "entries": 2_469}, "root"),
        ({"root_at": BEGAN - timedelta(hours=1)}, "stages"),
        ({"committed_at": BEGAN + timedelta(days=1)}, "stages"),
        ({"drawn_at": BEGAN}, "stages"),
        ({"drawn_at": None}, "stages"),
        ({"root_at": None}, "stages"),
        ({"entries_closed_at": None}, "stages"),
        ({"entries_closed_at": None, "last_entry": None}, "stages"),
        ({"root": None}, "stages"),
        ({"entries": None}, "stages"),
        ({"secret": None}, "stages"),
        ({"stage": "committed"}, "stages"),
        ({"stage": "root"}, "stages"),
        ({"prequeue_at": BEGAN - timedelta(seconds=1)}, "stages"),
        ({"prequeue_at": BEGAN + timedelta(hours=2)}, None),  # opened by hand before its time
        ({"restored": (4,)}, "restored"),
        ({"restored": (41, 41)}, "restored"),
        ({"restored": (41, 2_501)}, "restored"),
        ({"restored": (42, 41)}, None),
    ],
)
def test_a_changed_proof_is_caught(change: dict[str, object], caught: str | None) -> None:
    proof, leaves = drawn_proof()
    changed = msgspec.structs.replace(proof, **change)
    assert failed(verify(changed, leaves))[:1] == ([] if caught is None else [caught])


@pytest.mark.parametrize(
    ("beacon", "missed", "change"),
    [
        (None, False, {"beacon_missed": True}),
        (None, False, {"beacon_value": "00" * 32}),
        (None, False, {"beacon_at": BEGAN + timedelta(hours=1, seconds=61)}),
        (BEACON, True, {"beacon_missed": False}),
        (BEACON, True, {"beacon_at": BEGAN + timedelta(hours=1, seconds=59)}),
    ],
)
def test_a_beacon_that_was_not_committed_to_or_missed_too_early_is_caught(
    beacon: Beacon | None, missed: bool, change: dict[str, object]
) -> None:
    proof, leaves = drawn_proof(beacon=beacon, missed=missed)
    assert failed(verify(msgspec.structs.replace(proof, **change), leaves)) == ["beacon"]


def test_a_beacon_that_the_commitment_waits_for_is_never_missed() -> None:
    proof, leaves = drawn_proof(beacon=msgspec.structs.replace(BEACON, fallback="wait"), missed=True)
    assert failed(verify(proof, leaves)) == ["beacon"]


def test_a_commitment_before_the_pre_queue_is_checked_where_the_proof_says_when_that_began() -> None:
    proof, leaves = drawn_proof()
    words = {finding.what: finding.words for finding in verify(proof, leaves)}
    assert "cannot be checked from the proof" in words["stages"]
    given = msgspec.structs.replace(proof, prequeue_at=BEGAN + timedelta(minutes=5))
    findings = {finding.what: finding for finding in verify(given, leaves)}
    assert findings["stages"].holds
    assert "committed before the pre-queue" in findings["stages"].words


def test_a_changed_leaf_is_caught() -> None:
    proof, leaves = drawn_proof()
    for at in (0, 31, len(leaves) - 1):
        changed = leaves[:at] + bytes((leaves[at] ^ 1,)) + leaves[at + 1 :]
        assert failed(verify(proof, changed)) == ["root"]
    assert failed(verify(proof, leaves[:-32])) == ["root"]
    assert failed(verify(proof, leaves + EMPTY_LEAF)) == ["root"]


def test_the_key_depends_on_secret_root_and_beacon() -> None:
    proof, _ = drawn_proof()
    orders = {
        tuple(place_of(one, entry) for entry in range(1, 12))
        for one in (
            proof,
            msgspec.structs.replace(proof, secret="00" * 32),
            msgspec.structs.replace(proof, root="00" * 32),
            msgspec.structs.replace(proof, beacon_value="00" * 32),
            msgspec.structs.replace(proof, entries=2_400),
        )
    }
    assert len(orders) == 5


def test_a_ticket_is_found_only_where_it_is() -> None:
    proof, leaves = drawn_proof()
    assert verify_ticket(proof, leaves, 7, client(7), JOINED).holds is True
    assert verify_ticket(proof, leaves, 7, client(8), JOINED).holds is False
    assert verify_ticket(proof, leaves, 2_501, client(2_501), JOINED).holds is False
    assert verify_ticket(proof, leaves, 41, client(41), JOINED).holds is True  # restored, and listed as such
    assert verify_ticket(proof, leaves, 42, client(42), JOINED).holds is False
    assert verify_ticket(proof, None, 7, client(7), JOINED).holds is None
    assert verify_ticket(proof, leaves, 0, client(7), JOINED).holds is False
    assert verify_ticket(proof, leaves, -1, client(7), JOINED).holds is False


def test_a_ticket_from_before_the_commitment_is_not_confirmed() -> None:
    proof, leaves = drawn_proof()
    committed = int(BEGAN.timestamp())
    assert verify_ticket(proof, leaves, 7, client(7), committed - 60).holds is True  # two clocks differ a little
    for entry in (7, 41):
        older = verify_ticket(proof, leaves, entry, client(entry), committed - 61)
        assert (older.holds, older.words) == (False, "this ticket is older than the commitment")


@pytest.mark.parametrize(
    ("beacon", "missed", "says", "never_says"),
    [
        (None, False, "Not the operator", "The operator too"),
        (BEACON, False, "The operator too", "Not the operator"),
        (BEACON, True, "did not come in time", "The operator too"),
    ],
)
def test_a_proof_says_what_it_binds_and_what_not(
    beacon: Beacon | None, missed: bool, says: str, never_says: str
) -> None:
    draw = Draw(b"c" * 32, BEGAN, beacon, beacon_missed=missed)
    document = proof_document("onsale", 1, draw, (), [3])
    words = " ".join(str(word) for word in document["binds"])  # type: ignore[attr-defined]
    assert says in words
    assert never_says not in words
    assert "1 tickets whose entries were lost" in words


def test_an_early_proof_is_judged_as_far_as_it_goes() -> None:
    draw = Draw(commitment(SECRET, "onsale", 1, ""), BEGAN, None)
    document = proof_document("onsale", 1, draw, (), ())
    proof = msgspec.json.decode(msgspec.json.encode(document), type=Proof)
    assert failed(verify(proof, None)) == []
    assert verify_ticket(proof, None, 1, client(1), JOINED).holds is None
    assert failed(verify(msgspec.structs.replace(proof, restored=(1,)), None)) == ["restored"]
    assert proof.stage == "committed"
    assert place_of(proof, 1) is None
    assert list(whole_order(proof)) == []
