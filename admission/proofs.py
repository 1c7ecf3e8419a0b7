"""A draw's proof: the public document, and its verification without the server that made it (pure).

What a proof binds depends on its beacon; the words for that stand here once, for the document and for the verifier.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Annotated, Literal

import msgspec

from admission.draw import commitment, draw_key, drawn_place
from admission.merkle import CHUNK_LEAVES, EMPTY_LEAF, LEAF_BYTES, chunks_of, leaf, root, split
from admission.places import Gap, dense, gaps_length, in_gap
from admission.room_settings import ROOM_NAME, Beacon
from admission.stages import BEACON_SECONDS_MAX, Draw, Stage, beacon_words
from chassis.moments import Moment, keep_in_utc

FORMAT = "fairgate draw 1"


ENTRIES_MAX = 100_000_000
OLDER_SECONDS_MAX = 60  # by how much a ticket's clock may lag behind the commitment's

_Hex = Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{64}\Z")]
_Count = Annotated[int, msgspec.Meta(ge=0, le=ENTRIES_MAX)]
_Entry = Annotated[int, msgspec.Meta(ge=1, le=ENTRIES_MAX)]


class Proof(msgspec.Struct, frozen=True):
    """A proof document as anybody reads it: 32 bytes in hex, moments in RFC 3339, counts within bounds; its form, not its truth."""

    format: Literal["fairgate draw 1"]
    room: Annotated[str, msgspec.Meta(pattern=rf"\A{ROOM_NAME.pattern}\Z")]
    epoch: Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
    stage: Stage
    commitment: _Hex
    committed_at: Moment
    beacon: Beacon | None
    last_entry: _Count | None
    entries_closed_at: Moment | None
    root: _Hex | None
    root_at: Moment | None
    beacon_value: _Hex | None
    beacon_at: Moment | None
    beacon_missed: bool
    entries: _Count | None
    secret: _Hex | None
    drawn_at: Moment | None
    gaps: tuple[tuple[_Entry, _Entry], ...]
    restored: tuple[_Entry, ...]
    prequeue_at: Moment | None = None

    def __post_init__(self) -> None:
        keep_in_utc(self, "committed_at", "prequeue_at", "entries_closed_at", "root_at", "beacon_at", "drawn_at")

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


def read_proof(body: bytes) -> Proof:
    """The proof in a document of any origin. Raises ValueError, with words, for what has not a proof's form."""
    try:
        return msgspec.json.decode(body, type=Proof)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


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
        _restored(proof),
        _root(proof, leaves),
        _beacon(proof),
    ]


def verify_ticket(proof: Proof, leaves: bytes | None, entry: int, client_id: bytes, joined_at: int) -> Finding:
    """Whether the entry's owner stands in the tree; `joined_at`, when the ticket was issued, is in Unix seconds."""
    what = f"entry {entry}"
    if joined_at < proof.committed_at.timestamp() - OLDER_SECONDS_MAX:
        return Finding(what, False, "this ticket is older than the commitment")
    if proof.last_entry is None:
        return Finding(what, None, "cannot be looked up before the entries are closed")
    if in_gap(entry, proof.entry_gaps):
        listed = entry in proof.restored
        words = "was lost and turned up after the close: it has no leaf" + (
            "" if listed else ", and is not listed either"
        )
        return Finding(what, listed, words)
    if not 1 <= entry <= proof.last_entry:
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
    """The place of an entry of a proof that holds, or None before it is drawn. One in a gap has that of the entry behind it."""
    key = key_of(proof)
    if key is None or not proof.entries:
        return None
    return drawn_place(key, proof.entries, min(dense(entry, proof.entry_gaps), proof.entries))


def whole_order(proof: Proof) -> Iterator[tuple[int, int]]:
    """(entry, place) of everybody who entered in time, by a proof that holds; nothing before the draw."""
    key = key_of(proof)
    if key is None or proof.entries is None or proof.last_entry is None:
        return
    behind, first = 0, 1
    for gap in (*proof.entry_gaps, Gap(proof.last_entry + 1, proof.last_entry + 1)):
        for entry in range(first, gap.first):
            behind += 1
            yield entry, drawn_place(key, proof.entries, behind)
        first = gap.last + 1


def _commitment(proof: Proof) -> Finding:
    what = "commitment"
    if proof.secret is None:
        return Finding(what, None, "stands; its secret is not revealed yet")
    found = commitment(bytes.fromhex(proof.secret), proof.room, proof.epoch, beacon_words(proof.beacon))
    if found.hex() != proof.commitment:
        return Finding(what, False, "the secret or the beacon is not what was committed to")
    return Finding(what, True, "the revealed secret, and the beacon named, are what was committed to")


