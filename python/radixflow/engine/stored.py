"""Says at the cost of a few dictionary look-ups whether the cache may hold more of a prompt than a promise offers."""

from __future__ import annotations

from typing import Any

_MOST_ASKED = 64


class StoredStates:
    """Looks at the block pool of one scheduler, without touching or counting anything."""

    def __init__(self, scheduler: Any, recurrent_groups: list[int]) -> None:  # noqa: ANN401
        """Bind to a vLLM scheduler whose own ``__init__`` has run.

        Args:
            scheduler: vLLM's.
            recurrent_groups: cache groups of recurrent states.
        """
        managers = scheduler.kv_cache_manager.coordinator.single_type_managers
        self._pool = scheduler.kv_cache_manager.block_pool
        self._hash_block = int(scheduler.hash_block_size)
        self._step = self._hash_block if scheduler.mamba_partial_cache_hit else int(scheduler.block_size)
        self._recurrent = recurrent_groups[:1]
        self._dense = [
            (group, int(manager.block_size))
            for group, manager in enumerate(managers)
            # Where hits may end inside a block, attention need not have the next whole one.
            if type(manager).__name__ == "FullAttentionManager" and manager.block_size <= self._step
        ][:1]

    def may_hit_beyond(self, request: Any, position: int) -> bool:  # noqa: ANN401
        """Whether a request may start from a state further on than ``position`` tokens.

        A yes may be wrong (the look-up then says so), a no is right but for prompts whose further states are more
        than 64 apart from ``position``, on models without full attention.
        """
        hashes, longest = request.block_hashes, request.num_tokens - 1
        if longest < position + self._step:
            return False
        for group, block in self._dense:
            # Full attention keeps every block: without the next one, no longer hit.
            if not self._is_cached(hashes, position + block, group):
                return False
        for group in self._recurrent:
            last = min(longest, position + _MOST_ASKED * self._step)
            if any(self._is_cached(hashes, at, group) for at in range(position + self._step, last + 1, self._step)):
                return True
        return False

    def _is_cached(self, hashes: Any, at: int, group: int) -> bool:  # noqa: ANN401
        index = at // self._hash_block - 1
        return 0 <= index < len(hashes) and self._pool.get_cached_block(hashes[index], [group]) is not None
