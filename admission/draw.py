"""The draw: a keyed permutation gives every entry its place at once, without a row for each (pure).

A true shuffle for small rooms; above, a Feistel network walked until it lands inside (Black and Rogaway, "Ciphers with
Arbitrary Finite Domains", 2002). The secret is committed to before opening and revealed after, so that nobody who only
sees the public values can know the order early, and nobody can change it late.
"""

import hashlib
from functools import lru_cache

SHUFFLE_BELOW = 1_000
ROUNDS = 10


def commitment(secret: bytes, room: str, epoch: int) -> bytes:
    """What is published before opening: SHA-256 over the draw's name and its secret."""
    return hashlib.sha256(f"fairgate draw commitment\n{room}\n{epoch}\n".encode() + secret).digest()


def draw_key(secret: bytes, room: str, epoch: int, entries: int) -> bytes:
    """The permutation's key: bound to the room, the epoch and how many entered."""
    return hashlib.sha256(f"fairgate draw\n{room}\n{epoch}\n{entries}\n".encode() + secret).digest()


def drawn_place(key: bytes, entries: int, entry: int) -> int:
    """The place (1 … entries) of `entry` (1 … entries): a bijection for each key."""
    assert 1 <= entry <= entries
    if entries < SHUFFLE_BELOW:
        return _shuffled(key, entries)[entry - 1]
    bits = (entries - 1).bit_length()
    place = _feistel(key, bits, entry - 1)
    while place >= entries:
        place = _feistel(key, bits, place)
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


def _feistel(key: bytes, bits: int, value: int) -> int:
    """One pass of an alternating Feistel network over `bits` bits: halves of nearly equal size, each mixed in turn."""
    low_bits = bits // 2
    low_mask, high_mask = (1 << low_bits) - 1, (1 << (bits - low_bits)) - 1
    low, high = value & low_mask, value >> low_bits
    for number in range(ROUNDS):
        if number % 2 == 0:
            high ^= _round(key, number, low) & high_mask
        else:
            low ^= _round(key, number, high) & low_mask
    return high << low_bits | low


def _round(key: bytes, number: int, half: int) -> int:
    return int.from_bytes(hashlib.sha256(key + bytes((number,)) + half.to_bytes(8, "big")).digest()[:8], "big")
