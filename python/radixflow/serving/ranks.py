"""Which data-parallel rank a decision goes to: one for all its branches, or what they share is computed on each."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator


class RankBook:
    """Counts the branches in flight on each rank, as this server process sent them."""

    def __init__(self, ranks: int, first: int = 0) -> None:
        """Start with nothing in flight.

        Args:
            ranks: engines that this process may address; with one there is nothing to choose.
            first: rank to begin with among equals, so that several server processes don't all begin with 0.
        """
        self.in_flight = [0] * max(1, ranks)
        self._next = first % max(1, ranks)

    @contextlib.contextmanager
    def place(self, branches: int) -> Iterator[int | None]:
        """Give a decision of so many branches the rank with the fewest in flight, until the block ends.

        Yields:
            The rank; None where there is just one engine.
        """
        count = len(self.in_flight)
        if count == 1:
            yield None
            return
        turn = [(self._next + step) % count for step in range(count)]
        rank = min(turn, key=lambda candidate: self.in_flight[candidate])
        self._next = (rank + 1) % count
        self.in_flight[rank] += branches
        try:
            yield rank
        finally:
            self.in_flight[rank] -= branches


def rank_book(parallel_config: object) -> RankBook:
    """Build the book for an engine.

    Args:
        parallel_config: vLLM's ``ParallelConfig``.
    """
    local = bool(getattr(parallel_config, "local_engines_only", False))
    field = "data_parallel_size_local" if local else "data_parallel_size"
    first = int(getattr(parallel_config, "_api_process_rank", 0) or 0)
    return RankBook(int(getattr(parallel_config, field, 1) or 1), max(0, first))
