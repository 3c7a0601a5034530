"""What is compared, each behind the same few operations.

An operation takes one argument, a converted key or a handle. One that a subject does not offer is missing from its
table; nothing is emulated with what it was not made for.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import Any

from prefix_index.python_trie import PythonTrie
from radixflow.index import PrefixIndex

Operations = dict[str, Callable[[Any], Any]]

BY_HANDLE = ("shared_with_peers", "residual", "retire", "remove")
OPERATIONS = ("convert", "insert", "match", *BY_HANDLE)


class Subject:
    """Something that holds keys."""

    name: str
    granularity = 1
    """A match is exact to so many tokens."""

    def prepare(self, keys: list[list[int]]) -> list[Any]:
        """Bring keys into the form that `convert` starts from; not measured."""
        return keys

    def convert(self, prepared: Any) -> Any:  # noqa: ANN401
        """Make what the operations take from what the engine has, a list of ints."""
        return prepared

    def fresh(self) -> Operations:
        """Make an empty structure and return its operations."""
        raise NotImplementedError


class RustList(Subject):
    """The index, given Python lists."""

    name = "index, list"

    def fresh(self) -> Operations:
        """See the base class."""
        index = PrefixIndex()
        return {
            "insert": index.insert,
            "match": index.match_prefix,
            "shared_with_peers": index.shared_with_peers,
            "residual": index.residual,
            "retire": index.retire,
            "remove": index.remove,
        }


class RustBuffer(RustList):
    """The index, given buffers of 32-bit items."""

    name = "index, buffer"

    def convert(self, prepared: Any) -> Any:  # noqa: ANN401
        """Copy into an array, which is a quarter of the cost of `numpy.array(tokens, dtype=numpy.uint32)`."""
        return array("I", prepared)


class Trie(Subject):
    """The same tree in plain Python."""

    name = "Python trie"

    def fresh(self) -> Operations:
        """See the base class."""
        trie = PythonTrie()
        return {
            "insert": trie.insert,
            "match": trie.match_prefix,
            "shared_with_peers": trie.shared_with_peers,
            "residual": trie.residual,
            "retire": trie.retire,
            "remove": trie.remove,
        }


class PureRadix(Subject):
    """The PyPI package pure-radix 2: a tree of nodes by sequence. It counts nothing, so it has no peers to report."""

    name = "pure-radix"

    def __init__(self) -> None:
        """Fail with ImportError where the package is not installed."""
        from pure_radix import SetNode

        self.node = SetNode

    def fresh(self) -> Operations:
        """See the base class."""
        root = self.node()
        ends: list[Any] = [None]

        def insert(key: list[int]) -> int:
            node = root.node_force(key)
            node.add(len(ends))
            ends.append(node)
            return len(ends) - 1

        def match(key: list[int]) -> int:
            reached: int | None = root.node_traverse(key).sequence_index
            return len(key) if reached is None else reached

        def remove(handle: int) -> None:
            node = ends[handle]
            node.discard(handle)
            parent = node.node_parent
            node.node_prune_maybe()
            parent.node_prune_maybe()

        return {"insert": insert, "match": match, "remove": remove}


def by_name() -> dict[str, Callable[[], Subject]]:
    """Return the subjects that need no engine."""
    return {kind.name: kind for kind in (RustBuffer, RustList, Trie, PureRadix)}
