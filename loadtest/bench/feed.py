"""Pre-rendered HTTP/1.1 requests for a load client, in a file that wrk's script and our own client both read (pure).

A request may leave room for an idempotency key: the client puts one of its own there for each request it sends.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

KEY = b"@KEY@"
END = b"\0"  # between requests: none of ours has a NUL


@dataclass(frozen=True, slots=True)
class Feed:
    """What a client sends, in order. `rotate`: from the beginning again when all are sent; else it stops there."""

    requests: Sequence[bytes]
    rotate: bool

    def write(self, file: Path) -> None:
        """Write the file that clients read."""
        file.write_bytes(END.join(self.requests))


def read_feed(file: Path) -> list[tuple[bytes, bytes | None]]:
    """The file's requests, each cut where its key goes; None where it takes no key."""
    parted = (request.partition(KEY) for request in file.read_bytes().split(END))
    return [(head, tail if key else None) for head, key, tail in parted]


def render(method: str, path: str, headers: Mapping[str, str], body: bytes = b"") -> bytes:
    """One request. A header's value may be the place of the key."""
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    if body:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode() + body


def mixed(many: Sequence[bytes], few: Iterable[bytes], every: int) -> list[bytes]:
    """`many` with one of `few` after each `every` - 1 of them; what is left of `many` at the end is left out."""
    mix: list[bytes] = []
    for place, rare in enumerate(few):
        part = many[place * (every - 1) : (place + 1) * (every - 1)]
        if len(part) < every - 1:
            break
        mix += [*part, rare]
    return mix
