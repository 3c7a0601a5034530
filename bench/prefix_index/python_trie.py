"""The prefix index again, in plain Python: what the Rust one is compared with, and a second opinion for its tests.

The same tree by the same names: labels on edges, children by first token, and in each node how many keys are below,
how many of them wait, and which came first. Written to be read; whole labels are compared as slices, which is the one
thing that makes a difference of several times here.
"""

from __future__ import annotations

from collections.abc import Sequence


def shared_length(label: list[int], tokens: list[int], start: int) -> int:
    """Count how many tokens of `label` are the next ones of `tokens`."""
    if tokens[start : start + len(label)] == label:
        return len(label)
    length = 0
    for ours, theirs in zip(label, tokens[start : start + len(label)], strict=False):
        if ours != theirs:
            break
        length += 1
    return length


class Node:
    """The end of a key, or a place where keys part."""

    __slots__ = ("children", "count", "first", "label", "own", "parent", "waiting")

    def __init__(self, label: list[int], parent: Node | None, first: int | None) -> None:
        """Make a node without keys; `first` is the handle it is made for."""
        self.label = label
        self.parent = parent
        self.first = first
        self.children: dict[int, Node] = {}
        self.own: list[int] = []
        self.count = 0
        self.waiting = 0


class PythonTrie:
    """See the module's text, and `radixflow.index` for what each method answers. Lists of ints only."""

    def __init__(self) -> None:
        """Make an empty one."""
        self.roots: dict[str, Node] = {}
        self.ends: dict[int, tuple[Node, str]] = {}
        self.retired: set[int] = set()
        self.next = 1

    def insert(self, tokens: list[int], namespace: str = "") -> int:
        """Add a key and return its handle."""
        handle = self.next
        self.next += 1
        node = self.roots.get(namespace)
        if node is None:
            node = self.roots[namespace] = Node([], None, handle)
        position, end = 0, len(tokens)
        while True:
            node.count += 1
            node.waiting += 1
            if position == end:
                break
            child = node.children.get(tokens[position])
            if child is None:
                leaf = Node(tokens[position:], node, handle)
                node.children[tokens[position]] = leaf
                node = leaf
                position = end
                continue
            shared = shared_length(child.label, tokens, position)
            if shared < len(child.label):
                child = self._split(child, shared)
            node = child
            position += shared
        node.own.append(handle)
        self.ends[handle] = (node, namespace)
        return handle

    def remove(self, handle: int) -> None:
        """Take a key away, and the nodes that mark nothing without it."""
        node, namespace = self.ends.pop(handle)
        waited = handle not in self.retired
        self.retired.discard(handle)
        node.own.remove(handle)
        for above in self._path(node):
            above.count -= 1
            above.waiting -= waited
            if above.first == handle:
                firsts = [child.first for child in above.children.values()] + above.own[:1]
                above.first = min((first for first in firsts if first is not None), default=None)
        if node.count == 0 and node.parent is not None:
            del node.parent.children[node.label[0]]
            node = node.parent
        if node.parent is None:
            if node.count == 0:
                del self.roots[namespace]
        elif not node.own and len(node.children) == 1:
            (child,) = node.children.values()
            child.label = node.label + child.label
            child.parent = node.parent
            node.parent.children[child.label[0]] = child

    def retire(self, handle: int) -> None:
        """Stop counting a key as a peer of others."""
        node, _ = self.ends[handle]
        if handle not in self.retired:
            self.retired.add(handle)
            for above in self._path(node):
                above.waiting -= 1

    def match_prefix(self, tokens: list[int], namespace: str = "") -> int:
        """Return how many leading tokens some live key shares."""
        node = self.roots.get(namespace)
        position, end = 0, len(tokens)
        while node is not None and position < end:
            child = node.children.get(tokens[position])
            if child is None:
                break
            shared = shared_length(child.label, tokens, position)
            position += shared
            node = child if shared == len(child.label) else None
        return position

    def shared_with_peers(self, handle: int) -> list[tuple[int, int]]:
        """Return where peers part from a key, and how many share that much."""
        node, _ = self.ends[handle]
        own = handle not in self.retired
        position = self.key_length(handle)
        junctions: list[tuple[int, int]] = []
        for above in self._path(node):
            peers = above.waiting - own
            if position and peers > (junctions[-1][1] if junctions else 0):
                junctions.append((position, peers))
            position -= len(above.label)
        return junctions[::-1]

    def residual(self, handle: int, granularity: int = 1) -> int:
        """Return how many tokens of a key no earlier live key covers."""
        node, _ = self.ends[handle]
        length = position = self.key_length(handle)
        for above in self._path(node):
            if above.first is not None and above.first < handle:
                break
            position -= len(above.label)
        return length - position // granularity * granularity

    def key_length(self, handle: int) -> int:
        """Return the number of tokens of a key."""
        return sum(len(node.label) for node in self._path(self.ends[handle][0]))

    def __len__(self) -> int:
        """Return the number of live keys."""
        return len(self.ends)

    def _split(self, lower: Node, length: int) -> Node:
        assert lower.parent is not None
        upper = Node(lower.label[:length], lower.parent, lower.first)
        upper.count, upper.waiting = lower.count, lower.waiting
        lower.parent.children[lower.label[0]] = upper
        lower.label = lower.label[length:]
        lower.parent = upper
        upper.children[lower.label[0]] = lower
        return upper

    @staticmethod
    def _path(node: Node | None) -> Sequence[Node]:
        path = []
        while node is not None:
            path.append(node)
            node = node.parent
        return path
