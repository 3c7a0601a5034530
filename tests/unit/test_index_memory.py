"""Memory, wide fans, and recovery from an internal failure."""

from collections import deque
from pathlib import Path

import numpy as np
import pytest

from radixflow.index import PrefixIndex


def budget(stats):
    return 1.3 * 4 * stats["unique_tokens"] + 128 * stats["nodes"]


def resident_bytes():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def test_memory_is_flat_over_a_million_requests_and_gone_when_the_last_leaves():
    index = PrefixIndex()
    baseline = index.stats()["memory_bytes"]
    waiting, highest, resident = deque(), [], []
    for number in range(1_000_000):
        waiting.append(index.insert([1, 2, number % 13, number % 1009, number], "ab"[number % 2]))
        if number % 3 == 0:
            index.retire(waiting[0])
        if len(waiting) > 500:
            index.remove(waiting.popleft())
        if number % 10_000 == 9_999:
            highest.append(index.stats()["memory_bytes"])
            resident.append(resident_bytes())
    assert max(highest[10:]) <= 1.5 * max(highest[:10])
    # Four bytes a request would be as much.
    assert resident[-1] - resident[10] < 4 * 2**20
    index.check_integrity()
    for handle in waiting:
        index.remove(handle)
    assert index.stats() == {
        "handles": 0,
        "nodes": 0,
        "namespaces": 0,
        "unique_tokens": 0,
        "memory_bytes": baseline,
    }
    index.check_integrity()


def test_decisions_with_a_long_shared_state_stay_within_the_budget():
    index = PrefixIndex()
    random = np.random.default_rng(0)
    for _ in range(200):
        state = random.integers(0, 150_000, 1024, dtype=np.uint32)
        for _ in range(4):
            index.insert(np.concatenate([state, random.integers(0, 150_000, 64, dtype=np.uint32)]))
    stats = index.stats()
    assert stats["unique_tokens"] <= 200 * (1024 + 4 * 64)
    assert stats["memory_bytes"] <= budget(stats)


@pytest.mark.parametrize("width", [100_000, 7 * 2**14 + 1, 7 * 2**14 + 2])
def test_a_wide_fan_stays_within_the_budget_also_where_its_maps_have_just_grown(width):
    index = PrefixIndex()
    for number in range(width):
        index.insert([1, 2, 3, number])
    stats = index.stats()
    assert stats["nodes"] == width + 2
    assert stats["memory_bytes"] <= budget(stats)


def test_a_burst_gives_its_memory_back_while_others_wait():
    index = PrefixIndex()
    burst = [index.insert([number % 50, number, 3]) for number in range(20_000)]
    peak = index.stats()["memory_bytes"]
    for handle in burst[:-20]:
        index.remove(handle)
    assert index.stats()["memory_bytes"] * 100 < peak
    index.check_integrity()
    assert all(index.key_length(handle) == 3 for handle in burst[-20:])


@pytest.mark.parametrize("identical", [False, True], ids=["siblings", "identical keys"])
def test_a_hundred_thousand_requests_of_one_state_leave_in_order(identical):
    index = PrefixIndex()
    width = 100_000
    handles = [index.insert([1, 2, 3] if identical else [1, 2, 3, number, 4]) for number in range(width)]
    last = handles[-1]
    assert index.shared_with_peers(last) == [(3, width - 1)]
    own = 0 if identical else 2
    for handle in handles[:-1]:
        assert index.residual(last) == own
        index.remove(handle)
    # Nobody is ahead of it any more.
    assert index.residual(last) == (3 if identical else 5)
    assert index.stats()["nodes"] == 2
    index.check_integrity()


@pytest.mark.parametrize("order", [1, -1], ids=["oldest first", "newest first"])
def test_deep_nesting_unwinds_in_either_order(order):
    index = PrefixIndex()
    handles = [index.insert(list(range(length))) for length in range(1, 301)]
    assert index.shared_with_peers(handles[-1]) == [(p, 300 - p) for p in range(1, 300)]
    for handle in handles[::order]:
        index.remove(handle)
        index.check_integrity()
    assert index.stats() == PrefixIndex().stats()


def test_an_internal_failure_is_an_ordinary_exception_until_clear():
    index = PrefixIndex()
    handle = index.insert([1, 2])
    with pytest.raises(RuntimeError, match="asked to by a test"):
        index._panic_for_tests()
    for call in (
        lambda: index.insert([1]),
        lambda: index.remove(handle),
        lambda: index.retire(handle),
        lambda: index.match_prefix([1]),
        lambda: index.shared_with_peers(handle),
        lambda: index.residual(handle),
        lambda: index.key_length(handle),
        lambda: handle in index,
        lambda: len(index),
        index.stats,
        index.check_integrity,
    ):
        with pytest.raises(RuntimeError, match=r"call clear\(\)"):
            call()
    assert "needs clear()" in repr(index)
    index.clear()
    assert len(index) == 0
    assert index.insert([1, 2]) > handle
    index.check_integrity()
