"""The verdict passes an honest run and catches each way of breaking a promise: logs and levels broken on purpose."""

import io
from dataclasses import replace
from datetime import UTC, datetime

from rich.console import Console

from loadtest.facts import Admission, Evidence, RateSpan, SkuFacts, SoldUnits
from loadtest.line_checks import admissions_max
from loadtest.records import Admitted, Answered, Ended, Joined, Placed, Record, Settled
from loadtest.render import render
from loadtest.verdict import Verdict, VerdictSettings, judge, percentile

OPENED = 1_800_000_000.0
GENERAL = SkuFacts(
    sku="general-admission", kind="fungible", total=10, allowance=0, counted_total=10,
    counted_held=1, counted_sold=2, units_held=1, units_sold=2, units_recycled=3,
)  # fmt: skip
HALL = SkuFacts(
    sku="hall", kind="seated", total=4, allowance=0, counted_total=4,
    counted_held=0, counted_sold=2, units_held=0, units_sold=2, units_recycled=0,
)  # fmt: skip
EVIDENCE = Evidence(
    skus=(GENERAL, HALL),
    sales=(
        SoldUnits("sale-1", "hold-1", "general-admission", 2, (), False),
        SoldUnits("sale-2", "hold-2", "hall", 2, ("A-1", "A-2"), False),
    ),
    disagreements=(),
    admissions=tuple(Admission(f"ticket-{second}", f"jti-{second}", int(OPENED) + second) for second in range(10)),
    rates=(RateSpan(OPENED, 60.0),),
)


def answered(key: str, hold: str, mono: float, **more: object) -> Answered:
    fields = {"units": 2, "fence": 1, "status": 201, "sent": mono - 0.01, **more}
    return Answered(shopper=1, at=OPENED + mono, mono=mono, key=key, hold=hold, **fields)  # type: ignore[arg-type]


def paid(hold: str, sale: str, mono: float) -> Settled:
    return Settled(
        shopper=1, at=OPENED + mono, mono=mono, hold=hold, sale=sale, sent=mono - 0.1, status=200, outcome="paid"
    )


RECORDS: list[Record] = [
    Joined(shopper=1, mono=0.1, ticket_id="t1", entry=None, number=7),
    Placed(shopper=1, mono=0.2, ticket_id="t1", state="waiting", place=7),
    Placed(shopper=1, mono=0.3, ticket_id="t1", state="waiting", place=5),
    Admitted(shopper=1, mono=0.9, ticket_id="t1", jti="jti-1", expires_at="2027-01-15T08:00:00.000Z"),
    answered("key-1", "hold-1", 1.0),
    answered("key-1", "hold-1", 1.2, replayed=True),
    answered("key-2", "hold-2", 1.3, seats=("A-1", "A-2")),
    answered("key-3", "", 1.4, status=409, code="sold-out", units=0, fence=0),
    paid("hold-1", "sale-1", 2.0),
    paid("hold-2", "sale-2", 2.1),
    Ended(shopper=1, mono=3.0, outcome="bought"),
]


def verdict_on(evidence: Evidence = EVIDENCE, records: list[Record] = RECORDS) -> Verdict:
    return judge(evidence, records, VerdictSettings(shoppers=1))


def broken(verdict: Verdict) -> set[str]:
    return {check.name for check in verdict.rows if not check.ok}


def with_sku(facts: SkuFacts) -> Evidence:
    return replace(EVIDENCE, skus=tuple(facts if old.sku == facts.sku else old for old in EVIDENCE.skus))


def test_an_honest_run_passes() -> None:
    verdict = verdict_on()
    assert verdict.ok, broken(verdict)


def test_one_unit_too_many_is_caught() -> None:
    more = SoldUnits("sale-3", "hold-3", "general-admission", 9, (), False)
    verdict = verdict_on(replace(EVIDENCE, sales=(*EVIDENCE.sales, more)))
    assert "sold of total" in broken(verdict)


