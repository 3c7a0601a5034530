"""The prefix index against a dictionary of keys and brute force."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, precondition, rule

from radixflow.index import PrefixIndex

# Few letters and few namespaces: keys then share, split, end inside and repeat each other all the time.
KEYS = st.lists(st.integers(0, 2), min_size=1, max_size=10)
NAMESPACES = st.sampled_from(["", "salt"])


def shared_length(a, b):
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


class IndexMachine(RuleBasedStateMachine):
    handles = Bundle("handles")

    def __init__(self):
        super().__init__()
        self.index = PrefixIndex()
        self.model = {}
        self.retired = set()
        self.last = 0

    def shared_by_peer(self, handle):
        namespace, key = self.model[handle]
        return {
            peer: shared_length(key, other)
            for peer, (space, other) in self.model.items()
            if peer != handle and space == namespace
        }

    @rule(target=handles, key=KEYS, namespace=NAMESPACES)
    def insert(self, key, namespace):
        handle = self.index.insert(key, namespace)
        assert handle > self.last
        self.last = handle
        self.model[handle] = (namespace, key)
        return handle

    @rule(target=handles, base=handles, cut=st.integers(1, 10), tail=KEYS)
    def insert_related(self, base, cut, tail):
        namespace, key = self.model.get(base, ("", [0]))
        return self.insert(key[:cut] + tail, namespace)

    @rule(target=handles, base=handles)
    def insert_equal(self, base):
        namespace, key = self.model.get(base, ("", [0]))
        return self.insert(key, namespace)

    @rule(handle=handles)
    def retire(self, handle):
        if handle in self.model:
            before = self.index.stats()
            self.index.retire(handle)
            self.retired.add(handle)
            assert self.index.stats() == before

    @rule(handle=consumes(handles))
    def remove(self, handle):
        if handle in self.model:
            self.index.remove(handle)
            del self.model[handle]

    @precondition(lambda self: self.model)
    @rule()
    def remove_the_oldest(self):
        oldest = min(self.model)
        self.index.remove(oldest)
        del self.model[oldest]

    @rule()
    def clear(self):
        self.index.clear()
        self.model.clear()

    @rule(query=st.lists(st.integers(0, 2), max_size=12), namespace=NAMESPACES)
    def match(self, query, namespace):
        keys = [key for space, key in self.model.values() if space == namespace]
        expected = max((shared_length(key, query) for key in keys), default=0)
        assert self.index.match_prefix(query, namespace) == expected

    @rule(granularity=st.integers(1, 6))
    def residuals_agree(self, granularity):
        for handle, (_, key) in self.model.items():
            ahead = [shared for peer, shared in self.shared_by_peer(handle).items() if peer < handle]
            covered = max(ahead, default=0) // granularity * granularity
            assert self.index.residual(handle, granularity) == len(key) - covered

    @rule()
    def junctions_agree(self):
        for handle in self.model:
            shared = [n for peer, n in self.shared_by_peer(handle).items() if peer not in self.retired]
            positions = sorted({position for position in shared if position > 0})
            expected = [(p, sum(other >= p for other in shared)) for p in positions]
            assert self.index.shared_with_peers(handle) == expected

    @invariant()
    def the_index_is_sound_and_minimal(self):
        self.index.check_integrity()
        assert len(self.index) == len(self.model)
        prefixes = {
            (space, tuple(key[:length])) for space, key in self.model.values() for length in range(1, len(key) + 1)
        }
        stats = self.index.stats()
        assert stats["handles"] == len(self.model)
        assert stats["unique_tokens"] == len(prefixes)
        assert stats["namespaces"] == len({space for space, _ in self.model.values()})
        assert stats["nodes"] <= 2 * len(self.model) + stats["namespaces"]

    @invariant()
    def every_live_handle_is_known(self):
        assert all(handle in self.index for handle in self.model)
        assert all(self.index.key_length(handle) == len(key) for handle, (_, key) in self.model.items())

    def teardown(self):
        for handle in self.model:
            self.index.remove(handle)
        assert self.index.stats() == PrefixIndex().stats()
        self.index.check_integrity()


IndexMachine.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestIndexAgreesWithTheModel = IndexMachine.TestCase


def test_nested_sharing_gives_one_junction_for_each_parting():
    index = PrefixIndex()
    a, b, c = (index.insert([1] * 300 + rest) for rest in ([2] * 50 + [3], [2] * 50 + [4], [5] * 60))
    assert index.shared_with_peers(a) == [(300, 2), (350, 1)]
    assert index.shared_with_peers(b) == [(300, 2), (350, 1)]
    assert index.shared_with_peers(c) == [(300, 2)]


def test_equal_longer_and_shorter_keys_part_where_the_shorter_ends():
    index = PrefixIndex()
    short, long, twin = index.insert([1, 2]), index.insert([1, 2, 3]), index.insert([1, 2])
    assert index.shared_with_peers(short) == [(2, 2)]
    assert index.shared_with_peers(long) == [(2, 2)]
    assert (index.residual(short), index.residual(long), index.residual(twin)) == (2, 1, 0)


def test_a_retired_key_is_no_peer_but_covers_and_may_be_asked_about():
    index = PrefixIndex()
    first, second, third = (index.insert([1] * 300 + rest) for rest in ([2] * 50 + [3], [2] * 50 + [4], [5] * 60))
    index.retire(third)
    index.retire(third)
    assert index.shared_with_peers(first) == [(350, 1)]
    assert index.shared_with_peers(third) == [(300, 2)]
    index.retire(first)
    assert index.shared_with_peers(second) == []
    assert index.shared_with_peers(first) == [(350, 1)]
    assert (index.residual(second), index.residual(third), len(index)) == (1, 60, 3)
    assert first in index
    for handle in (first, third, second):
        index.remove(handle)
    assert index.stats() == PrefixIndex().stats()


def test_keys_that_share_nothing_are_no_peers():
    index = PrefixIndex()
    first, _ = index.insert([1, 2]), index.insert([2, 2])
    assert index.shared_with_peers(first) == []


def test_namespaces_never_meet():
    index = PrefixIndex()
    first, second = index.insert([1, 2], "a"), index.insert([1, 2], "b")
    assert index.shared_with_peers(second) == []
    assert index.residual(second) == 2
    assert index.match_prefix([1, 2]) == 0
    index.remove(first)
    assert index.match_prefix([1, 2], "b") == 2


def test_coverage_counts_whole_blocks_only():
    index = PrefixIndex()
    index.insert([1] * 100 + [2])
    handle = index.insert([1] * 100 + [3] * 10)
    expected = {1: 10, 16: 14, 64: 46, 100: 10, 101: 110, 2**80: 110}
    assert {block: index.residual(handle, block) for block in expected} == expected


def test_only_peers_inserted_before_cover_a_key():
    index = PrefixIndex()
    first, second = index.insert([1, 2, 3]), index.insert([1, 2, 4])
    assert (index.residual(first), index.residual(second)) == (3, 1)
    index.remove(first)
    assert index.residual(second) == 3
