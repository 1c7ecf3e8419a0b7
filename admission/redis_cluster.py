"""Where the rooms of a Redis Cluster or Valkey Cluster live (pure): its seeds' addresses, its slots, their owners.

A room's keys share one hash tag, so a room lives on one node; which one, only the cluster itself says.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from redis.crc import key_slot

CLUSTER_SCHEMES = {"redis+cluster": "redis", "rediss+cluster": "rediss"}


@dataclass(frozen=True, slots=True)
class SlotRange:
    """The slots `first` to `last` belong to the node at `url`."""

    first: int
    last: int
    url: str


@dataclass(frozen=True, slots=True)
class Seeds:
    """The nodes that a cluster's URL names: redis+cluster://:password@host:port,host:port."""

    scheme: str
    user: str
    hosts: tuple[str, ...]
    query: str

    @property
    def urls(self) -> tuple[str, ...]:
        """Each seed's own URL."""
        return tuple(self.url_of(host) for host in self.hosts)

    def url_of(self, address: str) -> str:
        """The URL of the node at `address` (host:port), with the same credentials."""
        return f"{self.scheme}://{self.user}{address}{self.query}"


def read_seeds(url: str) -> Seeds | None:
    """The seeds in a cluster's URL; None where `url` names a single server."""
    parts = urlsplit(url)
    scheme = CLUSTER_SCHEMES.get(parts.scheme)
    if scheme is None:
        return None
    user, at, hosts = parts.netloc.rpartition("@")
    return Seeds(scheme, user + at, tuple(filter(None, hosts.split(","))), f"?{parts.query}" if parts.query else "")


def read_slots(answer: Sequence[Any], seeds: Seeds, asked: str) -> list[SlotRange]:
    """What CLUSTER SLOTS answered, in order of slots: [first, last, [host, port, …], replicas …] for each range.

    A node that does not know its own host is reached where it was `asked` (host:port).
    """
    ranges = []
    for first, last, owner, *_ in answer:
        host, port = owner[0], owner[1]
        if not host or host == "?":
            host = asked.rpartition(":")[0]
        elif ":" in host:
            host = f"[{host}]"
        ranges.append(SlotRange(first, last, seeds.url_of(f"{host}:{port}")))
    return sorted(ranges, key=lambda held: held.first)


def owner_of(key: str, ranges: Sequence[SlotRange]) -> str | None:
    """The URL of the node that holds `key`; None where its slot is held by nobody."""
    slot = key_slot(key.encode())
    at = bisect_right(ranges, slot, key=lambda held: held.first) - 1
    return ranges[at].url if at >= 0 and slot <= ranges[at].last else None
