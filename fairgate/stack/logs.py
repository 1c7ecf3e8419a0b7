"""The children's output files: one earlier run kept, a bounded size, and a failed child's last words."""

import shutil
from pathlib import Path

LOG_BYTES_MAX = 32 * 1024 * 1024
TAIL_BYTES = 4096
ERROR_WORDS = ("FATAL", "PANIC", "error:", "Error")


def fresh_log(path: Path) -> None:
    """Begin a run's log; the run before stays readable beside it as `<name>.log.1`."""
    if path.exists():
        path.replace(path.with_name(path.name + ".1"))
    path.touch(mode=0o600)


def bound(path: Path) -> None:
    """Set a log that grew past its bound aside and empty it; its writer appends, so it goes on at the new start."""
    if path.exists() and path.stat().st_size > LOG_BYTES_MAX:
        shutil.copyfile(path, path.with_name(path.name + ".1"))
        with path.open("r+b") as file:
            file.truncate(0)


def last_words(path: Path) -> str:
    """What a child that failed said about it: its last line that names an error, else its last line, else ""."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - TAIL_BYTES))
            lines = [line.strip() for line in file.read().decode("utf-8", "replace").splitlines() if line.strip()]
    except FileNotFoundError:
        return ""
    errors = [line for line in lines if any(word in line for word in ERROR_WORDS)]
    return next(reversed(errors or lines), "")
