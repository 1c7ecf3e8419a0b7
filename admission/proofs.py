"""A draw's proof: the public document, and its verification without the server that made it (pure).

What a proof binds depends on its beacon; the words for that stand here once, for the document and for the verifier.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import msgspec

from admission.draw import commitment, draw_key, drawn_place
from admission.merkle import CHUNK_LEAVES, EMPTY_LEAF, LEAF_BYTES, chunks_of, leaf, root, split
from admission.places import Gap, dense, gaps_length, in_gap
from admission.room_settings import Beacon
from admission.stages import Draw, Stage, beacon_words

FORMAT = "fairgate draw 1"
HASH_BYTES = 32


class Proof(msgspec.Struct, frozen=True):
    """A proof document as anybody reads it; bytes are in hex, moments in RFC 3339."""

    format: Literal["fairgate draw 1"]
    room: str
    epoch: int
    stage: Stage
    commitment: str
    committed_at: str
    beacon: Beacon | None
    last_entry: int | None
    entries_closed_at: str | None
    root: str | None
    root_at: str | None
    beacon_value: str | None
    beacon_at: str | None
    beacon_missed: bool
    entries: int | None
    secret: str | None
    drawn_at: str | None
    gaps: tuple[tuple[int, int], ...]
    restored: tuple[int, ...]

    @property
    def entry_gaps(self) -> tuple[Gap, ...]:
        """The indices that were passed over."""
        return tuple(Gap(first, last) for first, last in self.gaps)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was checked: `holds` is None where it cannot be judged yet or from what was given."""

    what: str
    holds: bool | None
    words: str


def proof_document(
    room: str, epoch: int, draw: Draw, gaps: Sequence[Gap], restored: Sequence[int]
) -> dict[str, object]:
    """What GET …/draw answers."""
    return {
        "format": FORMAT,
        "room": room,
        "epoch": epoch,
        **draw.document(),
        "gaps": [(gap.first, gap.last) for gap in gaps],
        "restored": list(restored),
        "binds": what_binds(draw.beacon, draw.beacon_missed, len(restored)),
    }


def what_binds(beacon: Beacon | None, missed: bool, restored: int) -> list[str]:
    """Exactly what a drawn proof shows, and what it does not."""
    words = [
        "Everybody: the secret was committed to before the pre-queue began and the entries were fixed before it was revealed, "
        "so no buyer and no outsider could know or choose a place.",
    ]
    if beacon is not None and not missed:
        words.append(
            f"The operator too: the order also depends on round {beacon.round} of {beacon.source}, which the commitment named. "
            "Check that the round came after root_at: then nobody could choose the entries, the secret or the order to suit it."
        )
    else:
        if beacon is not None:
            words.append(
                f"The beacon's round {beacon.round} did not come in time, and the order was drawn without it, as the commitment "
                "said beforehand."
            )
        words.append(
            "Not the operator: whoever knew the secret beforehand could work out the order as entries came, and enter more of "
            "their own to suit it. A draw with a public beacon leaves no such room."
        )
    if restored:
        words.append(
            f"{restored} tickets whose entries were lost turned up after the close: they have no leaf, and share the place of the "
            "entry behind them."
        )
    return words


def verify(proof: Proof, leaves: bytes | None) -> list[Finding]:
    """Check everything that `proof` and its leaves say; the leaves may be left out."""
    return [
        _commitment(proof),
        _order_of_stages(proof),
        _entries(proof),
        _root(proof, leaves),
        _beacon(proof),
    ]


def verify_ticket(proof: Proof, leaves: bytes | None, entry: int, client_id: bytes) -> Finding:
    """Whether the entry's owner stands in the tree."""
    what = f"entry {entry}"
    if in_gap(entry, proof.entry_gaps):
        listed = entry in proof.restored
        words = "was lost and turned up after the close: it has no leaf" + (
            "" if listed else ", and is not listed either"
        )
        return Finding(what, listed, words)
    if proof.last_entry is None or not 1 <= entry <= proof.last_entry:
        return Finding(what, False, "is not among the entries of this draw")
    if leaves is None:
        return Finding(what, None, "cannot be looked up without the leaves")
    found = leaves[(entry - 1) * LEAF_BYTES : entry * LEAF_BYTES]
    if found == leaf(proof.room, proof.epoch, entry, client_id):
        return Finding(what, True, "is in the tree with this ticket's own leaf")
    return Finding(what, False, "has another owner's leaf in the tree")


def key_of(proof: Proof) -> bytes | None:
    """The key of the order, or None before it is drawn."""
    if proof.secret is None or proof.entries is None:
        return None
    material = bytes.fromhex(proof.secret + (proof.root or "") + (proof.beacon_value or ""))
    return draw_key(material, proof.room, proof.epoch, proof.entries)


