"""Laps of work through the extension module, and what is left after each: ``python index_laps.py NAME``.

In a process of their own, as whatever else runs in a test's process allocates too. Prints, per lap, resident bytes and
the blocks of Python's own allocator, as JSON.
"""

from __future__ import annotations

import contextlib
import gc
import json
import sys
from array import array
from pathlib import Path

from radixflow.index import PrefixIndex

COUNT = 8


def resident_bytes():
    """What the process holds in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def keys(count):
    """Keys of two states with tails of their own, as lists and as buffers."""
    for number in range(count):
        tokens = [*range(number % 2, 150), number, number // 7]
        yield array("I", tokens) if number % 3 else tokens


def full_and_dropped():
    """Indexes that go while they are full."""
    for _ in range(40):
        index = PrefixIndex()
        for number, key in enumerate(keys(200)):
            index.insert(key, "salt" if number % 5 else "")


def filled_and_emptied():
    """One index whose keys come and go, and are asked about in between."""
    index = PrefixIndex()
    for _ in range(20):
        handles = [index.insert(key) for key in keys(200)]
        for handle in handles[::7]:
            index.retire(handle)
            index.shared_with_peers(handle)
            index.residual(handle, 16)
        index.match_prefix([1, 2, 3])
        index.stats()
        for handle in handles:
            index.remove(handle)
    assert index.stats() == PrefixIndex().stats()


def cleared():
    """An index that is cleared, also after a failure inside."""
    index = PrefixIndex()
    for _ in range(40):
        for key in keys(200):
            index.insert(key)
        with contextlib.suppress(RuntimeError):
            index._panic_for_tests()
        index.clear()
    assert index.stats() == PrefixIndex().stats()


def refused():
    """Calls that are wrong, each of which has read a part of its input."""
    index = PrefixIndex()
    long = [7] * 2_000
    keys = ([*long, -1], [*long, 2**32], [*long, "x"], [], array("d", [1.0] * 2_000), object())
    calls = [(index.insert, keys), (index.match_prefix, keys[:3]), (index.remove, (0, 1, -1, 2**70, None))]
    failed = 0
    for call, values in calls:
        for value in values * 100:
            try:
                call(value)
            except (KeyError, TypeError, ValueError, OverflowError):
                failed += 1
    assert failed == 100 * sum(len(values) for _, values in calls)


LAPS = {lap.__name__: lap for lap in (full_and_dropped, filled_and_emptied, cleared, refused)}


def measured(lap):
    """Do the lap several times; return what was left after each."""
    left = []
    for _ in range(COUNT):
        lap()
        # Exceptions and their frames refer to each other.
        gc.collect()
        left.append((resident_bytes(), sys.getallocatedblocks()))
    return left


if __name__ == "__main__":
    json.dump(measured(LAPS[sys.argv[1]]), sys.stdout)
