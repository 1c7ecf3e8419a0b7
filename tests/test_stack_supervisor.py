"""The supervisor's promises, with small children: restarts, last words, whole groups gone, output kept and bounded."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import psutil
import pytest

from fairgate.stack import logs
from fairgate.stack.errors import StackError
from fairgate.stack.supervisor import Service, Supervisor
from tests.servers import until


def script(name: str, code: str) -> Service:
    return Service(name, (sys.executable, "-c", code))


def waits_for(text: str, log: Path) -> Service:
    async def said() -> bool:
        return text in log.read_text()

    code = f"import signal; print({text!r}, flush=True); signal.pause()"
    return Service("child", (sys.executable, "-c", code), ready=said)


async def test_a_child_is_started_once_ready_and_restarted_when_it_dies(tmp_path: Path) -> None:
    reports: list[str] = []
    async with Supervisor(tmp_path / "log", reports.append) as supervisor:
        await supervisor.start(waits_for("hello", supervisor.log_file("child")))
        for count in (1, 2):
            os.kill(supervisor.process_id("child"), signal.SIGKILL)

            async def back(count: int = count) -> bool:
                return supervisor.restarts("child") == count and psutil.pid_exists(supervisor.process_id("child"))

            await until(back)
        last = supervisor.process_id("child")
    assert not psutil.pid_exists(last)
    assert reports == ["child ended with SIGKILL; starting it again."] * 2


async def test_a_child_that_does_not_come_up_says_its_last_words(tmp_path: Path) -> None:
    failing = script("shop", "import sys; print('noise'); sys.exit('Error: no bread')")
    async with Supervisor(tmp_path / "log") as supervisor:
        never = Service("shop", failing.argv, ready=lambda: asyncio.sleep(0, False))
        with pytest.raises(StackError, match=r"shop stopped at once \(see .*shop.log\): Error: no bread"):
            await supervisor.start(never)
        with pytest.raises(StackError, match=r"shop failed with exit code 1 .*Error: no bread"):
            await supervisor.run(failing)
        with pytest.raises(KeyError):
            supervisor.process_id("shop")


async def test_a_child_deaf_to_its_signals_is_killed_with_its_own_children(tmp_path: Path) -> None:
    code = (
        "import signal, subprocess, sys\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import signal; signal.pause()'])\n"
        "print(child.pid, flush=True)\n"
        "signal.pause()"
    )
    async with Supervisor(tmp_path / "log") as supervisor:
        log = supervisor.log_file("deaf")

        async def said() -> bool:
            return log.read_text().endswith("\n")

        await supervisor.start(
            Service("deaf", (sys.executable, "-c", code), ready=said, stops=((signal.SIGTERM, 0.1),))
        )
        grandchild = int(log.read_text())
        assert psutil.pid_exists(grandchild)

    async def gone() -> bool:
        return not psutil.pid_exists(grandchild) or psutil.Process(grandchild).status() == psutil.STATUS_ZOMBIE

    await until(gone)


async def test_a_dead_childs_children_do_not_outlive_it(tmp_path: Path) -> None:
    code = (
        "import signal, subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import signal; signal.pause()'])\n"
        "print(child.pid, flush=True)\n"
        "signal.pause()"
    )
    async with Supervisor(tmp_path / "log") as supervisor:
        log = supervisor.log_file("parent")

        async def said() -> bool:
            return log.read_text().endswith("\n")

        await supervisor.start(Service("parent", (sys.executable, "-c", code), ready=said))
        grandchild = int(log.read_text())
        os.kill(supervisor.process_id("parent"), signal.SIGKILL)

        async def gone() -> bool:
            return not psutil.pid_exists(grandchild) or psutil.Process(grandchild).status() == psutil.STATUS_ZOMBIE

        await until(gone)


async def test_children_stop_in_reverse_order(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    code = (
        "import signal, sys\n"
        "def end(*_):\n"
        "    open(sys.argv[1], 'a').write(sys.argv[2])\n"
        "    sys.exit()\n"
        "signal.signal(signal.SIGTERM, end)\n"
        "print('up', flush=True)\n"
        "while True: signal.pause()"
    )
    async with Supervisor(tmp_path / "log") as supervisor:
        for name in ("a", "b", "c"):
            log = supervisor.log_file(name)

            async def up(log: Path = log) -> bool:
                return "up" in log.read_text()

            await supervisor.start(Service(name, (sys.executable, "-c", code, str(trace), name), ready=up))
    assert trace.read_text() == "cba"


def test_output_is_kept_for_one_run_more_and_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "shop.log"
    logs.bound(log)
    log.write_text("first\n")
    logs.fresh_log(log)
    assert (log.read_text(), (tmp_path / "shop.log.1").read_text()) == ("", "first\n")
    monkeypatch.setattr(logs, "LOG_BYTES_MAX", 10)
    with log.open("a") as writer:
        writer.write("longer than ten\n")
        writer.flush()
        logs.bound(log)
        writer.write("next\n")
    assert (log.read_text(), (tmp_path / "shop.log.1").read_text()) == ("next\n", "longer than ten\n")
    assert logs.last_words(log) == "next"
    assert logs.last_words(tmp_path / "absent.log") == ""


async def test_a_start_cancelled_twice_leaves_no_process(tmp_path: Path) -> None:
    """The second cancellation falls into the stop of the first: the child must be gone all the same."""
    code = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); signal.pause()"
    async with Supervisor(tmp_path / "log") as supervisor:
        never = Service("child", (sys.executable, "-c", code), ready=lambda: asyncio.sleep(0, False))
        starting = asyncio.create_task(supervisor.start(never))

        async def deaf() -> bool:
            log = supervisor.log_file("child")
            return log.exists() and "deaf" in log.read_text()

        await until(deaf)
        child = supervisor.process_id("child")
        starting.cancel()

        async def stopping() -> bool:
            try:
                supervisor.process_id("child")
            except KeyError:
                return True
            return False

        await until(stopping)
        starting.cancel()
        await asyncio.wait([starting])

        async def gone() -> bool:
            return not psutil.pid_exists(child)

        await until(gone, 5)
