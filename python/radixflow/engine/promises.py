"""States that running producers are to store, so that those who need them wait without a look-up.

A promise is kept under vLLM's own block hash at its position, which covers every token before it, the salt and
whatever else separates cache entries: whoever has the same hash would hit exactly that state.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

Promise = tuple[str, int]
"""``(producer's request id, token position)``."""


def prefix_hash(request: Any, position: int, hash_block_size: int) -> Any | None:  # noqa: ANN401
    """Return vLLM's hash of the first ``position`` tokens, or None where it has none."""
    index = position // hash_block_size - 1
    hashes = request.block_hashes
    return hashes[index] if 0 <= index < len(hashes) else None


class PromiseTable:
    """Promises by hash."""

    def __init__(self, hash_block_size: int, is_open: Callable[[Promise], bool]) -> None:
        """Set up the table.

        Args:
            hash_block_size: tokens a block hash covers.
            is_open: whether a promise's producer still runs and has not come as far.
        """
        self.is_open = is_open
        self.version = 0
        """Grows with every new promise: who found none needs to look again only when it changed."""
        self._hash_block_size = hash_block_size
        self.by_hash: dict[Any, Promise] = {}
        self.by_producer: dict[str, list[Any]] = {}
        self._count_at: Counter[int] = Counter()
        self._positions: list[int] = []

    def __len__(self) -> int:
        """Count the promises."""
        return len(self.by_hash)

    def make(self, request: Any, positions: Sequence[int]) -> None:  # noqa: ANN401
        """Promise states of a producer at token positions, in place of what it promised before."""
        producer = request.request_id
        self.drop(producer)
        kept = []
        for position in positions:
            key = prefix_hash(request, position, self._hash_block_size)
            if key is None:
                continue
            before = self.by_hash.get(key)
            if before is not None:
                if self.is_open(before):
                    # Somebody else will be there sooner.
                    continue
                self._forget(key, before)
            self.by_hash[key] = (producer, position)
            kept.append(key)
            if not self._count_at[position]:
                self._positions.append(position)
                self._positions.sort(reverse=True)
            self._count_at[position] += 1
        if kept:
            self.by_producer[producer] = kept
            self.version += 1

    def drop(self, producer: str) -> None:
        """Forget what a request promised; unknown ids are fine."""
        for key in self.by_producer.pop(producer, ()):
            promise = self.by_hash.get(key)
            if promise is not None and promise[0] == producer:
                self._forget(key, promise)

    def find(self, request: Any, is_open: Callable[[Promise], bool] | None = None) -> Promise | None:  # noqa: ANN401
        """Return the open promise furthest along that a request could start from, or None."""
        is_open = is_open or self.is_open
        longest = request.num_tokens - 1
        for position in self._positions:
            if position <= longest:
                key = prefix_hash(request, position, self._hash_block_size)
                promise = self.by_hash.get(key) if key is not None else None
                if promise is not None and promise[0] != request.request_id and is_open(promise):
                    return promise
        return None

    def _forget(self, key: Any, promise: Promise) -> None:  # noqa: ANN401
        del self.by_hash[key]
        position = promise[1]
        self._count_at[position] -= 1
        if not self._count_at[position]:
            del self._count_at[position]
            self._positions.remove(position)
