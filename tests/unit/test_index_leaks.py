"""Through the extension module: what Python puts into the index, asks of it and gets wrong leaves no memory behind.

The Rust side counts its own allocations (`rust/fuzz/leaks.rs`); here are the ways in and out of it.
"""

from __future__ import annotations

import contextlib
import gc
import sys
from array import array
from pathlib import Path

import pytest

from radixflow.index import PrefixIndex

LAPS = 8
SLACK = 1 << 20
"""Resident bytes that the allocators may move by; a lap allocates about ten times as much."""


def resident_bytes():
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
            # Not pytest.raises, which keeps memory of its own.
            try:
                call(value)
            except (KeyError, TypeError, ValueError, OverflowError):
                failed += 1
    assert failed == 100 * sum(len(values) for _, values in calls)


@pytest.mark.parametrize("lap", [full_and_dropped, filled_and_emptied, cleared, refused], ids=lambda lap: lap.__name__)
def test_laps_leave_no_memory_and_no_objects(lap):
    resident, blocks = [], []
    for _ in range(LAPS):
        lap()
        # Exceptions and their frames refer to each other.
        gc.collect()
        resident.append(resident_bytes())
        blocks.append(sys.getallocatedblocks())
    # The first laps fill the allocators' pools and the caches of whatever is used for the first time.
    assert resident[-1] - resident[2] < SLACK
    # Objects of Python's own allocator: a leak of one a key would be thousands.
    assert blocks[-1] - blocks[2] < 100


def test_an_input_is_let_go_when_the_call_ends():
    index = PrefixIndex()
    tokens = array("I", [1, 2, 3])
    listed = [10**6, 10**6 + 1]
    before = sys.getrefcount(tokens), sys.getrefcount(listed)
    handle = index.insert(tokens)
    index.match_prefix(tokens)
    index.insert(listed)
    assert (sys.getrefcount(tokens), sys.getrefcount(listed)) == before
    # A buffer that is still exported can't grow.
    tokens.append(4)
    assert index.key_length(handle) == 3
