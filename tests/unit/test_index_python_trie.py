"""The bench's Python trie answers what the index answers, so its times compare the same work."""

import importlib.util
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from radixflow.index import PrefixIndex

PATH = Path(__file__).parents[2] / "bench/prefix_index/python_trie.py"


def load():
    spec = importlib.util.spec_from_file_location("python_trie", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.PythonTrie


PythonTrie = load()
KEYS = st.lists(st.integers(0, 2), min_size=1, max_size=8)
NAMESPACES = st.sampled_from(["", "salt"])
STEPS = st.one_of(
    st.tuples(st.just("insert"), KEYS, NAMESPACES),
    st.tuples(st.just("match_prefix"), KEYS, NAMESPACES),
    # The n-th of the live handles.
    st.tuples(st.sampled_from(["remove", "retire"]), st.integers(0, 50)),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(STEPS, max_size=40), st.integers(1, 4))
def test_both_answer_alike_after_every_step(steps, granularity):
    index, trie, live = PrefixIndex(), PythonTrie(), []
    for name, *arguments in steps:
        if name in ("remove", "retire"):
            if not live:
                continue
            arguments = [live[arguments[0] % len(live)]]
        answer = getattr(trie, name)(*arguments)
        assert answer == getattr(index, name)(*arguments)
        if name == "insert":
            live.append(answer)
        elif name == "remove":
            live.remove(*arguments)
        assert len(trie) == len(index) == len(live)
        for handle in live:
            assert trie.shared_with_peers(handle) == index.shared_with_peers(handle)
            assert trie.residual(handle, granularity) == index.residual(handle, granularity)
            assert trie.key_length(handle) == index.key_length(handle)
    for handle in live:
        trie.remove(handle)
    assert (trie.roots, trie.ends, trie.retired) == ({}, {}, set())
