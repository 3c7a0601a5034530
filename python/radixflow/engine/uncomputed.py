"""Takes back what vLLM put into the prefix cache for tokens that will never be computed.

vLLM registers a chunk's blocks while it schedules the chunk. Under the priority policy a request that already
has its chunk may be preempted later in the same call: the chunk is withdrawn, its blocks stay registered, and
whoever shares the prefix starts from states and attention that nobody wrote (vLLM #57580).
"""

from __future__ import annotations

from typing import Any


def drop_uncomputed(kv_cache_manager: Any, request: Any) -> int:  # noqa: ANN401
    """Remove a request's blocks that end beyond its computed tokens from the prefix cache.

    To be called while the request still has its blocks. Rounds in flight count as computed, as in vLLM's own
    account: workers run them in order, whatever happens to the request. Other blocks of the same hash stay.

    Returns:
        How many blocks were removed.
    """
    computed = request.num_computed_tokens
    pool = kv_cache_manager.block_pool
    dropped = 0
    for manager in kv_cache_manager.coordinator.single_type_managers:
        blocks = manager.req_to_blocks.get(request.request_id, ())
        for block in blocks[computed // manager.block_size :]:
            if block.is_null or block.block_hash is None or block.block_hash_num_tokens <= computed:
                continue
            # A block may be known by a shorter prefix that ends inside it, too.
            hashes = {block.block_hash, *pool.cached_block_hashes_by_block.get(block.block_id, ())}
            kv_cache_manager.evict_blocks({block.block_id})
            dropped += 1
            being_written = getattr(manager, "cached_blocks_this_step", None)
            if being_written:
                # If another request writes the same prefix in this call, its block still has the hash.
                known = pool.cached_block_hash_to_block
                being_written.difference_update(key for key in hashes if known.get_one_block(key) is None)
    return dropped


def before_preemption(controller: Any, kv_cache_manager: Any, request: Any) -> None:  # noqa: ANN401
    """Drop what a request that is about to be preempted won't compute; a failure is counted, never raised."""
    try:
        dropped = drop_uncomputed(kv_cache_manager, request)
        if dropped:
            controller.recorder.totals["uncomputed_blocks"] += dropped
    except Exception as error:  # noqa: BLE001
        controller._fail("uncomputed", error)
