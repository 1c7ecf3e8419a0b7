"""Checks of the stock against itself: nothing oversold, nothing twice, nothing lost (I1, I2, I5, I9). Pure."""

from collections import Counter

from loadtest.facts import Evidence, SkuFacts
from loadtest.outcome import Check


def nothing_oversold(evidence: Evidence) -> Check:
    """Sales, counted one by one, against each SKU's stock and allowance."""
    sold = Counter[str]()
    for sale in evidence.sales:
        if not sale.cancelled:
            sold[sale.sku] += sale.units
    faults = tuple(
        f"{facts.sku} sold {sold[facts.sku]:,} of {facts.total + facts.allowance:,}"
        for facts in evidence.skus
        if sold[facts.sku] > facts.total + facts.allowance
    )
    over = sum(max(0, sold[facts.sku] - facts.total - facts.allowance) for facts in evidence.skus)
    levels = "\n".join(f"{facts.sku} {sold[facts.sku]:,} of {facts.total:,}" for facts in evidence.skus)
    return Check("sold of total", levels, f"oversold {over:,}", faults)


def no_seat_twice(evidence: Evidence) -> Check:
    """No seat stands in two sales."""
    seats = Counter((sale.sku, seat) for sale in evidence.sales if not sale.cancelled for seat in sale.seats)
    faults = tuple(f"{sku} seat {seat} was sold {times} times" for (sku, seat), times in seats.items() if times > 1)
    return Check("seats sold twice", f"{len(faults):,}", "0", faults, note=f"{len(seats):,} seats sold")


def nothing_lost(evidence: Evidence) -> Check:
    """For each SKU: what holds and sales take, and what is free, make the stated total; the counters say the same."""
    faults = tuple(fault for facts in evidence.skus for fault in _differences(facts))
    lost = sum(abs(facts.total - facts.counted_total) for facts in evidence.skus)
    return Check("units lost", f"{lost:,}", "0", faults)


def units_came_back(evidence: Evidence) -> Check:
    """How many units were held, not bought, and free again. Shown; that they came back is what the audit proves."""
    units = sum(facts.units_recycled for facts in evidence.skus)
    return Check("units recycled", f"{units:,}", "", note="held, then expired or given back")


def audit_is_clean(evidence: Evidence) -> Check:
    """Counters against holds, sales and the ledger's replay, as the audit found them."""
    return Check("audit", f"{len(evidence.disagreements):,} disagreements", "0", evidence.disagreements)


def _differences(facts: SkuFacts) -> list[str]:
    pairs = [
        ("total", facts.counted_total, facts.total),
        ("held", facts.counted_held, facts.units_held),
        ("sold", facts.counted_sold, facts.units_sold),
    ]
    found = [
        f"{facts.sku} {name} is {counted:,}, its rows say {rows:,}" for name, counted, rows in pairs if counted != rows
    ]
    if facts.units_held + facts.units_sold > facts.total + facts.allowance:
        found.append(f"{facts.sku} has more held and sold than it has stock")
    return found