def test_an_allowance_is_no_oversell_and_one_above_it_is() -> None:
    facts = replace(GENERAL, allowance=1, counted_sold=11, units_sold=11, counted_held=0, units_held=0)
    sales = (replace(EVIDENCE.sales[0], units=2), EVIDENCE.sales[1])
    within = replace(with_sku(facts), sales=(*sales, SoldUnits("s", "h", "general-admission", 9, (), False)))
    assert verdict_on(within).ok
    beyond = replace(with_sku(facts), sales=(*sales, SoldUnits("s", "h", "general-admission", 10, (), False)))
    assert "sold of total" in broken(verdict_on(beyond))


def test_a_seat_sold_twice_is_caught() -> None:
    twice = SoldUnits("sale-3", "hold-3", "hall", 1, ("A-2",), False)
    assert "seats sold twice" in broken(verdict_on(replace(EVIDENCE, sales=(*EVIDENCE.sales, twice))))


def test_a_cancelled_sale_frees_its_seat() -> None:
    cancelled = SoldUnits("sale-3", "hold-3", "hall", 1, ("A-2",), True)
    assert verdict_on(replace(EVIDENCE, sales=(*EVIDENCE.sales, cancelled))).ok


def test_an_answer_that_changed_on_replay_is_caught() -> None:
    for changed in (answered("key-1", "hold-9", 1.5), answered("key-1", "hold-1", 1.5, fence=2)):
        assert "keys with two effects" in broken(verdict_on(records=[*RECORDS, changed]))


def test_a_refusal_after_the_key_had_its_hold_is_caught_and_one_that_raced_it_is_not() -> None:
    after = answered("key-1", "", 1.5, status=409, code="sold-out", units=0)
    assert "keys with two effects" in broken(verdict_on(records=[*RECORDS, after]))
    racing = answered("key-1", "", 1.5, status=409, code="sold-out", units=0, sent=0.95)
    assert verdict_on(records=[*RECORDS, racing]).ok


def test_one_hold_given_to_two_keys_is_caught() -> None:
    assert "keys with two effects" in broken(verdict_on(records=[*RECORDS, answered("key-9", "hold-1", 1.5)]))


def test_a_lost_sale_is_caught() -> None:
    assert "sales promised and kept" in broken(verdict_on(replace(EVIDENCE, sales=EVIDENCE.sales[:1])))
    cancelled = (EVIDENCE.sales[0], replace(EVIDENCE.sales[1], cancelled=True))
    assert "sales promised and kept" in broken(verdict_on(replace(EVIDENCE, sales=cancelled)))


def test_a_sale_of_fewer_units_than_were_held_is_caught() -> None:
    fewer = (replace(EVIDENCE.sales[0], units=1), EVIDENCE.sales[1])
    assert "sales promised and kept" in broken(verdict_on(replace(EVIDENCE, sales=fewer)))


def test_a_hold_sold_to_somebody_whose_card_was_declined_is_caught() -> None:
    declined = Settled(shopper=1, hold="hold-1", sent=1.9, status=200, outcome="declined")
    assert "sales promised and kept" in broken(verdict_on(records=[*RECORDS, declined]))


def test_lost_units_and_drift_are_caught() -> None:
    for facts in (
        replace(GENERAL, counted_total=9),
        replace(GENERAL, counted_held=2),
        replace(GENERAL, counted_sold=1),
        replace(GENERAL, counted_held=9, units_held=9),
    ):
        assert "units lost" in broken(verdict_on(with_sku(facts)))


def test_a_disagreement_of_the_audit_is_caught() -> None:
    assert broken(verdict_on(replace(EVIDENCE, disagreements=("shard 3: ledger 4, counter 5",)))) == {"audit"}


def test_an_admission_before_the_opening_is_caught() -> None:
    early = Admission("ticket-x", "jti-x", int(OPENED) - 1)
    found = broken(verdict_on(replace(EVIDENCE, admissions=(early, *EVIDENCE.admissions))))
    assert "admitted before the opening" in found


