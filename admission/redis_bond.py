"""The bond to the Redis behind the line, one server or a cluster: each room's verbs run on the node that holds it.

A room belongs to one life of one node: a restart, a failover or a moved slot gives it another identity, whose verbs are
refused until the leader has begun a new generation there. Other nodes' rooms go on.
"""

import asyncio
import hashlib
from collections.abc import Sequence
from functools import cache
from typing import Any
from urllib.parse import urlsplit

from admission.redis_cluster import SlotRange, owner_of, read_seeds, read_slots
from admission.redis_node import LineAway, NodeBond, RedisUnfit
from chassis.database import read_text

__all__ = ["LineAway", "RedisBond"]

OPEN_BY_THEMSELVES = (
    "forget_epoch",
    "refill",
    "remember",
    "restore",
    "salvage",
    "salvage_entries",
    "tell_load",
    "tell_stock",
)
OF_TURNS = ("claim", "look", "extend")


class RedisBond:
    """Every node of the line; `renew` learns which there are, who owns which rooms, and who answers."""

    def __init__(self, redis_url: str) -> None:
        self._url = redis_url
        self._seeds = read_seeds(redis_url)
        self._ranges: list[SlotRange] = []
        self._nodes = {} if self._seeds else {redis_url: NodeBond(redis_url)}
        self._renewing = asyncio.Lock()

    def identity_of(self, room: str) -> str | None:
        """Who keeps `room` now; None while nobody does. It changes with everything that may have forgotten."""
        node = self._node_of(f"{{{room}}}")
        return None if node is None else node.identity

    async def renew(self) -> None:
        """Bind to every node that answers. Raises LineAway when none does, RedisUnfit when one must not be used."""
        async with self._renewing:
            if self._seeds is not None:
                await self._read_slots()
            nodes = list(self._nodes.values())
            failures = [
                failure
                for failure in await asyncio.gather(*(node.renew() for node in nodes), return_exceptions=True)
                if failure is not None
            ]
            for failure in failures:
                if isinstance(failure, RedisUnfit) or not isinstance(failure, LineAway):
                    raise failure
            if len(failures) == len(nodes):
                raise failures[0]

    async def run(
        self,
        verb: str,
        identity: str | None,
        keys: Sequence[str],
        values: Sequence[str | bytes],
        *,
        may_be_absent: bool = False,
    ) -> list[Any]:
        """Run admission/lua/<verb>.lua on the node of `keys`, if it is still the one called `identity`. Raises LineAway.

        A verb may have taken effect although its answer was lost; every verb is safe to repeat. A room that this Redis
        does not hold in the caller's generation raises too, unless it `may_be_absent`.
        """
        node = self._node_of(keys[0])
        if node is None:
            raise LineAway("nobody keeps this room")
        answer = await node.run(*_script(verb), identity, keys, values)
        if answer[0] == "generation" and not may_be_absent:
            raise LineAway("it is being restored")
        return answer

    async def close(self) -> None:
        """Drop the connections; verbs under way end with LineAway."""
        for node in self._nodes.values():
            await node.close()

    def _node_of(self, key: str) -> NodeBond | None:
        if self._seeds is None:
            return self._nodes[self._url]
        return self._nodes.get(owner_of(key, self._ranges) or "")

    async def _read_slots(self) -> None:
        """Learn from the first node that answers who owns which slots; forget the nodes that own none."""
        assert self._seeds is not None
        failure = LineAway("no node of the cluster answers")
        known = sorted(self._nodes, key=lambda url: self._nodes[url].identity is None)
        for url in dict.fromkeys((*known, *self._seeds.urls)):
            try:
                answer = await (self._nodes.get(url) or NodeBond(url)).slots()
            except LineAway as away:
                failure = away
                continue
            self._ranges = read_slots(answer, self._seeds, urlsplit(url).netloc.rpartition("@")[2])
            break
        else:
            raise failure
        owners = {held.url for held in self._ranges}
        for url in self._nodes.keys() - owners:
            await self._nodes.pop(url).close()
        for url in owners - self._nodes.keys():
            self._nodes[url] = NodeBond(url)


@cache
def _script(verb: str) -> tuple[str, str]:
    """The text and SHA-1 of a verb: opening.lua, turns.lua for verbs on turns, and the verb's own file."""
    parts = () if verb in OPEN_BY_THEMSELVES else ("opening", "turns") if verb in OF_TURNS else ("opening",)
    text = "".join(read_text("admission", "lua", f"{part}.lua") for part in (*parts, verb))
    return text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
