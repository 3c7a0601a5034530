"""Runs one command and ends it, with everything it started, once standard input closes.

The benchmark starts every server through this script and holds the writing end of its standard input.
However the benchmark ends (normally, by an exception, by Ctrl-C, even by SIGKILL) the kernel closes that end,
and the leash stops the server: SIGINT, then SIGTERM, then SIGKILL, with a wait after each.  Run it as a file,
by any Python 3:

    python leash.py <seconds after SIGINT> <seconds after SIGTERM> <command> [arguments]

Its exit status is the command's (128 + n after signal n).  It imports nothing but the standard library.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36
_POLL_S = 0.05


def adopt_orphans() -> None:
    """Make this process the parent of its descendants' orphans (Linux), so that none can get away."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def descendants(root: int) -> list[int]:
    """Return the process ids below `root`, from /proc; empty where there is no /proc."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            # The name stands in parentheses and may hold spaces and parentheses itself.
            state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
        except (OSError, ValueError):
            continue
        if state != "Z":
            children.setdefault(int(parent), []).append(int(entry.name))
    found: list[int] = []
    pending = [root]
    while pending:
        below = children.get(pending.pop(), [])
        found += below
        pending += below
    return found


def _signal(pids: list[int], number: int) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def _reap() -> None:
    """Collect ended orphans, or they stay as zombies until the leash itself ends."""
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return


def stop(child: subprocess.Popen[bytes], interrupt_s: float, terminate_s: float) -> None:
    """End `child` and every descendant of this process.

    The first signal goes to the command alone, which ends its own workers in order; the later ones go to all.
    """
    child.poll()
    for number, seconds in (
        (signal.SIGINT, interrupt_s),
        (signal.SIGTERM, terminate_s),
        (signal.SIGKILL, 5.0),
    ):
        if number is signal.SIGINT:
            _signal([child.pid] if child.returncode is None else [], number)
        else:
            _signal(descendants(os.getpid()), number)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if child.poll() is not None:
                _reap()
                if not descendants(os.getpid()):
                    return
                if number is signal.SIGINT:
                    break  # the command is gone and left something behind: it had its chance
            time.sleep(_POLL_S)


def main(arguments: list[str]) -> int:
    """Run the command in `arguments` until it ends or standard input closes; return its exit status."""
    interrupt_s, terminate_s, command = float(arguments[0]), float(arguments[1]), arguments[2:]
    # The benchmark alone decides when a server ends; a stray Ctrl-C must not race it.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    adopt_orphans()
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        while child.poll() is None:
            readable, _, _ = select.select([0], [], [], _POLL_S * 4)
            if readable and not os.read(0, 4096):
                break
    finally:
        stop(child, interrupt_s, terminate_s)
    status = child.poll()
    return 1 if status is None else status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
