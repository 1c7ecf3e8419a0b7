"""Who goes next in a lane (pure): one verb of one SKU a statement, the one whose first member waited longest.

Members keep the order of their arrival. A key or a hold stands at most once in a statement: a duplicate of one on its way
waits for the next, and then hears what became of the first.
"""

from collections import deque
from collections.abc import Callable
from typing import Generic, NamedTuple, Protocol, TypeVar
from uuid import UUID


class Group(NamedTuple):
    """What one statement can serve."""

    verb: str
    sku_id: int


class Waits(Protocol):
    """Somebody who waits: for which group, about which key or hold, and since when (a monotonic clock's seconds)."""

    @property
    def group(self) -> Group: ...
    @property
    def unit(self) -> UUID: ...
    @property
    def since(self) -> float: ...


M = TypeVar("M", bound=Waits)


class Queue(Generic[M]):
    """The members that wait in one lane."""

    def __init__(self) -> None:
        self._groups: dict[Group, deque[M]] = {}
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def add(self, member: M) -> None:
        """Let `member` wait behind those of its group."""
        self._groups.setdefault(member.group, deque()).append(member)
        self._length += 1

    def take(self, most: int) -> list[M]:
        """At most `most` members for the next statement, taken out; none when nobody waits."""
        if not self._groups:
            return []
        group = min(self._groups, key=lambda group: self._groups[group][0].since)
        waiting = self._groups[group]
        taken: dict[UUID, M] = {}
        passed: list[M] = []
        while waiting and len(taken) < most:
            member = waiting.popleft()
            if member.unit in taken:
                passed.append(member)
            else:
                taken[member.unit] = member
        waiting.extendleft(reversed(passed))
        self._forget(group)
        self._length -= len(taken)
        return list(taken.values())

    def remove(self, leaves: Callable[[M], bool]) -> list[M]:
        """Take out every member that `leaves`."""
        removed: list[M] = []
        for group, waiting in list(self._groups.items()):
            stay: deque[M] = deque()
            for member in waiting:
                (removed if leaves(member) else stay).append(member)
            self._groups[group] = stay
            self._forget(group)
        self._length -= len(removed)
        return removed

    def _forget(self, group: Group) -> None:
        if not self._groups[group]:
            del self._groups[group]
