"""The controller under a virtual clock: arrivals meet the rate, whoever stays away; stock and back-pressure are heeded."""

import random
from dataclasses import replace

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from admission.calling import Calling, Observed, plan_segment
from admission.pacing import HALVED_MS_MIN, Pacing, pace_per_minute, throttle
from admission.room_settings import RoomSettings
from admission.stock_signal import StockSignal
from loadtest.line_simulation import Crowd, busiest_window, simulate
from loadtest.line_twin import LineTwin

NOW_MS = 1_000_000_000
OBSERVED = Observed(
    now_ms=NOW_MS,
    reached=100.5,
    called=100,
    active=0,
    entries=0,
    numbers=1_000,
    over=100,
    clock_ms=50_000,
    stepped_ms=NOW_MS - 500,
    entries_closed=True,
)


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("rate", [60, 120, 600])
def test_arrivals_meet_the_rate_when_three_in_ten_stay_away(rate: int, seed: int) -> None:
    sale = simulate(RoomSettings(rate_per_minute=rate), Crowd(no_shows=0.3), minutes=10, seed=seed)
    assert sale.rate_error < 0.03
    assert sale.within_bounds


@pytest.mark.parametrize("seed", [1, 2])
def test_with_nine_of_ten_heads_gone_admissions_fall_by_less_than_a_twentieth(seed: int) -> None:
    crowd = Crowd(no_shows=0.1, heads=20_000, heads_gone=0.9)
    sale = simulate(RoomSettings(rate_per_minute=600), crowd, minutes=10, seed=seed)
    assert sale.rate_error < 0.05
    assert sale.within_bounds


def test_nobody_waits_at_the_door_for_longer_than_a_turn_when_those_who_were_gone_return() -> None:
    """The line is called ten times as fast as people come; then everybody comes. The bucket holds, and the line waits."""
    crowd = Crowd(no_shows=0.0, heads=10_000, heads_gone=0.9)
    sale = simulate(RoomSettings(rate_per_minute=600, turn_seconds=120), crowd, minutes=6, seed=1)
    assert sale.within_bounds
    assert sale.door_max < 600 * 2


@pytest.mark.parametrize("no_shows", [0.0, 0.9])
def test_a_cap_is_exact_and_fills_up_whoever_stays_away(no_shows: float) -> None:
    room = RoomSettings(rate_per_minute=600, active_max=300)
    sale = simulate(room, Crowd(no_shows=no_shows, shopping_seconds=60), minutes=8, seed=1)
    assert 270 < sale.active_max <= 300
    assert sale.within_bounds
    # A slot that is left is used again: 300 slots for a minute each, but for the time that whoever is called takes.
    assert len(sale.admissions_ms) > 8 * 300 * 0.8


@settings(max_examples=60, deadline=None)
@given(
    rate=st.integers(1, 6_000),
    cap=st.none() | st.integers(1, 30),
    seed=st.integers(0, 2**32),
    moves=st.lists(st.tuples(st.integers(0, 30_000), st.integers(1, 40)), min_size=1, max_size=80),
)
def test_no_claimants_however_timed_pass_the_rate_or_the_cap(
    rate: int, cap: int | None, seed: int, moves: list[tuple[int, int]]
) -> None:
    """I7 with k claimants at any moments: bursts, silences and controllers that come late."""
    chance = random.Random(seed)
    room = RoomSettings(rate_per_minute=rate, active_max=cap, turn_seconds=5, pass_seconds=60)
    line, pacing, now_ms = LineTwin(room, NOW_MS), Pacing(), NOW_MS
    admitted_ms: list[int] = []
    for pause_ms, claimants in moves:
        now_ms += pause_ms
        if chance.random() < 0.8:
            _, pacing = line.control(now_ms, 10_000, pacing, None)
        for _ in range(claimants):
            called = line.called(now_ms)
            place = chance.randint(max(1, called - 60), called + 3)
            decision = line.claim(place, now_ms)
            if decision.outcome == "granted":
                assert place <= called, "nobody is admitted before their turn"
                admitted_ms.append(now_ms)
            assert cap is None or len(line.slots) <= cap
    assert busiest_window(admitted_ms) <= rate + max(1.0, rate / 60)


def stock(free: int, held: int, age_seconds: float = 0.5, **load: float) -> StockSignal:
    return StockSignal(free, held, age_seconds, **load)