def test_one_admission_above_the_rate_is_caught() -> None:
    """60 a minute: in the first three seconds three, and one more for the bucket."""
    seconds = [0, 1, 1, 2]
    admissions = tuple(Admission(f"t{n}", f"j{n}", int(OPENED) + second) for n, second in enumerate(seconds))
    assert verdict_on(replace(EVIDENCE, admissions=admissions)).ok
    more = (*admissions, Admission("t9", "j9", int(OPENED) + 2))
    assert "admitted in the worst 60 s" in broken(verdict_on(replace(EVIDENCE, admissions=more)))


def test_a_burst_late_in_the_sale_is_judged_by_its_own_minute() -> None:
    calm = [int(OPENED) + second for second in range(600)]
    burst = [int(OPENED) + 700 + second for second in range(60) for _ in range(2)]
    admissions = tuple(Admission(f"t{n}", f"j{n}", second) for n, second in enumerate(calm + burst))
    assert "admitted in the worst 60 s" in broken(verdict_on(replace(EVIDENCE, admissions=admissions)))


def test_the_bound_follows_a_rate_that_changed() -> None:
    rates = (RateSpan(0.0, 60.0), RateSpan(100.0, 600.0))
    assert admissions_max(rates, 0, 60) == 61
    assert admissions_max(rates, 70, 130) == 30 + 300 + 10
    assert admissions_max(rates, 130, 190) == 610
    assert admissions_max((RateSpan(100.0, 30.0),), 0, 60) == 0
    assert admissions_max((), 0, 60) == 0


def test_a_place_that_rose_is_caught_and_one_that_fell_is_not() -> None:
    rose = Placed(shopper=1, mono=0.4, ticket_id="t1", state="waiting", place=6)
    assert "places that rose" in broken(verdict_on(records=[*RECORDS[:3], rose, *RECORDS[3:]]))


def test_a_second_pass_for_one_ticket_is_caught_and_the_same_one_again_is_not() -> None:
    ends = "2027-01-15T08:00:00.000Z"
    for renewed in (ends, "2027-01-15T08:00:01.000Z"):
        again = Admitted(shopper=1, mono=1.0, ticket_id="t1", jti="jti-1", expires_at=renewed)
        assert verdict_on(records=[*RECORDS, again]).ok
    for jti, end in (("jti-2", ends), ("jti-1", "2027-01-15T07:59:59.000Z")):
        other = Admitted(shopper=1, mono=1.0, ticket_id="t1", jti=jti, expires_at=end)
        assert broken(verdict_on(records=[*RECORDS, other])) == {"tickets with two passes"}


def test_a_hold_ended_before_its_deadline_is_caught() -> None:
    deadline = datetime.fromtimestamp(OPENED + 30, UTC).isoformat()
    held = answered("key-4", "hold-4", 1.0, expires_at=deadline)
    refused = Settled(
        shopper=1, hold="hold-4", at=OPENED + 20, mono=20, sent=19.9, status=409, outcome="refused", code="hold-expired"
    )
    assert "holds ended early" in broken(verdict_on(records=[*RECORDS, held, refused]))
    late = Settled(
        shopper=1, hold="hold-4", at=OPENED + 31, mono=31, sent=30.9, status=409, outcome="refused", code="hold-expired"
    )
    assert verdict_on(records=[*RECORDS, held, late]).ok


def test_a_crowd_that_did_not_walk_proves_nothing() -> None:
    verdict = judge(EVIDENCE, RECORDS, VerdictSettings(shoppers=2))
    assert broken(verdict) == {"shoppers at the end of their road"}
    assert judge(EVIDENCE, RECORDS, VerdictSettings()).ok


def test_percentiles_are_nearest_rank() -> None:
    hundred = [float(number) for number in range(1, 101)]
    assert (percentile(hundred, 50), percentile(hundred, 99), percentile(hundred, 100)) == (50, 99, 100)
    assert percentile([7.0], 1) == 7.0


def test_the_table_names_what_broke() -> None:
    console = Console(width=160, record=True, file=io.StringIO())
    console.print(render(verdict_on(replace(EVIDENCE, disagreements=("shard 3: [ledger] 4, counter 5",)))))
    text = console.export_text()
    assert "a promise was broken" in text
    assert "shard 3: [ledger] 4, counter 5" in text
    console.print(render(verdict_on()))
    assert "every promise was kept" in console.export_text()
