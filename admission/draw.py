"""The draw: a keyed permutation gives every entry its place at once, without a row for each (pure).

A true shuffle for small rooms; above, a Feistel network walked until it lands inside (Black and Rogaway, "Ciphers with
Arbitrary Finite Domains", 2002). docs/draw.md has the bytes of everything here, for whoever checks a draw without us.
"""

import hashlib
from functools import lru_cache

SECRET_BYTES = 32
SHUFFLE_BELOW = 1_000
ROUNDS = 10


def commitment(secret: bytes, room: str, epoch: int, beacon: str) -> bytes:
    """What is published before anybody enters: SHA-256 over the draw's name, its beacon's words and its secret.

    `beacon` is '' for a draw without one. The secret has 32 bytes, so the text before it has one reading only.
    """
    assert len(secret) == SECRET_BYTES
    return hashlib.sha256(f"fairgate draw commitment\n{room}\n{epoch}\n{beacon}".encode() + secret).digest()


def draw_key(material: bytes, room: str, epoch: int, entries: int) -> bytes:
    """The permutation's key: bound to the room, the epoch, how many entered, and `material`: secret ‖ root ‖ beacon value."""
    return hashlib.sha256(f"fairgate draw\n{room}\n{epoch}\n{entries}\n".encode() + material).digest()


def drawn_place(key: bytes, entries: int, entry: int) -> int:
    """The place (1 … entries) of `entry` (1 … entries): a bijection for each key."""
    assert 1 <= entry <= entries
    if entries < SHUFFLE_BELOW:
        return _shuffled(key, entries)[entry - 1]
    bits = (entries - 1).bit_length()
    rounds = _rounds(key)
    place = _feistel(rounds, bits, entry - 1)
    while place >= entries:
        place = _feistel(rounds, bits, place)
    return place + 1


@lru_cache(maxsize=64)
def _shuffled(key: bytes, entries: int) -> tuple[int, ...]:
    """Fisher and Yates's shuffle of 1 … entries, fed by SHA-256 in counter mode."""
    places = list(range(1, entries + 1))
    stream = _Stream(key)
    for last in range(entries - 1, 0, -1):
        other = stream.below(last + 1)
        places[last], places[other] = places[other], places[last]
    return tuple(places)


class _Stream:
    """Uniform numbers from a key: 64 bits at a time, those that would bias the remainder are thrown away."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._counter = 0

    def below(self, bound: int) -> int:
        fair = 2**64 - 2**64 % bound
        while True:
            block = hashlib.sha256(self._key + b"shuffle" + self._counter.to_bytes(8, "big")).digest()
            self._counter += 1
            number = int.from_bytes(block[:8], "big")
            if number < fair:
                return number % bound


def _feistel(rounds: tuple[tuple[bytes, bytes], ...], bits: int, value: int) -> int:
    """One pass of an alternating Feistel network over `bits` bits: halves of nearly equal size, each mixed in turn."""
    low_bits = bits // 2
    low_mask, high_mask = (1 << low_bits) - 1, (1 << (bits - low_bits)) - 1
    low, high = value & low_mask, value >> low_bits
    sha256, number = hashlib.sha256, int.from_bytes
    for even, odd in rounds:
        high ^= number(sha256(even + low.to_bytes(8, "big")).digest()[:8], "big") & high_mask
        low ^= number(sha256(odd + high.to_bytes(8, "big")).digest()[:8], "big") & low_mask
    return high << low_bits | low


@lru_cache(maxsize=64)
def _rounds(key: bytes) -> tuple[tuple[bytes, bytes], ...]:
    """What each two rounds hash before a half: the key and the round's number."""
    return tuple((key + bytes((number,)), key + bytes((number + 1,))) for number in range(0, ROUNDS, 2))