def _order_of_stages(proof: Proof) -> Finding:
    """Whether what stands of the draw is whole, in order, dated so, and as far as the proof says."""
    what = "stages"
    stages: list[tuple[Stage, datetime | None, tuple[object, ...]]] = [
        ("committed", proof.committed_at, ()),
        ("entries-closed", proof.entries_closed_at, (proof.last_entry,)),
        ("root", proof.root_at, (proof.root,)),
        ("drawn", proof.drawn_at, (proof.secret, proof.entries)),
    ]
    if proof.beacon is not None:
        stages.insert(3, ("beacon", proof.beacon_at, ()))  # its value is judged by itself
    for name, at, values in stages:
        if any((value is None) != (at is None) for value in values):
            return Finding(what, False, f"{name} stands in part only: its moment and what it publishes belong together")
    standing = [(name, at) for name, at, _ in stages if at is not None]
    if [name for name, _ in standing] != [name for name, _, _ in stages[: len(standing)]]:
        return Finding(what, False, "a stage stands without the one that it follows")
    if standing[-1][0] != proof.stage:
        return Finding(what, False, f"the proof says {proof.stage}, and what it shows is {standing[-1][0]}")
    if any(later < earlier for (_, earlier), (_, later) in pairwise(standing)):
        return Finding(what, False, "a stage is dated before the one it follows")
    words = f"dated one after the other, as far as {proof.stage}"
    if proof.prequeue_at is None:
        words += "; that the commitment came before the pre-queue cannot be checked from the proof, which names no moment for it"
        return Finding(what, True, words)
    if proof.prequeue_at < proof.committed_at:
        return Finding(what, False, "the commitment came after the pre-queue had begun")
    if proof.entries_closed_at is None:
        return Finding(what, False, "the pre-queue is dated, which it is only once the entries are closed")
    return Finding(what, True, f"{words}; committed before the pre-queue was to begin")


def _entries(proof: Proof) -> Finding:
    what, gaps = "entries", proof.entry_gaps
    if not all(gap.first <= gap.last for gap in gaps) or any(one.last >= two.first for one, two in pairwise(gaps)):
        return Finding(what, False, "the gaps are not in order")
    if proof.last_entry is None:
        return Finding(what, None, "not closed yet")
    if gaps and gaps[-1].last > proof.last_entry:
        return Finding(what, False, "a gap reaches beyond the last entry")
    entered = proof.last_entry - gaps_length(gaps)
    if proof.entries is not None and proof.entries != entered:
        return Finding(what, False, "their number is not that of the last entry less the gaps")
    return Finding(what, True, f"{entered} of {proof.last_entry} indices were entered")


def _restored(proof: Proof) -> Finding:
    """Whether what turned up late are distinct entries that were passed over; that these have no leaf is for the root."""
    what, restored, gaps = "restored", proof.restored, sorted(proof.gaps)
    if len(set(restored)) != len(restored):
        return Finding(what, False, "an entry is listed twice")
    for entry in restored:
        at = bisect_right(gaps, (entry, ENTRIES_MAX)) - 1
        if proof.last_entry is None or entry > proof.last_entry or at < 0 or entry > gaps[at][1]:
            return Finding(
                what, False, f"entry {entry} was not passed over, and yet is listed as one that turned up late"
            )
    return Finding(what, True, f"{len(restored)} entries turned up after the close" if restored else "none are listed")


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
    what, beacon, value, at = "beacon", proof.beacon, proof.beacon_value, proof.beacon_at
    if beacon is None:
        if value is None and at is None and not proof.beacon_missed:
            return Finding(what, True, "none was committed to")
        return Finding(what, False, "none was committed to, and yet one came or was missed")
    if proof.beacon_missed and (value is not None or beacon.fallback != "without"):
        why = "and yet it has a value" if value is not None else f"and yet the commitment said: {beacon.fallback}"
        return Finding(what, False, f"is marked as missed, {why}")
    if (at is None) != (value is None and not proof.beacon_missed):
        return Finding(what, False, "its moment, and its value or that it was missed, belong together")
    if at is None:
        return Finding(what, None, "has not come yet") if proof.secret is None else Finding(what, False, "is missing")
    if value is not None:
        return Finding(what, True, f"compare the value with {beacon.source}/public/{beacon.round}")
    closed_at = proof.entries_closed_at
    if closed_at is None or (at - closed_at).total_seconds() < BEACON_SECONDS_MAX:
        return Finding(what, False, f"was given up less than {BEACON_SECONDS_MAX:.0f} seconds after the close")
    return Finding(what, True, f"did not come; the commitment said: {beacon.fallback}")


def _leaves_between(leaves: bytes, gap: Gap) -> bytes:
    return leaves[(gap.first - 1) * LEAF_BYTES : gap.last * LEAF_BYTES]
