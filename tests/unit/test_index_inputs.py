"""What the prefix index reads, what it refuses, and that a refusal changes nothing."""

import ctypes
import re
from array import array
from collections import UserList

import numpy as np
import pytest

from radixflow.index import PrefixIndex

KEY = [5, 0, 4294967295, 7]


def frozen(values):
    values.setflags(write=False)
    return values


def unaligned(values):
    raw = np.zeros(4 * len(values) + 1, dtype=np.uint8)
    view = raw[1:].view(np.uint32)
    view[:] = values
    return view


@pytest.mark.parametrize(
    "tokens",
    [
        KEY,
        tuple(KEY),
        UserList(KEY),
        np.array(KEY, dtype=np.uint32),
        frozen(np.array(KEY, dtype=np.uint32)),
        unaligned(KEY),
        np.array([9, *KEY, 9], dtype=np.uint32)[1:-1],
        array("I", KEY),
        memoryview(array("I", KEY)),
        memoryview(array("I", [9, *KEY]))[1:],
        (ctypes.c_uint32 * 4)(*KEY),
        [np.int64(token) for token in KEY],
        [np.uint32(token) for token in KEY],
    ],
    ids=lambda tokens: type(tokens).__name__,
)
def test_every_kind_of_tokens_makes_the_same_key(tokens):
    index = PrefixIndex()
    reference, handle = index.insert(KEY), index.insert(tokens)
    assert index.shared_with_peers(reference) == [(len(KEY), 1)]
    assert index.key_length(handle) == len(KEY)
    assert index.match_prefix(tokens) == len(KEY)
    index.check_integrity()


@pytest.mark.parametrize("odd", [[0], [31], [32, 33], [99], range(0, 100, 7), range(100)], ids=str)
def test_a_long_list_is_read_past_items_that_are_not_plain_ints(odd):
    index = PrefixIndex()
    tokens = list(range(100_000, 100_100))
    reference = index.insert(array("I", tokens))
    mixed = [np.uint32(token) if place in odd else token for place, token in enumerate(tokens)]
    index.insert(mixed)
    assert index.shared_with_peers(reference) == [(100, 1)]
    mixed[odd[-1]] = -1
    with pytest.raises(OverflowError, match=re.escape(f"tokens[{odd[-1]}] is -1")):
        index.insert(mixed)


def test_a_key_is_a_copy():
    index = PrefixIndex()
    tokens = np.array(KEY, dtype=np.uint32)
    index.insert(tokens)
    tokens[:] = 1
    assert index.match_prefix(KEY) == len(KEY)


REFUSED = [
    ([1, 2, 3, -1], OverflowError, "tokens[3] is -1: token ids are unsigned 32-bit (0..4294967295)"),
    ([4294967296], OverflowError, "tokens[0] is 4294967296"),
    ([1, 10**40], OverflowError, "tokens[1] is 1000000"),
    ([10**5000], OverflowError, "tokens[0] is a value that cannot be shown"),
    ((1, -5), OverflowError, "tokens[1] is -5"),
    (range(-1, 2), OverflowError, "tokens[0] is -1"),
    ([1, "a"], TypeError, "tokens[1] is 'a' (str): token ids are ints"),
    ([1, None], TypeError, "tokens[1] is None (NoneType)"),
    ([1.0], TypeError, "tokens[0] is 1.0 (float)"),
    ([[1, 2]], TypeError, "tokens[0] is [1, 2] (list)"),
    ("abc", TypeError, "tokens is a str"),
    (b"abcd", TypeError, 'tokens is a bytes with items of format "B"'),
    (7, TypeError, "tokens is a int: pass a sequence of ints"),
    (None, TypeError, "tokens is a NoneType"),
    ({1, 2}, TypeError, "tokens is a set"),
    ({1: 2}, TypeError, "tokens is a dict"),
    (iter([1]), TypeError, "tokens is a list_iterator"),
    (np.array([1, 2]), TypeError, "dtype int64"),
    (np.array([1, 2]), TypeError, ".astype(numpy.uint32)"),
    (np.array([1, 2], dtype=np.int32), TypeError, "dtype int32"),
    (np.array([1, 2], dtype=np.float32), TypeError, "dtype float32"),
    (np.array([1, 2], dtype=">u4"), TypeError, "dtype >u4"),
    (array("i", [1]), TypeError, 'items of format "i"'),
    (np.zeros((2, 2), dtype=np.uint32), ValueError, "tokens has 2 dimensions of shape [2, 2]"),
    (np.array(5, dtype=np.uint32), ValueError, "tokens has no dimension"),
    (np.arange(8, dtype=np.uint32)[::2], ValueError, "numpy.ascontiguousarray(tokens)"),
    (np.arange(8, dtype=np.uint32)[::-1], ValueError, "numpy.ascontiguousarray(tokens)"),
    ([], ValueError, "tokens is empty: a key needs at least one token"),
    (np.array([], dtype=np.uint32), ValueError, "tokens is empty"),
]


