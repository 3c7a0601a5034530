"""vLLM's own look-up on the same keys: a prompt becomes one hash a block, and the pool has a dictionary of hashes.

It answers another question (what is computed, in whole blocks), and of waiting requests it knows nothing; but it is
what a scheduler without an index has, and its cost is the yardstick.
"""

from __future__ import annotations

import os
from itertools import islice
from typing import Any

from prefix_index.keys import Workload
from prefix_index.subjects import Operations, Subject

BLOCK = 16


def blocks_of(workload: Workload) -> int:
    """Count the blocks that all keys of a workload need: those shared, and those of each branch."""
    shared = workload.shared // BLOCK
    return workload.states * (shared + workload.branches * (workload.length // BLOCK - shared))


class BlockHashes(Subject):
    """An attention-only cache of vLLM 0.29.0, which is its simplest look-up. Keys are requests."""

    name = "vLLM blocks"
    granularity = BLOCK

    def __init__(self, blocks: int) -> None:
        """Import vLLM, which takes seconds; ImportError where it is missing. `blocks` is what all keys need."""
        os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
        from vllm.sampling_params import SamplingParams
        from vllm.utils.hashing import sha256
        from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
        from vllm.v1.core.sched.scheduler import Scheduler
        from vllm.v1.request import Request

        from radixflow.simulate import rig

        init_none_hash(sha256)
        self.request = Request
        self.sampling = SamplingParams(max_tokens=1)
        self.hasher = get_request_block_hasher(BLOCK, sha256)
        config = rig.vllm_config(block_size=BLOCK, num_blocks=blocks + 1)
        self.build = lambda: rig.build_scheduler(Scheduler, config, family="attention").kv_cache_manager

    def prepare(self, keys: list[list[int]]) -> list[Any]:
        """Make requests without hashes."""
        return [
            self.request(str(number), prompt_token_ids=key, sampling_params=self.sampling, pooling_params=None)
            for number, key in enumerate(keys)
        ]

    def convert(self, prepared: Any) -> Any:  # noqa: ANN401
        """Hash the prompt's whole blocks, as vLLM does when a request arrives."""
        prepared.block_hashes = self.hasher(prepared)
        return prepared

    def fresh(self) -> Operations:
        """Insert is the look-up and entering the blocks it did not find; match is the look-up alone."""
        manager = self.build()
        pool, look_up = manager.block_pool, manager.coordinator.find_longest_cache_hit
        free = iter(pool.blocks[1:])

        def insert(request: Any) -> None:  # noqa: ANN401
            (found,), _, _ = look_up(request.block_hashes, request.num_tokens - 1)
            total = len(request.block_hashes)
            blocks = [*found, *islice(free, total - len(found))]
            pool.cache_full_blocks(request, blocks, len(found), total, BLOCK, 0)

        def match(request: Any) -> int:  # noqa: ANN401
            return int(look_up(request.block_hashes, request.num_tokens - 1)[1])

        return {"insert": insert, "match": match}
