"""The prefix index: which waiting requests share which tokens.

`PrefixIndex` is a compressed radix tree over the token ids of the prompts that wait in a scheduler, written
in Rust (`radixflow._index`, whose stub documents every method). Each prompt is a *key* under a *handle*;
keys in different *namespaces* never meet, so whatever separates cache entries (salt, LoRA, multimodal
identity) goes into the namespace. A request that runs but has not left yet is *retired*: nobody's peer any more, but
still known. Costs and comparisons: docs/index.md.

    >>> from radixflow.index import PrefixIndex
    >>> index = PrefixIndex()
    >>> first = index.insert([7, 7, 7, 1])
    >>> second = index.insert([7, 7, 7, 2])
    >>> index.shared_with_peers(first)
    [(3, 1)]
    >>> index.residual(second)
    1
    >>> index.retire(first)
    >>> index.shared_with_peers(second)
    []
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias, TypedDict

from radixflow._index import PrefixIndex

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["IndexStats", "PrefixIndex", "Tokens"]

Tokens: TypeAlias = "Buffer | Sequence[int]"
"""Token ids, each 0..4294967295: a contiguous one-dimensional buffer of unsigned 32-bit items in native
byte order (`numpy.uint32`, `array('I')`, a `memoryview` of one), which is read without a Python object per
token, or a sequence of ints, of which an exact list is read fastest."""


class IndexStats(TypedDict):
    """What `PrefixIndex.stats` returns; every count is 0 for an empty index."""

    handles: int
    """Live handles."""
    nodes: int
    """Nodes of the tree, one root for each namespace included."""
    namespaces: int
    """Namespaces with at least one live key."""
    unique_tokens: int
    """Tokens stored; a prefix that several keys share counts once."""
    memory_bytes: int
    """Heap bytes, from the containers' capacities, without the allocator's own overhead."""
