"""Tells a state that is being written in this very round from a pool that ran out.

``allocate_slots`` answers None for a pending state and for an exhausted pool alike. Only the first may be
deferred: passing an exhausted request would let small ones take the blocks it waits for.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def recurrent_managers(kv_cache_manager: Any) -> list[tuple[int, Any]]:  # noqa: ANN401
    """List ``(group, manager)`` of the cache groups that hold recurrent states.

    They are the managers that remember which states were registered in the current step.
    """
    managers: Iterable[Any] = kv_cache_manager.coordinator.single_type_managers
    return [(group, manager) for group, manager in enumerate(managers) if hasattr(manager, "cached_blocks_this_step")]


def is_pending(new_computed_blocks: Any, managers: list[tuple[int, Any]]) -> bool:  # noqa: ANN401
    """Whether the last block of the hit, in any recurrent group, was registered in this step.

    Args:
        new_computed_blocks: vLLM's ``KVCacheBlocks`` of the hit: a block list per cache group.
        managers: what :func:`recurrent_managers` returned.
    """
    for group, manager in managers:
        blocks = new_computed_blocks.blocks[group]
        if blocks and blocks[-1].block_hash in manager.cached_blocks_this_step:
            return True
    return False
