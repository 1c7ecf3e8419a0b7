"""From a ticket's entry or number to its place in line (pure).

Places are dense: numbers that a lost Redis left behind as gaps count for nothing, and a ticket from inside a gap
shares the place where the gap begins. Recording a gap can therefore only improve a place.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from admission.draw import drawn_place
from admission.tickets import Ticket


@dataclass(frozen=True, slots=True)
class Gap:
    """Numbers first … last were (perhaps) never issued."""

    first: int
    last: int


def dense(index: int, gaps: Sequence[Gap]) -> int:
    """`index` without the gaps below it; inside a gap, that of the first index behind the gap."""
    below = 0
    for gap in gaps:
        if index > gap.last:
            below += gap.last - gap.first + 1
        elif index >= gap.first:
            return gap.first - below
        else:
            break
    return index - below


def in_gap(index: int, gaps: Sequence[Gap]) -> bool:
    """Whether `index` lies in one of `gaps`."""
    return any(gap.first <= index <= gap.last for gap in gaps)


def gaps_length(gaps: Sequence[Gap]) -> int:
    """How many indices lie in `gaps`."""
    return sum(gap.last - gap.first + 1 for gap in gaps)


@dataclass(frozen=True, slots=True)
class Drawn:
    """A finished draw: `entries` places drawn with `key`."""

    entries: int
    key: bytes


@dataclass(frozen=True, slots=True)
class Layout:
    """What turns tickets of one room and epoch into places. Gaps are sorted and do not overlap."""

    room: str
    epoch: int
    drawn: Drawn | None
    entry_gaps: Sequence[Gap] = ()
    number_gaps: Sequence[Gap] = ()

    @property
    def passed_over(self) -> int:
        """How many entries and numbers lie in gaps."""
        return gaps_length(self.entry_gaps) + gaps_length(self.number_gaps)

    def entries_issued(self, entries: int) -> int:
        """How many entered, when the last entry issued is `entries`."""
        return max(0, entries - gaps_length(self.entry_gaps))

    def places_issued(self, drawn_entries: int, numbers: int) -> int:
        """How many places there are, when the last number issued behind the draw is `numbers`."""
        return max(0, drawn_entries + numbers - gaps_length(self.number_gaps))

    def forgotten_last(self, ticket: Ticket, numbers: int) -> bool:
        """Whether Redis forgot the ticket's number and has issued none behind it, so that its place is not issued any more."""
        if ticket.kind != "number" or not self.number_gaps:
            return False
        gap = self.number_gaps[-1]
        return gap.first <= ticket.index <= gap.last and numbers <= gap.last

    def place_of(self, ticket: Ticket) -> int | None:
        """The ticket's place from 1, or None while the draw is still to come."""
        if self.drawn is None:
            return None
        entries = self.drawn.entries
        if ticket.kind == "number":
            return entries + dense(ticket.index, self.number_gaps)
        if entries == 0:
            return 1
        entry = min(dense(ticket.index, self.entry_gaps), entries)
        return drawn_place(self.drawn.key, entries, entry)
