"""Checks of the line: nobody early, never faster than the rate, a place never worse (I7, I8). Pure."""

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence

from loadtest.facts import Evidence, RateSpan
from loadtest.outcome import Check
from loadtest.records import Admitted, Placed, Record

WINDOW_SECONDS = 60


def nobody_before_opening(evidence: Evidence) -> Check:
    """No pass was given before the room opened."""
    opened = math.floor(evidence.rates[0].since) if evidence.rates else math.inf
    faults = tuple(
        f"{admission.ticket_id} was admitted {opened - admission.at:,.0f} s before the opening"
        for admission in evidence.admissions
        if admission.at < opened
    )
    return Check("admitted before the opening", f"{len(faults):,}", "0", faults)


def admissions_keep_the_rate(evidence: Evidence) -> Check:
    """In the worst 60 s window: at most the integral of the rate plus max(1, one second of it).

    A window is whole seconds, as admissions are dated, so its bound is exact.
    """
    seconds = sorted(admission.at for admission in evidence.admissions)
    worst: tuple[bool, int, float, int] | None = None
    for end in sorted({second + 1 for second in seconds}):
        start = end - WINDOW_SECONDS
        count = bisect_left(seconds, end) - bisect_left(seconds, start)
        bound = admissions_max(evidence.rates, start, end)
        window = (count > bound, count, bound, start)
        if worst is None or window[:2] > worst[:2]:  # one over its bound before any other, then the fullest
            worst = window
    if worst is None:
        return Check("admitted in the worst 60 s", "0", "")
    over, count, bound, start = worst
    faults = (f"{count:,} passes from {start} on, {count - bound:,.1f} more than the rate allows",) if over else ()
    return Check(
        "admitted in the worst 60 s", f"{count:,}", f"at most {bound:,.0f}", faults, note=f"{len(seconds):,} in all"
    )


def admissions_max(rates: Sequence[RateSpan], start: float, end: float) -> float:
    """How many may be admitted from `start` until `end`: the integral of the rate, and one second of the highest."""
    allowed = 0.0
    highest = 0.0
    for index, span in enumerate(rates):
        until = rates[index + 1].since if index + 1 < len(rates) else math.inf
        seconds = min(end, until) - max(start, span.since)
        if seconds > 0:
            allowed += span.rate_per_minute / 60 * seconds
            highest = max(highest, span.rate_per_minute / 60)
    return allowed + (max(1.0, highest) if highest else 0.0)


def one_pass_a_turn(records: Sequence[Record]) -> Check:
    """Asking twice for a pass gave one right, whose end a renewal may have moved but never earlier."""
    first: dict[str, Admitted] = {}
    ends: dict[str, str] = {}
    asked = Counter[str]()
    faults = []
    for record in records:
        if isinstance(record, Admitted):
            asked[record.ticket_id] += 1
            if first.setdefault(record.ticket_id, record).jti != record.jti:
                faults.append(f"{record.ticket_id} was given the passes {first[record.ticket_id].jti} and {record.jti}")
            if record.expires_at < ends.get(record.ticket_id, ""):
                faults.append(f"{record.ticket_id} was given a pass that ends earlier than one before")
            ends[record.ticket_id] = record.expires_at
    twice = sum(times > 1 for times in asked.values())
    return Check("tickets with two passes", f"{len(faults):,}", "0", tuple(faults), note=f"{twice:,} asked twice")


def places_only_improve(records: Sequence[Record]) -> Check:
    """No ticket was ever shown a larger place than before."""
    shown: dict[str, int] = {}
    faults = []
    for record in records:
        if isinstance(record, Placed) and record.place is not None:
            before = shown.get(record.ticket_id)
            if before is not None and record.place > before:
                faults.append(f"{record.ticket_id} went from place {before:,} to {record.place:,}")
            shown[record.ticket_id] = record.place
    return Check("places that rose", f"{len(faults):,}", "0", tuple(faults), note=f"{len(shown):,} places watched")
