"""How cost and memory of the index grow: with a key's length, with its junctions, with the number of keys."""

from __future__ import annotations

import statistics
import sys
import time
from array import array
from collections import deque
from pathlib import Path
from typing import NamedTuple

from prefix_index.keys import Workload
from prefix_index.timing import no_collector, timed
from radixflow.index import IndexStats, PrefixIndex

FIXED_BYTES = 1024
"""The first keys bring the first page of everything."""


def budget(stats: IndexStats) -> float:
    """Return the most bytes the index may own: 1.3 times its tokens', and 128 a node."""
    return 1.3 * 4 * stats["unique_tokens"] + 128 * stats["nodes"] + FIXED_BYTES


def shapes() -> dict[str, PrefixIndex]:
    """Build indexes of the shapes that cost the most a node, and the standard one."""
    built = {"standard keys": PrefixIndex()}
    for key in Workload().waiting():
        built["standard keys"].insert(array("I", key))
    # The maps are emptiest where they have just grown, at 7/8 of a power of two.
    for width in (16, 100_000, 7 * 2**14 + 2):
        index = built[f"{width:,} siblings of a token each"] = PrefixIndex()
        for number in range(width):
            index.insert([1, 2, 3, number])
    nested = built["1,000 keys, each one token longer"] = PrefixIndex()
    for length in range(1, 1001):
        nested.insert(list(range(length)))
    return built


class Churn(NamedTuple):
    """What a long life leaves behind."""

    keys: int
    early_bytes: int
    """The most the index held in the first tenth."""
    late_bytes: int
    """The most it held after that."""
    rss_growth: int
    """Resident bytes of the process at the end, less those after the first tenth."""
    empty: bool


def churn(keys: int, waiting: int = 1000) -> Churn:
    """Insert and remove, in the order of arrival, with so many waiting at a time."""
    index, queue = PrefixIndex(), deque[int]()
    baseline = index.stats()
    state = list(range(64))
    early = late = rss = 0
    for number in range(keys):
        queue.append(index.insert([number // 4 % 5000, *state, number % 4, number % 100_003], "ab"[number % 2]))
        if len(queue) > waiting:
            index.remove(queue.popleft())
        if number % (keys // 100) == 0:
            held = index.stats()["memory_bytes"]
            if number < keys // 10:
                early, rss = max(early, held), resident()
            else:
                late = max(late, held)
    growth = resident() - rss
    while queue:
        index.remove(queue.pop())
    index.check_integrity()
    return Churn(keys, early, late, growth, index.stats() == baseline)


def resident() -> int:
    """Return the resident bytes of this process."""
    if not sys.platform.startswith("linux"):
        return 0
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


class Cost(NamedTuple):
    """Microseconds of one call each."""

    insert_buffer: float
    insert_list: float
    match_buffer: float


def by_length(lengths: list[int], repeats: int) -> dict[int, Cost]:
    """Measure insert and match for keys of different lengths, most of which they share; medians of all calls."""
    found: dict[int, list[Cost]] = {length: [] for length in lengths}
    for _ in range(repeats):
        for length in lengths:
            workload = Workload(states=max(1, 8192 // length), shared=length - 64)
            by_buffer, by_list = PrefixIndex(), PrefixIndex()
            with no_collector():
                for state in range(workload.states):
                    one = range(state, state + 1)
                    pairs = zip(workload.waiting(one), workload.queries(one), strict=True)
                    for key, query in pairs:
                        key_buffer, query_buffer = array("I", key), array("I", query)
                        inserted, _ = timed(by_buffer.insert, [key_buffer])
                        listed, _ = timed(by_list.insert, [key])
                        matched, _ = timed(by_buffer.match_prefix, [query_buffer])
                        found[length].append(Cost(inserted, listed, matched))
    return {length: Cost(*map(statistics.median, zip(*costs, strict=True))) for length, costs in found.items()}


def by_junctions(counts: list[int], repeats: int) -> dict[int, tuple[float, float]]:
    """Measure `shared_with_peers` and `residual` of a key with so many junctions; medians, microseconds a call."""
    found: dict[int, list[tuple[float, float]]] = {count: [] for count in counts}
    built = {}
    for count in counts:
        index = PrefixIndex()
        # The longest key comes first: nobody is ahead of it, so its residual looks at the whole path.
        longest = index.insert(list(range(20 * (count + 1))))
        for place in range(count):
            index.insert(list(range(20 * (place + 1))))
        built[count] = (index, longest)
    for _ in range(repeats):
        for count, (index, handle) in built.items():
            calls = [handle] * max(20, 2000 // count)
            with no_collector():
                start = time.perf_counter()
                for one in calls:
                    index.shared_with_peers(one)
                middle = time.perf_counter()
                for one in calls:
                    index.residual(one)
                end = time.perf_counter()
            found[count].append(((middle - start) / len(calls) * 1e6, (end - middle) / len(calls) * 1e6))
    return {
        count: (statistics.median(pair[0] for pair in pairs), statistics.median(pair[1] for pair in pairs))
        for count, pairs in found.items()
    }
