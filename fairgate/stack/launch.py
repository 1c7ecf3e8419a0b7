"""The few instructions between our fork and a server's exec: drop root, tie its life to ours, take its folder's lock.

Run as a script, by path and without site-packages, so that it starts in milliseconds and nothing runs between fork
and exec in a process with threads. It becomes the server: same process id, same session.
"""

import ctypes
import fcntl
import json
import os
import signal
import sys
import time

PR_SET_PDEATHSIG = 1  # prctl(2), Linux only
LOCK_BUSY_EXIT = 75  # EX_TEMPFAIL of sysexits.h
LOCK_POLL_SECONDS = 0.02


def main() -> None:
    """Apply the plan in the first argument (JSON, see `Service.launch_argv`), then become the program that follows."""
    plan = json.loads(sys.argv[1])
    _die_with_parent(plan["parent"], plan["death_signal"])
    if plan["lock"] is not None:
        _take_lock(plan["lock"], plan["lock_seconds"])
    if plan["account"] is not None:
        user_id, group_id = plan["account"]
        os.setgroups([group_id])
        os.setgid(group_id)
        os.setuid(user_id)
        # The kernel forgets the death signal when the credentials change.
        _die_with_parent(plan["parent"], plan["death_signal"])
    # Python ignores these two, and what is ignored stays ignored after exec.
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(ignored, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    for name in plan["borrowed"]:
        os.environ.pop(name, None)
    os.execve(sys.argv[2], sys.argv[2:], os.environ)  # noqa: S606 - becoming the program is the point


def _die_with_parent(parent_id: int, death_signal: int) -> None:
    """Ask the kernel to signal us when our parent dies, then look whether it died before we asked."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, death_signal, 0, 0, 0)
    if os.getppid() != parent_id:
        sys.exit("The process that started this one is gone.")


def _take_lock(path: str, wait_seconds: float) -> None:
    """Hold `path` locked for as long as the program or any child of it lives: the kernel frees it with the last one.

    After a kill -9 this waits for orphans that still use the data; two servers never open one folder.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    deadline = time.monotonic() + wait_seconds
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if time.monotonic() > deadline:
                print(f"An earlier server still holds {path}: end it, then start again.", file=sys.stderr)
                sys.exit(LOCK_BUSY_EXIT)
            time.sleep(LOCK_POLL_SECONDS)
    os.set_inheritable(descriptor, True)


if __name__ == "__main__":
    main()
