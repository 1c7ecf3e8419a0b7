"""Who goes next in a lane (pure): one verb of one SKU a statement, the one whose first member waited longest.

Members keep the order of their arrival. A statement has a key or a hold once, so that no repeat takes what somebody else
could have: repeats line up behind everybody and are then served many at once, each hearing what became of the first.
"""

import itertools
from collections import Counter, deque
from collections.abc import Callable
from typing import Generic, NamedTuple, Protocol, TypeVar
from uuid import UUID


class Group(NamedTuple):
    """What one statement can serve."""

    verb: str
    sku_id: int


class Waits(Protocol):
    """Somebody who waits: for which group, and about which key or hold."""

    @property
    def group(self) -> Group: ...
    @property
    def unit(self) -> UUID: ...


M = TypeVar("M", bound=Waits)


class _Line(NamedTuple):
    group: Group
    repeats: bool


class _Repeat(NamedTuple):
    group: Group
    unit: UUID


class Queue(Generic[M]):
    """The members that wait in one lane."""

    def __init__(self) -> None:
        self._lines: dict[_Line, deque[tuple[int, M]]] = {}  # nobody is in two, and none is empty
        self._repeats: Counter[_Repeat] = Counter()  # how many repeats of each wait as such: further ones join them
        self._places = itertools.count()
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def add(self, member: M) -> None:
        """Let `member` wait behind those of its group."""
        self._line_up(member, repeats=False)
        self._length += 1

    def take(self, most: int) -> list[M]:
        """At most `most` members for the next statement, taken out; none only when nobody waits."""
        taken: list[M] = []
        while self._lines and not taken:  # all of a line may turn out to be repeats
            taken = self._take(most)
        self._length -= len(taken)
        return taken

    def _take(self, most: int) -> list[M]:
        line = min(self._lines, key=lambda line: self._lines[line][0][0])
        waiting = self._lines[line]
        taken: list[M] = []
        units: set[UUID] = set()
        while waiting and len(taken) < most:
            _, member = waiting.popleft()
            if line.repeats:
                self._no_longer_repeats(member)
                taken.append(member)
            elif member.unit in units or (self._repeats and _Repeat(member.group, member.unit) in self._repeats):
                self._line_up(member, repeats=True)
            else:
                units.add(member.unit)
                taken.append(member)
        if waiting and line.repeats:  # however many they are, everybody who waits now comes first
            waiting[0] = (next(self._places), waiting[0][1])
        self._forget(line)
        return taken

    def remove(self, leaves: Callable[[M], bool]) -> list[M]:
        """Take out every member that `leaves`."""
        removed: list[M] = []
        for line, waiting in list(self._lines.items()):
            stay: deque[tuple[int, M]] = deque()
            for place, member in waiting:
                if leaves(member):
                    removed.append(member)
                    if line.repeats:
                        self._no_longer_repeats(member)
                else:
                    stay.append((place, member))
            self._lines[line] = stay
            self._forget(line)
        self._length -= len(removed)
        return removed

    def _line_up(self, member: M, *, repeats: bool) -> None:
        self._lines.setdefault(_Line(member.group, repeats), deque()).append((next(self._places), member))
        if repeats:
            self._repeats[_Repeat(member.group, member.unit)] += 1

    def _no_longer_repeats(self, member: M) -> None:
        repeat = _Repeat(member.group, member.unit)
        self._repeats[repeat] -= 1
        if not self._repeats[repeat]:
            del self._repeats[repeat]

    def _forget(self, line: _Line) -> None:
        if not self._lines[line]:
            del self._lines[line]
