"""Checks of what shoppers were promised: one key one effect, holds kept, sales kept (I3, I4, I5). Pure."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime

from loadtest.facts import Evidence
from loadtest.outcome import Check
from loadtest.records import Answered, Record, Settled

# The shoppers' clock and the database's are one on the machine that runs both; between two machines they may differ.
CLOCK_SKEW_SECONDS = 0.5
# What is answered to a key only when it has had no effect.
NO_EFFECT = frozenset({"sold-out", "insufficient-stock", "seat-taken", "buyer-limit", "not-on-sale", "key-reused"})


def sales_kept(evidence: Evidence, records: Sequence[Record]) -> Check:
    """Each sale that a shopper was told of exists, for that shopper's hold and all of its units; each hold once."""
    units: dict[tuple[str, str], int] = defaultdict(int)
    for sold in evidence.sales:
        if not sold.cancelled:
            units[sold.sale, sold.hold] += sold.units
    holds_sold = {hold for _, hold in units}
    promised = {record.hold: record for record in records if isinstance(record, Answered) and record.hold}
    settled = [record for record in records if isinstance(record, Settled)]
    told = {(record.sale, record.hold) for record in settled if record.outcome == "paid"}
    faults = [f"sale {sale} of hold {hold} is not there" for sale, hold in told if (sale, hold) not in units]
    for sale, hold in told & units.keys():
        wanted = promised.get(hold)
        if wanted is not None and wanted.units != units[sale, hold]:
            faults.append(f"sale {sale} has {units[sale, hold]:,} units, its hold had {wanted.units:,}")
    faults += [
        f"hold {record.hold} was {record.outcome} to its buyer, but it is sold"
        for record in settled
        if record.outcome in ("declined", "cancelled", "refunded") and record.hold in holds_sold
    ]
    return Check("sales promised and kept", f"{len(told) - len(faults):,} of {len(told):,}", "all", tuple(faults))


def keys_have_one_effect(records: Sequence[Record]) -> Check:
    """All answers to one key name one hold with one fence; once it was told, no later call was refused for stock."""
    answers: dict[str, list[Answered]] = defaultdict(list)
    for record in records:
        if isinstance(record, Answered) and record.status:
            answers[record.key].append(record)
    faults = []
    keys_of_hold: dict[str, set[str]] = defaultdict(set)
    for key, given in answers.items():
        effects = {(answer.hold, answer.fence, answer.units, answer.seats) for answer in given if answer.hold}
        if len(effects) > 1:
            faults.append(f"key {key} was answered with {len(effects)} different holds")
        told = min((answer.mono for answer in given if answer.hold), default=float("inf"))
        faults += [
            f"key {key} was refused as {answer.code} after it had its hold"
            for answer in given
            if answer.sent > told and answer.code in NO_EFFECT
        ]
        for hold, *_ in effects:
            keys_of_hold[hold].add(key)
    faults += [f"hold {hold} was given to {len(keys)} keys" for hold, keys in keys_of_hold.items() if len(keys) > 1]
    repeated = sum(len(given) > 1 for given in answers.values())
    return Check(
        "keys with two effects", f"{len(faults):,}", "0", tuple(faults), note=f"{repeated:,} keys were repeated"
    )


def holds_kept_until_deadline(records: Sequence[Record]) -> Check:
    """No payment was refused as too late before the deadline that the hold's answer had named."""
    deadlines = {
        record.hold: datetime.fromisoformat(record.expires_at).timestamp()
        for record in records
        if isinstance(record, Answered) and record.hold and record.expires_at
    }
    faults = tuple(
        f"hold {record.hold} was {record.code} {deadlines[record.hold] - record.at:.1f} s before its deadline"
        for record in records
        if isinstance(record, Settled)
        and record.code == "hold-expired"
        and record.at + CLOCK_SKEW_SECONDS < deadlines.get(record.hold, 0)
    )
    return Check("holds ended early", f"{len(faults):,}", "0", faults, note=f"{len(deadlines):,} holds watched")
