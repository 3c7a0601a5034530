"""Says once that a prompt needs more blocks than the pool has: vLLM keeps it, and whoever waits behind it, for ever."""

from __future__ import annotations

import logging
from typing import Any

logger = logging.getLogger("vllm.radixflow")


def blocks_needed(scheduler: Any, request: Any) -> int:  # noqa: ANN401
    """Count the blocks that a prompt holds when its prefill ends; a recurrent group needs one at least."""
    managers = scheduler.kv_cache_manager.coordinator.single_type_managers
    return sum(
        -(-request.num_tokens // manager.block_size) if type(manager).__name__ == "FullAttentionManager" else 1
        for manager in managers
    )


class OversizedWatch:
    """Looks at each new request; what vLLM does with it stays as it is."""

    def __init__(self) -> None:
        """Start silent."""
        self.seen = 0
        """Requests that can't ever be scheduled."""

    def look(self, scheduler: Any, request: Any) -> None:  # noqa: ANN401
        """Warn about the first request that never fits; count the others."""
        room = scheduler.kv_cache_manager.block_pool.num_gpu_blocks - 1
        # No more blocks than tokens: most prompts cost one comparison.
        if request.num_tokens <= room or (needed := blocks_needed(scheduler, request)) <= room:
            return
        self.seen += 1
        if self.seen == 1:
            logger.warning(
                "radixflow: request %s needs %d blocks for its prompt of %d tokens, and the pool has %d: vLLM will "
                "never start it, nor whoever waits behind it. Lower --max-model-len, or give the cache more memory "
                "(further ones are counted, not logged)",
                request.request_id,
                needed,
                request.num_tokens,
                room,
            )
