"""What the blocks of a cache really hold, as far as a model could tell."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

STATE_SLOT = 0
"""Where a recurrent group keeps the one state of a block."""

NULL_BLOCK = 0
"""vLLM's placeholder: nothing is kept in it."""

_MODULUS = (1 << 61) - 1
_MULTIPLIER = 0x9E3779B97F4A7C15 % _MODULUS


def advance(digest: int, token: int) -> int:
    """Return the digest of a prefix that is one token longer: a recurrence, like a recurrent layer's own."""
    return (digest * _MULTIPLIER + token + 1) % _MODULUS


class Mark(NamedTuple):
    """A prefix that was computed: ``length`` tokens, their digest, and the request that computed it."""

    length: int
    digest: int
    writer: str

    def holds(self, length: int, digest: int) -> bool:
        """Whether this is exactly that prefix; who computed it doesn't matter."""
        return self.length == length and self.digest == digest


class StateFault(AssertionError):
    """A request started from something else than its prefix.

    Attributes:
        request_id: who read.
        group: the cache group.
        block: the block's id.
        position: tokens the prefix had to hold.
        found: what the block held; None for nothing of this group.
    """

    def __init__(self, request_id: str, group: int, block: int, position: int, found: Mark | None, why: str) -> None:
        """Describe the fault; ``why`` says what was expected and read."""
        self.request_id = request_id
        self.group = group
        self.block = block
        self.position = position
        self.found = found
        held = f"the first {found.length} tokens of {found.writer!r}" if found else "nothing of this group"
        if found and found.length == position:
            held += ", which are other tokens"
        super().__init__(
            f"request {request_id!r}, group {group}, block {block}, position {position}: {why}, found {held}"
        )


class BlockMemory:
    """Blocks by id. A block belongs to the group that wrote it last: groups share the pool and its memory."""

    def __init__(self) -> None:
        """Start with blocks that hold nothing."""
        self._blocks: dict[int, tuple[int, dict[int, Mark]]] = {}

    def read(self, group: int, block: int, slot: int) -> Mark | None:
        """Return what a slot holds; None for nothing, or for what another group left there."""
        owner, slots = self._blocks.get(block, (group, {}))
        return slots.get(slot) if owner == group else None

    def write(self, group: int, block: int, slot: int, mark: Mark) -> None:
        """Fill a slot. What another group kept in the block is gone."""
        owner, slots = self._blocks.get(block, (-1, {}))
        if owner != group:
            slots = {}
            self._blocks[block] = (group, slots)
        slots[slot] = mark

    def zero(self, blocks: Iterable[int]) -> None:
        """Forget what blocks hold."""
        for block in blocks:
            self._blocks.pop(block, None)

    def copy(self, pairs: Iterable[tuple[int, int]]) -> None:
        """Copy whole blocks, ``(source, destination)``: all are read before one is written."""
        read = [(destination, self._blocks.get(source)) for source, destination in pairs]
        for destination, held in read:
            if held is None:
                self._blocks.pop(destination, None)
            else:
                self._blocks[destination] = (held[0], dict(held[1]))
