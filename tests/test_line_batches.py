"""Natural batches: one call for what queued while the last was under way, in order, bounded, and no wait when idle."""

import asyncio
from collections.abc import Sequence

import pytest

from admission.batches import SOON_SECONDS, Batches
from chassis.problems import Problem


class Gate:
    """Answers each question with itself once it is told to, and notes what came in one call."""

    def __init__(self) -> None:
        self.calls: list[list[int]] = []
        self.opened = asyncio.Event()
        self.broken: Exception | None = None

    async def send(self, _whom: str, questions: Sequence[int]) -> Sequence[int]:
        self.calls.append(list(questions))
        await self.opened.wait()
        if self.broken is not None:
            raise self.broken
        return list(questions)


async def until_called(gate: Gate, times: int) -> None:
    async with asyncio.timeout(10):
        while len(gate.calls) < times:
            await asyncio.sleep(0)


async def test_what_queues_while_a_call_is_under_way_goes_out_as_one_call_in_order() -> None:
    gate = Gate()
    batches: Batches[str, int, int] = Batches(gate.send, batch_max=5)
    first = asyncio.create_task(batches.ask("onsale", 0))
    await until_called(gate, 1)
    others = [asyncio.create_task(batches.ask("onsale", number)) for number in range(1, 9)]
    await asyncio.sleep(0)
    gate.opened.set()
    assert await asyncio.gather(first, *others) == list(range(9))
    assert gate.calls == [[0], [1, 2, 3, 4, 5], [6, 7, 8]]


async def test_rooms_do_not_wait_for_each_other() -> None:
    gate = Gate()
    batches: Batches[str, int, int] = Batches(gate.send)
    asked = [asyncio.create_task(batches.ask(room, 1)) for room in ("onsale", "presale")]
    await until_called(gate, 2)
    gate.opened.set()
    await asyncio.gather(*asked)


async def test_a_full_queue_is_busy_and_empties_again() -> None:
    gate = Gate()
    batches: Batches[str, int, int] = Batches(gate.send, queue_max=2)
    asked = [asyncio.create_task(batches.ask("onsale", number)) for number in range(2)]
    await until_called(gate, 1)
    with pytest.raises(Problem) as refused:
        await batches.ask("onsale", 3)
    assert refused.value.code == "busy"
    assert int(refused.value.headers["Retry-After"]) in SOON_SECONDS
    gate.opened.set()
    await asyncio.gather(*asked)
    assert await batches.ask("onsale", 4) == 4


async def test_a_call_that_fails_fails_its_own_batch_only() -> None:
    gate = Gate()
    batches: Batches[str, int, int] = Batches(gate.send)
    gate.broken = Problem("busy", "away")
    gate.opened.set()
    failed = await asyncio.gather(*(batches.ask("onsale", number) for number in range(3)), return_exceptions=True)
    assert [type(error) for error in failed] == [Problem] * 3
    gate.broken = None
    assert await batches.ask("onsale", 4) == 4


async def test_whoever_goes_away_leaves_the_others_their_answers() -> None:
    gate = Gate()
    batches: Batches[str, int, int] = Batches(gate.send)
    leaver, stayer = (asyncio.create_task(batches.ask("onsale", number)) for number in range(2))
    await until_called(gate, 1)
    leaver.cancel()
    gate.opened.set()
    assert await stayer == 1
