"""Draws for tests: a whole one made without a server, and the vectors that docs/draw.md shows."""

import hashlib
from datetime import UTC, datetime, timedelta

import msgspec

from admission.draw import commitment, draw_key, drawn_place
from admission.merkle import chunk_leaves, chunk_length, chunks_of, levels, path, root, split
from admission.places import Gap, gaps_length
from admission.proofs import Proof, key_of, place_of, proof_document
from admission.room_settings import Beacon
from admission.stages import Draw, beacon_words
from admission.tickets import client_digest, client_id_of

BEGAN = datetime(2026, 5, 1, 10, tzinfo=UTC)
JOINED = int(BEGAN.timestamp()) + 600
BEACON = Beacon("https://beacon.example/chain", 4_711, "without")
SECRET = b"s" * 32


def client(entry: int) -> bytes:
    return client_digest(client_id_of(f"secret {entry}"))


def drawn_proof(
    last_entry: int = 2_500,
    gaps: tuple[Gap, ...] = (Gap(40, 60), Gap(2_000, 2_010)),
    beacon: Beacon | None = BEACON,
    missed: bool = False,
) -> tuple[Proof, bytes]:
    """A whole draw, and its leaves."""
    lost = {entry for gap in gaps for entry in range(gap.first, gap.last + 1)}
    clients = {entry: client(entry) for entry in range(1, last_entry + 1) if entry not in lost}
    chunks = [
        chunk_leaves("onsale", 2, chunk, chunk_length(last_entry, chunk), clients)
        for chunk in range(chunks_of(last_entry))
    ]
    root_hash = root([root(split(chunk)) for chunk in chunks])
    value = hashlib.sha256(b"beacon").digest() if beacon is not None and not missed else None
    draw = Draw(
        commitment=commitment(SECRET, "onsale", 2, beacon_words(beacon)),
        committed_at=BEGAN,
        beacon=beacon,
        last_entry=last_entry,
        entries_closed_at=BEGAN + timedelta(hours=1),
        root=root_hash,
        root_at=BEGAN + timedelta(hours=1, milliseconds=3),
        beacon_value=value,
        beacon_at=None if beacon is None else BEGAN + timedelta(hours=1, seconds=61),
        beacon_missed=missed,
        entries=last_entry - gaps_length(gaps),
        material=SECRET + root_hash + (value or b""),
        drawn_at=BEGAN + timedelta(hours=1, seconds=62),
    )
    document = proof_document("onsale", 2, draw, gaps, [41] if 41 in lost else [])
    return msgspec.json.decode(msgspec.json.encode(document), type=Proof), b"".join(chunks)


def vectors() -> dict[str, object]:
    """What docs/draw.md shows: a small draw in full, a larger one with gaps and a beacon, and places among a million."""
    small, small_leaves = drawn_proof(5, (), None)
    large, large_leaves = drawn_proof()
    key = draw_key(SECRET + b"r" * 32, "onsale", 1, 1_000_000)
    return {
        "small": {
            "room": small.room, "epoch": small.epoch, "secret": small.secret, "beacon": None,
            "client_ids": [client_id_of(f"secret {entry}") for entry in range(1, 6)],
            "commitment": small.commitment,
            "leaves": [one.hex() for one in split(small_leaves)],
            "root": small.root,
            "path_of_entry_3": [node.hex() for node in path(levels(split(small_leaves)), 2)],
            "key": (key_of(small) or b"").hex(),
            "places": {str(entry): place_of(small, entry) for entry in range(1, 6)},
        },
        "large": {
            "room": large.room, "epoch": large.epoch, "secret": large.secret, "beacon": msgspec.to_builtins(large.beacon),
            "beacon_value": large.beacon_value, "last_entry": large.last_entry, "gaps": large.gaps, "entries": large.entries,
            "commitment": large.commitment,
            "root": large.root,
            "path_of_entry_2500": [node.hex() for node in path(levels(split(large_leaves)), 2_499)],
            "key": (key_of(large) or b"").hex(),
            "places": {str(entry): place_of(large, entry) for entry in (1, 2, 39, 41, 61, 2_011, 2_500)},
        },
        "million": {
            "room": "onsale", "epoch": 1, "entries": 1_000_000, "secret": SECRET.hex(), "root": (b"r" * 32).hex(),
            "key": key.hex(),
            "places": {str(entry): drawn_place(key, 1_000_000, entry) for entry in (1, 2, 3, 500_000, 1_000_000)},
        },
    }  # fmt: skip
