"""Which account runs the servers and in which folder it may work: root steps down, and no folder but ours changes.

Postgres refuses to run as root, and a checkout below a closed folder cannot be entered by anybody else; then the
servers' data live below /var/lib/fairgate, with a pointer left in the folder.
"""

import contextlib
import os
import pwd
import stat
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from fairgate.stack.errors import StackError

POINTER = "elsewhere"
ORIGIN = "origin"
ACCOUNTS = ("postgres", "nobody")
SHARED_ROOT = Path("/var/lib/fairgate")


@dataclass(frozen=True, slots=True)
class Account:
    """An ordinary account that servers run under when we are root."""

    name: str
    user_id: int
    group_id: int


def server_account(keep: int | None = None) -> Account | None:
    """The account to step down to, or None when we are an ordinary user already.

    `keep` is the user id that owns existing data: whoever wrote them goes on, though a better account has appeared.
    """
    if os.geteuid() != 0:
        return None
    if keep:
        with contextlib.suppress(KeyError):
            return _account(pwd.getpwuid(keep))
    for name in ACCOUNTS:
        with contextlib.suppress(KeyError):
            return _account(pwd.getpwnam(name))
    raise StackError(
        "Fairgate runs as root and finds no ordinary account for its servers (postgres or nobody): "
        "add one with `useradd --system postgres`, or start Fairgate as an ordinary user."
    )


def may(account: Account | None, access: str, path: Path) -> bool:
    """Whether `account` itself gets `access` ("r", "w" or "x") to `path`, asked of the kernel, ACLs included."""
    if account is None:
        return os.access(path, {"r": os.R_OK, "w": os.W_OK, "x": os.X_OK}[access])
    answer = subprocess.run(
        ["test", f"-{access}", str(path)],
        user=account.user_id,
        group=account.group_id,
        extra_groups=[],
        cwd="/",
        check=False,
    )
    return answer.returncode == 0


def choose_place(folder: Path, account: Account | None) -> Path:
    """The folder in which the servers' own folders live: `folder` itself where `account` can enter it."""
    if account is None:
        return folder
    pointer = folder / POINTER
    if pointer.exists():
        place = Path(pointer.read_text(encoding="utf-8").strip())
        if _belongs(place, folder):
            (place / ORIGIN).write_text(f"{folder}\n", encoding="utf-8")
            return place
    elif may(account, "x", folder):
        return folder
    # Never a place that is there already: whoever removed the folder wants to start afresh.
    place = Path(tempfile.mkdtemp(prefix=f"{folder.parent.name}-", dir=shared_root()))
    place.chmod(0o711)
    (place / ORIGIN).write_text(f"{folder}\n", encoding="utf-8")
    pointer.write_text(f"{place}\n", encoding="utf-8")
    return place


def shared_root() -> Path:
    """Our folder that every account may pass through: below /var/lib, else in the temporary folder."""
    for root in (SHARED_ROOT, Path(tempfile.gettempdir()) / "fairgate"):
        with contextlib.suppress(OSError):
            if not root.exists():
                root.mkdir()
                root.chmod(0o755)  # whatever the umask: other accounts pass through
            found = root.lstat()
            if stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and os.access(root, os.W_OK):
                return root
    raise StackError(
        f"Fairgate cannot write to {SHARED_ROOT}: make that folder, or start Fairgate as an ordinary user."
    )


def own_folder(path: Path, account: Account | None) -> Path:
    """Make `path` a private folder of the account that runs the servers; only a folder made here changes owner."""
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        return path
    if account is not None:
        os.chown(path, account.user_id, account.group_id)
    return path


def own_file(path: Path, text: str, account: Account | None) -> Path:
    """Write a private file (0600) that the servers' account can read, replacing what stood there."""
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        if account is not None:
            os.fchown(file.fileno(), account.user_id, account.group_id)
    return path


def _account(entry: pwd.struct_passwd) -> Account:
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)


def _belongs(place: Path, folder: Path) -> bool:
    """Whether `place` holds this folder's data: also after the folder was moved, never for a copy of it."""
    try:
        origin = Path((place / ORIGIN).read_text(encoding="utf-8").strip())
    except OSError:
        return False
    return origin == folder or not origin.exists()