def place_of(proof: Proof, entry: int) -> int | None:
    """The place of an entry, or None before it is drawn. An entry in a gap has that of the entry behind it."""
    key = key_of(proof)
    if key is None or not proof.entries:
        return None
    return drawn_place(key, proof.entries, min(dense(entry, proof.entry_gaps), proof.entries))


def whole_order(proof: Proof) -> Iterator[tuple[int, int]]:
    """(entry, place) of everybody who entered in time; nothing before the draw."""
    key = key_of(proof)
    if key is None or proof.entries is None or proof.last_entry is None:
        return
    gaps, behind = proof.entry_gaps, 0
    for entry in range(1, proof.last_entry + 1):
        if gaps and entry > gaps[0].last:
            gaps = gaps[1:]
        if gaps and entry >= gaps[0].first:
            continue
        behind += 1
        yield entry, drawn_place(key, proof.entries, behind)


def _commitment(proof: Proof) -> Finding:
    what = "commitment"
    if proof.secret is None:
        return Finding(what, None, "stands; its secret is not revealed yet")
    secret = bytes.fromhex(proof.secret)
    if len(secret) != HASH_BYTES:
        return Finding(what, False, "the secret has not 32 bytes")
    found = commitment(secret, proof.room, proof.epoch, beacon_words(proof.beacon))
    if found.hex() != proof.commitment:
        return Finding(what, False, "the secret or the beacon is not what was committed to")
    return Finding(what, True, "the revealed secret, and the beacon named, are what was committed to")


def _order_of_stages(proof: Proof) -> Finding:
    moments = (proof.committed_at, proof.entries_closed_at, proof.root_at, proof.beacon_at, proof.drawn_at)
    known = [at for at in moments if at is not None]
    if known != sorted(known):  # RFC 3339 in UTC with fixed width sorts as text
        return Finding("stages", False, "a stage is dated before the one it follows")
    return Finding("stages", True, f"dated one after the other, as far as {proof.stage}")


def _entries(proof: Proof) -> Finding:
    what, gaps = "entries", proof.entry_gaps
    if proof.entries is None or proof.last_entry is None:
        return Finding(what, None, "not closed yet")
    ordered = all(one.last < two.first for one, two in pairwise(gaps))
    inside = all(1 <= gap.first <= gap.last <= proof.last_entry for gap in gaps)
    if not (ordered and inside) or proof.entries != proof.last_entry - gaps_length(gaps):
        return Finding(what, False, "their number is not that of the last entry less the gaps")
    return Finding(what, True, f"{proof.entries} of {proof.last_entry} indices were entered")


def _root(proof: Proof, leaves: bytes | None) -> Finding:
    what = "root"
    if proof.root is None or proof.last_entry is None:
        drawn = proof.secret is not None
        return Finding(what, False, "is missing") if drawn else Finding(what, None, "not there yet")
    if leaves is None:
        return Finding(what, None, "cannot be recomputed without the leaves")
    if len(leaves) != proof.last_entry * LEAF_BYTES:
        return Finding(what, False, "the leaves are not as many as the entries")
    size = CHUNK_LEAVES * LEAF_BYTES
    chunks = [root(split(leaves[at * size : (at + 1) * size])) for at in range(chunks_of(proof.last_entry))]
    if root(chunks).hex() != proof.root:
        return Finding(what, False, "the leaves do not give this root")
    filled = [gap for gap in proof.entry_gaps if any(_leaves_between(leaves, gap))]
    if filled:
        return Finding(what, False, f"entry {filled[0].first} or one behind it was passed over although it has a leaf")
    empty = sum(1 for one in split(leaves) if one == EMPTY_LEAF) - gaps_length(proof.entry_gaps)
    unnamed = f"; {empty} entries have places and no leaf: their owners cannot check them" if empty else ""
    return Finding(what, True, f"is that of the {proof.last_entry} leaves{unnamed}")


def _beacon(proof: Proof) -> Finding:
    what, beacon, value = "beacon", proof.beacon, proof.beacon_value
    if beacon is None:
        return Finding(what, value is None, "none was committed to" + ("" if value is None else ", and yet one counts"))
    if value is not None:
        right = len(value) == 2 * HASH_BYTES and not proof.beacon_missed
        return Finding(what, right, f"compare the value with {beacon.source}/public/{beacon.round}")
    if proof.beacon_missed:
        return Finding(what, beacon.fallback == "without", f"did not come; the commitment said: {beacon.fallback}")
    return Finding(what, None, "has not come yet") if proof.secret is None else Finding(what, False, "is missing")


def _leaves_between(leaves: bytes, gap: Gap) -> bytes:
    return leaves[(gap.first - 1) * LEAF_BYTES : gap.last * LEAF_BYTES]
