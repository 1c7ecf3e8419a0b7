"""The crowd's process: it ends by itself, when told to and when its sender dies, and leaves nothing behind."""

import asyncio
import os
import socket
import sys
from pathlib import Path

import psutil
import pytest

from loadtest import crowd as crowd_module
from loadtest.crowd import Crowd, CrowdError
from loadtest.records import Arrived, read_records
from loadtest.settings import CrowdSettings

SEND_A_CROWD = """
import asyncio, sys
from pathlib import Path
from loadtest.crowd import Crowd
from loadtest.settings import CrowdSettings

async def main() -> None:
    crowd = Crowd(CrowdSettings(shoppers=3, spike_seconds=0, folder=Path(sys.argv[1])), sys.argv[2])
    await crowd.start()
    while crowd.progress().arrived == 0:
        await asyncio.sleep(0.05)
    print("walking", flush=True)
    await crowd.wait()

asyncio.run(main())
"""


@pytest.fixture
def nobody() -> str:
    """An origin at which nothing listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{taken.getsockname()[1]}"


async def test_a_crowd_that_is_stopped_leaves_no_process(tmp_path: Path, nobody: str) -> None:
    crowd = Crowd(CrowdSettings(shoppers=3, spike_seconds=0, late_share=0, folder=tmp_path), nobody)
    assert crowd.progress().arrived == 0
    await crowd.start()
    while crowd.progress().arrived < 3:
        await asyncio.sleep(0.05)
    assert locusts(tmp_path)
    await crowd.stop()
    await crowd.stop()
    assert not locusts(tmp_path)
    assert sum(isinstance(record, Arrived) for record in read_records(tmp_path)) == 3


async def test_a_crowd_ends_by_itself_when_its_time_is_up(tmp_path: Path, nobody: str) -> None:
    crowd = Crowd(CrowdSettings(shoppers=2, spike_seconds=0, seconds_max=1, folder=tmp_path), nobody)
    await crowd.start()
    assert await crowd.wait() == 0
    assert not locusts(tmp_path)


async def test_a_crowd_does_not_outlive_a_sender_that_is_killed(tmp_path: Path, nobody: str) -> None:
    sender = await asyncio.create_subprocess_exec(
        sys.executable, "-c", SEND_A_CROWD, str(tmp_path), nobody, stdout=asyncio.subprocess.PIPE
    )
    assert sender.stdout is not None
    assert await sender.stdout.readline() == b"walking\n"
    assert locusts(tmp_path)
    sender.kill()
    await sender.wait()
    while locusts(tmp_path):
        await asyncio.sleep(0.05)


async def test_a_folder_that_cannot_be_written_is_one_clear_sentence(tmp_path: Path, nobody: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(CrowdError, match=r"file/crowd cannot be written"):
        await Crowd(CrowdSettings(folder=tmp_path / "file" / "crowd"), nobody).start()


async def test_a_missing_locust_is_one_clear_sentence(
    tmp_path: Path, nobody: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crowd_module, "find_spec", lambda _name: None)
    with pytest.raises(CrowdError, match=r"fairgate\[loadtest\]"):
        await Crowd(CrowdSettings(folder=tmp_path), nobody).start()


def locusts(folder: Path) -> list[int]:
    """The processes that walk for the crowd in `folder`."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("FAIRGATE_CROWD_FOLDER") == str(folder) and process.status() != "zombie":
                found.append(process.pid)
        except psutil.Error:
            continue
    return [pid for pid in found if pid != os.getpid()]
