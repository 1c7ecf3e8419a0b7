"""The simulation decides as the scripts do: the same calls and claims at the same moments get the same answers."""

import hashlib
import random

import pytest
import redis.asyncio as redis

from admission.arrivals import Cohort
from admission.line import TURN_KEYS, keys, stock_key
from admission.pacing import DOOR_MS_MIN, Pacing
from admission.recovery import settings_fields
from admission.room_settings import RoomSettings
from chassis.database import read_text
from loadtest.line_simulation import busiest_window
from loadtest.line_twin import Decision, LineTwin

START_MS = 1_700_000_000_000
CLOCK = "redis.call('TIME')"


class Scripts:
    """The scripts on a real server, whose clock is the test's."""

    def __init__(self, memory: "redis.Redis") -> None:
        self._memory = memory

    async def run(self, verb: str, now_ms: int, names: tuple[str, ...], *values: object) -> list[object]:
        before = ("opening", "turns") if verb == "claim" else ("opening",)
        text = "".join(read_text("admission", "lua", f"{name}.lua") for name in (*before, verb))
        assert text.count(CLOCK) == 1
        text = text.replace(CLOCK, "{ redis.call('GET', '{onsale}:s'), redis.call('GET', '{onsale}:us') }")
        await self._memory.mset({"{onsale}:s": now_ms // 1000, "{onsale}:us": now_ms % 1000 * 1000})
        answer: list[object] = await self._memory.eval(text, len(names), *names, "1", *map(str, values))
        return answer


async def begin(memory: "redis.Redis", room: RoomSettings) -> None:
    """The room as restore.lua leaves one that begins."""
    fields = settings_fields(room) | {
        "generation": "1", "term": "1", "base": "0.999", "called_max": "0", "since_ms": str(START_MS),
        "valid_until_ms": "0", "call_rate": "0", "clock_ms": "0", "over": "0", "passed_over": "0", "entries": "0",
        "bucket": str(max(1.0, room.rate_per_minute / 60)), "bucket_at_ms": str(START_MS), "numbers": "1000",
        "entries_closed": "1", "admitted": "0", "dormant": "0",
    }  # fmt: skip
    await memory.hset("{onsale}:line", mapping=fields)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(6))
async def test_scripts_and_simulation_decide_alike(redis_url: str, seed: int) -> None:
    chance = random.Random(seed)
    room = RoomSettings(
        method="fifo", rate_per_minute=chance.choice([30, 120, 900]), active_max=chance.choice([None, 5]),
        turn_seconds=5, grace_seconds=0, pass_seconds=20, renew=False, stock_latency_ms_max=None,
    )  # fmt: skip
    twin, pacing, now_ms, granted_ms = LineTwin(room, START_MS), Pacing(), START_MS, []
    async with redis.Redis.from_url(redis_url, decode_responses=True) as memory:
        await begin(memory, room)
        scripts = Scripts(memory)
        for _ in range(150):
            now_ms += chance.choice([0, 10, 137, 500, 900, 2_500])
            if chance.random() < 0.5:
                observed = twin.observe(now_ms, 1_000, pacing, None)
                names = (
                    "line",
                    "slots",
                    "claims",
                    "forget",
                    "extended",
                    "claimed",
                    "doubtful",
                    "lapsed",
                    "turns",
                    "pacing",
                )
                answer = await scripts.run(
                    "observe", now_ms, (*keys("onsale", 1, *names), stock_key("onsale")), DOOR_MS_MIN
                )
                assert float(str(answer[2])) == pytest.approx(observed.reached)
                assert (answer[3], answer[4]) == (observed.called, observed.active)
                assert float(str(answer[6])) == pytest.approx(observed.tokens)
                assert (answer[7], answer[10], answer[11]) == (observed.door, observed.over, observed.clock_ms)
                assert tuple(answer[22:]) == observed.shown
                segment, pacing = twin.control(now_ms, 1_000, pacing, None)
                await scripts.run(
                    "step", now_ms, keys("onsale", 1, "line", "calls", "ended", "pacing"), 1, segment.clock_ms,
                    pacing.encode(), "base", repr(segment.base), "since_ms", segment.since_ms, "valid_until_ms",
                    segment.valid_until_ms, "call_rate", repr(segment.call_rate), "called_max", segment.called_max,
                    "rate_per_minute", repr(segment.pace_per_minute),
                )  # fmt: skip
            for _ in range(chance.randint(0, 4)):
                place = chance.randint(max(1, twin.called(now_ms) - 12), twin.called(now_ms) + 2)
                answer = await scripts.run("claim", now_ms, keys("onsale", 1, *TURN_KEYS), ticket(place), place)
                decided = twin.claim(place, now_ms)
                assert words(answer) == words_of(decided), (place, now_ms)
                if decided.outcome == "granted":
                    granted_ms.append(now_ms)
    assert len(granted_ms) > 5
    assert busiest_window(granted_ms) <= room.rate_per_minute + max(1.0, room.rate_per_minute / 60)


def ticket(place: int) -> str:
    return hashlib.sha256(str(place).encode()).hexdigest()[:22]


def words(answer: list[object]) -> tuple[object, ...]:
    """What claim.lua said to the one ticket."""
    row = answer[1]
    assert isinstance(row, list)
    if row[0] == "wait":
        return ("wait", row[1])
    return ("again" if row[0] == "ended" else row[0],)


def words_of(decided: Decision) -> tuple[object, ...]:
    return ("wait", decided.reason) if decided.outcome == "wait" else (decided.outcome,)


def test_a_cohort_is_written_as_the_script_reads_it() -> None:
    assert '"cohorts":[[7,5,3]]' in Pacing(cohorts=(Cohort(7, 5, 3),)).encode()
