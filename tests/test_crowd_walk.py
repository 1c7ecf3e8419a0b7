"""A shopper's own rules: what the public document tells about a turn, patience, and a mix that follows its seed."""

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from pydantic import ValidationError

from loadtest.foresight import seconds_to_opening, seconds_to_turn
from loadtest.progress import Tally
from loadtest.records import Admitted, Answered, Arrived, Ended, Joined, Record, Settled
from loadtest.road import Reply, Seen, repeat_until_decided
from loadtest.settings import CrowdSettings
from loadtest.walk import Shopper

STATUS = {
    "phase": "open",
    "opens_at": "2026-11-30T10:00:00.000Z",
    "rate_per_minute": 600,
    "serving": {
        "base": 100.0,
        "rate_per_minute": 600.0,
        "since": "2026-11-30T10:00:10.000Z",
        "valid_until": "2026-11-30T10:00:13.000Z",
        "called_max": 125,
    },
    "as_of": "2026-11-30T10:00:11.000Z",
}


def reply(status: int, **headers: str) -> Reply:
    return Reply(status, {}, headers)


class Stage:
    """A world that only plays back: the given answers one after the other, and no time passes."""

    def __init__(self, *answers: Reply) -> None:
        self.answers = list(answers)
        self.slept: list[float] = []

    def request(self, method: str, path: str, name: str, headers: Mapping[str, str], body: object = None) -> Reply:
        return self.answers.pop(0)

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    def together(self, first: Callable[[], None], second: Callable[[], None]) -> None:
        first()
        second()

    def status(self) -> Seen | None:
        return None

    def free_seats(self) -> list[str] | None:
        return None


@pytest.mark.parametrize(
    ("place", "age_seconds", "expected"),
    [
        (110, 0, 0.0),  # base 100, and one second at ten a second
        (111, 0, 0.1),
        (120, 1, 0.0),
        (125, 60, 0.0),
        (126, 60, 0.1),  # no further than called_max, however old the document is
        (135, 0, 2.5),
    ],
)
def test_the_public_document_tells_when_a_place_is_called(place: int, age_seconds: float, expected: float) -> None:
    assert seconds_to_turn(STATUS, age_seconds, place) == pytest.approx(expected)


def test_a_line_that_stands_still_promises_nothing() -> None:
    assert seconds_to_turn({**STATUS, "serving": None}, 0, 1) is None
    assert seconds_to_turn({**STATUS, "phase": "paused"}, 0, 500) is None
    assert seconds_to_turn({**STATUS, "phase": "paused"}, 0, 100) == 0.0


def test_the_opening_is_worked_out_from_the_servers_own_clock() -> None:
    early = {**STATUS, "as_of": "2026-11-30T09:59:50.000Z"}
    assert seconds_to_opening(early, 0) == 10.0
    assert seconds_to_opening(early, 4) == 6.0
    assert seconds_to_opening(STATUS, 0) == 0.0
    assert seconds_to_opening({**early, "opens_at": None}, 0) == 0.0


def test_what_is_not_decided_is_asked_again_with_patience() -> None:
    undecided = [reply(0), reply(502), reply(503, **{"retry-after": "3"}), reply(429), reply(500)]
    stage = Stage(*undecided, reply(201), reply(409))
    answer = repeat_until_decided(stage, lambda: stage.request("POST", "/", "", {}))
    assert (answer.status, len(stage.slept)) == (201, len(undecided))
    assert 2.4 <= stage.slept[2] <= 3.6
    assert max(stage.slept) <= 6


@pytest.mark.parametrize("said", ["never", "", "-5", "1e9", "nan"])
def test_a_strange_retry_after_is_no_reason_to_wait_for_ever(said: str) -> None:
    assert 0.1 <= reply(503, **{"retry-after": said}).retry_after_seconds() <= 6


def test_one_seed_gives_one_crowd_with_the_shares_asked_for() -> None:
    settings = CrowdSettings(shoppers=4000, seed=7)
    crowds = [[Shopper(number, settings, Stage(), lambda _: None) for number in range(4000)] for _ in range(2)]
    assert [(s.manner, s.arrives_after_seconds) for s in crowds[0]] == [
        (s.manner, s.arrives_after_seconds) for s in crowds[1]
    ]
    manners = Counter[str](shopper.manner for shopper in crowds[0])
    for manner, share in (("impatient", 0.20), ("abandoning", 0.12), ("late-payer", 0.04), ("patient", 0.64)):
        assert manners[manner] / 4000 == pytest.approx(share, abs=0.03)
    late = sum(shopper.arrives_after_seconds > settings.spike_seconds for shopper in crowds[0])
    assert late / 4000 == pytest.approx(settings.late_share, abs=0.03)


def test_shares_above_the_whole_are_refused() -> None:
    with pytest.raises(ValidationError, match="must not exceed 1 together"):
        CrowdSettings(impatient_share=0.6, abandoning_share=0.5)


def test_settings_reach_the_crowds_process_whole(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    settings = CrowdSettings(shoppers=3, seed=9, folder=tmp_path, late_share=0.5)
    for name, value in settings.environment().items():
        monkeypatch.setenv(name, value)
    assert CrowdSettings() == settings


def test_a_shopper_is_counted_once_at_each_step() -> None:
    tally = Tally(1)
    steps: list[Record] = [
        Arrived(shopper=1, manner="impatient"),
        Joined(shopper=1, ticket_id="t", entry=1, number=None),
        Joined(shopper=1, ticket_id="t", entry=1, number=None),
        Admitted(shopper=1, ticket_id="t", jti="j", expires_at=""),
        Admitted(shopper=1, ticket_id="t", jti="j", expires_at=""),
        Answered(shopper=1, key="k", sent=0, status=201, hold="h", fence=1, units=1),
        Answered(shopper=1, key="k", sent=0, status=201, hold="h", fence=1, units=1, replayed=True),
        Settled(shopper=1, hold="h", sent=0, status=200, outcome="paid", sale="s"),
        Ended(shopper=1, outcome="bought"),
    ]
    for step in steps:
        assert not tally.everybody_ended
        tally.count(step)
    assert tally.everybody_ended
    progress = tally.progress(1.5, errors=2)
    assert (progress.arrived, progress.joined, progress.admitted, progress.held, progress.sold) == (1, 1, 1, 1, 1)
    assert (progress.refused, progress.ended, progress.errors, progress.seconds) == (0, 1, 2, 1.5)