@pytest.mark.parametrize(
    ("signal", "active", "calling"),
    [
        (None, 50, "running"),
        (stock(0, 0, 5.1), 50, "running"),
        (stock(0, 0), 50, "sold-out"),
        (stock(0, 3), 50, "all-held"),
        (stock(10, 0), 50, "taken"),
        (stock(50, 0), 50, "taken"),
        (stock(60, 0), 50, "running"),
        (stock(10, 45), 50, "running"),
    ],
)
def test_the_line_stops_for_stock_that_is_surely_gone_and_says_which(
    signal: StockSignal | None, active: int, calling: Calling
) -> None:
    segment, _ = plan_segment(
        replace(OBSERVED, stock=signal, active=active), RoomSettings(rate_per_minute=600), 1_000, Pacing()
    )
    assert segment.calling == calling
    assert (segment.called_max > OBSERVED.called) is (calling == "running")


def test_no_more_are_called_than_free_units_are_left_to_take() -> None:
    segment, _ = plan_segment(
        replace(OBSERVED, stock=stock(12, 0), active=5, door=3), RoomSettings(rate_per_minute=60_000), 1_000, Pacing()
    )
    assert segment.called_max == OBSERVED.called + 4


def test_an_overloaded_stock_halves_the_rate_every_few_seconds_and_gets_it_back_bit_by_bit() -> None:
    room = RoomSettings(rate_per_minute=600, rate_min_per_minute=100, stock_latency_ms_max=200)
    slow, full = stock(9, 0, latency_ms=201), stock(9, 0, queue_share=0.9)
    pacing = Pacing()
    paces = []
    for step in range(40):
        pacing = throttle(pacing, room, slow if step % 2 else full, NOW_MS + step * 500, 500)
        paces.append(pace_per_minute(pacing, room))
    assert paces[0] == 300
    assert paces[HALVED_MS_MIN // 500 - 1] == 300
    assert paces[HALVED_MS_MIN // 500] == 150
    assert paces[-1] == 100, "the operator's least rate stands"
    pacing = throttle(pacing, room, stock(9, 0, latency_ms=199), NOW_MS + 60_000, 1_000)
    assert pace_per_minute(pacing, room) == pytest.approx(100 + 0.03 * 600)
    for step in range(60):
        pacing = throttle(pacing, room, None, NOW_MS + 61_000 + step * 1_000, 1_000)
    assert pace_per_minute(pacing, room) == 600, "the operator's rate stands, and a stock that is silent slows nobody"


def test_without_a_limit_on_latency_there_is_no_back_pressure() -> None:
    room = RoomSettings(rate_per_minute=600, stock_latency_ms_max=None)
    slow = throttle(Pacing(throttle=0.2), room, stock(9, 0, latency_ms=9_999, queue_share=1), NOW_MS, 500)
    assert pace_per_minute(slow, room) == 600


def test_what_a_leader_knows_of_no_shows_outlives_it() -> None:
    line, pacing = LineTwin(RoomSettings(rate_per_minute=600, turn_seconds=60), NOW_MS), Pacing()
    for step in range(120):
        _, pacing = line.control(NOW_MS + step * 500, 10_000, pacing, None)
    assert Pacing.decode(pacing.encode()) == pacing
    lasting = Pacing.decode(pacing.lasting().encode())
    assert (lasting.profile, lasting.cohorts) == (pacing.profile, ())
    assert len(pacing.encode()) < 4_000, "small enough to be written twice a second"


@given(st.integers(0, 3_600_000), st.integers(1, 400))
@settings(max_examples=30, deadline=None)
def test_cohorts_stay_few_however_long_a_turn_is(step_ms: int, steps: int) -> None:
    pacing, over, clock_ms = Pacing(), 0, 0
    for step in range(steps):
        before_ms, clock_ms = clock_ms, clock_ms + max(1, step_ms // steps)
        observed = replace(OBSERVED, called=10 * step, over=over, clock_ms=before_ms, shown=(0,) * len(pacing.cohorts))
        _, pacing = plan_segment(observed, RoomSettings(turn_seconds=3_600), 10**6, pacing)
        assert len(pacing.cohorts) < 100
        assert [cohort.called for cohort in pacing.cohorts] == sorted({cohort.called for cohort in pacing.cohorts})
    assert msgspec.json.decode(pacing.encode(), type=Pacing) == pacing
