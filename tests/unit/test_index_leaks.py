"""Through the extension module: what Python puts into the index, asks of it and gets wrong leaves no memory behind.

The Rust side counts its own allocations (`rust/fuzz/leaks.rs`); here are the ways in and out of it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from array import array

import index_laps
import pytest

from radixflow.index import PrefixIndex

SLACK = 1 << 20
"""Resident bytes that the allocators may move by; a lap allocates about ten times as much."""


@pytest.mark.parametrize("lap", index_laps.LAPS)
def test_laps_leave_no_memory_and_no_objects(lap):
    done = subprocess.run([sys.executable, index_laps.__file__, lap], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    resident, blocks = zip(*json.loads(done.stdout), strict=True)
    assert len(blocks) == index_laps.COUNT
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