@pytest.mark.parametrize(("tokens", "error", "text"), REFUSED)
def test_refused_tokens_are_named_and_leave_nothing_behind(tokens, error, text):
    index = PrefixIndex()
    kept = index.insert([1, 2, 9])
    before = index.stats()
    with pytest.raises(error, match=re.escape(text)):
        index.insert(tokens, "another namespace")
    with pytest.raises(error, match=re.escape(text)):
        index.insert(tokens)
    assert index.stats() == before
    assert index.insert([1]) == kept + 1
    index.check_integrity()


def test_matching_no_tokens_is_no_error():
    index = PrefixIndex()
    index.insert([1])
    assert index.match_prefix([]) == 0
    assert index.match_prefix(np.array([], dtype=np.uint32), "nowhere") == 0


def test_an_error_raised_by_an_item_reaches_the_caller():
    class Hostile:
        def __index__(self):
            raise LookupError("mine")

    index = PrefixIndex()
    with pytest.raises(LookupError, match="mine"):
        index.insert([1, Hostile()])
    assert len(index) == 0


def test_an_item_may_use_the_index_and_change_the_list_while_it_is_read():
    index = PrefixIndex()

    class Reentrant:
        def __index__(self):
            tokens.clear()
            index.insert([8])
            return 2

    tokens = [1, Reentrant(), *range(1000)]
    handle = index.insert(tokens)
    assert index.key_length(handle) == 2
    assert len(index) == 2
    index.check_integrity()


QUERIES = [
    PrefixIndex.remove,
    PrefixIndex.retire,
    PrefixIndex.shared_with_peers,
    PrefixIndex.residual,
    PrefixIndex.key_length,
]


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.__name__)
def test_handles_that_are_not_live_are_key_errors_that_say_why(query):
    index = PrefixIndex()
    index.insert([1])
    gone = index.insert([2])
    index.remove(gone)
    with pytest.raises(KeyError, match=f"handle {gone} is not in the index: it was removed"):
        query(index, gone)
    for never in (0, 99, -1, 2**64, 10**30):
        with pytest.raises(KeyError, match=rf"handle {never} is not in the index: insert\(\) never returned it"):
            query(index, never)
    for other in ("1", None, 1.0):
        with pytest.raises(TypeError, match=f"handle is {other!r} .*pass the int"):
            query(index, other)
    assert len(index) == 1


def test_membership_is_false_for_anything_but_a_live_handle():
    index = PrefixIndex()
    handle = index.insert([1])
    assert handle in index
    assert not any(other in index for other in (0, handle + 1, -1, 2**70, "1", None, [1]))


def test_handles_are_never_used_again():
    index = PrefixIndex()
    handles = [index.insert([1]) for _ in range(3)]
    index.clear()
    assert index.insert([1]) > max(handles)


@pytest.mark.parametrize(
    ("granularity", "error", "text"),
    [
        (0, ValueError, "granularity is 0: it must be at least 1 token"),
        (-4, ValueError, "granularity is -4"),
        (-(2**80), ValueError, "it must be at least 1 token"),
        (1.5, TypeError, "granularity is 1.5 (float)"),
        (None, TypeError, "granularity is None (NoneType)"),
    ],
)
def test_a_granularity_is_a_positive_number_of_tokens(granularity, error, text):
    index = PrefixIndex()
    handle = index.insert([1])
    with pytest.raises(error, match=re.escape(text)):
        index.residual(handle, granularity)


@pytest.mark.parametrize(("namespace", "error"), [(5, TypeError), (None, TypeError), ("\ud800", ValueError)])
def test_a_namespace_is_text(namespace, error):
    index = PrefixIndex()
    with pytest.raises(error):
        index.insert([1], namespace)
    assert index.stats() == PrefixIndex().stats()
