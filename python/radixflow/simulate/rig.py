"""Build vLLM's real scheduler by hand, without a model, and feed it requests.

Everything that decides is vLLM's own: scheduler, KV-cache manager, block pool, block hashes. Only the
worker is missing; :mod:`radixflow.simulate.stepper` stands in for it.
"""

from __future__ import annotations

import functools
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from vllm.config import (
    CacheConfig,
    DeviceConfig,
    KVTransferConfig,
    ModelConfig,
    ParallelConfig,
    SchedulerConfig,
    VllmConfig,
)
from vllm.pooling_params import PoolingParams
from vllm.sampling_params import SamplingParams
from vllm.utils.hashing import sha256
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec, MambaSpec
from vllm.v1.request import Request
from vllm.v1.structured_output import StructuredOutputManager

END_TOKEN = 2
_TINY_MODEL: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 16,
    "intermediate_size": 16,
    "num_attention_heads": 1,
    "num_key_value_heads": 1,
    "num_hidden_layers": 1,
    "vocab_size": 512,
    "max_position_embeddings": 131072,
    "torch_dtype": "float32",
}


@functools.cache
def _model_config(max_model_len: int) -> ModelConfig:
    """Build the configuration of a model that is never loaded; the cache groups below say what it would hold."""
    with tempfile.TemporaryDirectory(prefix="radixflow-rig-") as folder:
        (Path(folder) / "config.json").write_text(json.dumps(_TINY_MODEL))
        return ModelConfig(model=folder, skip_tokenizer_init=True, dtype="float32", max_model_len=max_model_len)


def kv_cache_config(
    num_blocks: int,
    block_size: int,
    family: Literal["hybrid", "attention", "recurrent"],
    checkpoint_blocks: int = 0,
    retention: int | None = 0,
    state_groups: int = 1,
) -> KVCacheConfig:
    """Describe the cache of a model family: attention, recurrent states in ``align`` mode, or both.

    Args:
        num_blocks: blocks of the pool, the null block included.
        block_size: tokens a block.
        family: which groups there are.
        checkpoint_blocks: states that a chunk stores besides the one at its end, as FlashKDA's kernels do.
        retention: vLLM's ``prefix_cache_retention_interval``, tokens. 0, its default: only the state at a prompt's
            last boundary and at its junction can be hit; None: that of every chunk's end.
        state_groups: groups of recurrent layers. vLLM makes groups of equal size, as many layers each as there are of
            the rarest kind: three linear layers for each full one make three.
    """
    groups = []
    if family != "recurrent":
        attention = FullAttentionSpec(block_size=block_size, num_kv_heads=1, head_size=1, dtype=torch.float32)
        groups.append(KVCacheGroupSpec(["attention"], attention))
    if family != "attention":
        state = MambaSpec(
            block_size=block_size,
            shapes=((1, 1),),
            dtypes=(torch.float32,),
            mamba_cache_mode="align",
            num_prefill_checkpoint_blocks=checkpoint_blocks,
        )
        groups += [KVCacheGroupSpec([f"state{number or ''}"], state) for number in range(state_groups)]
    return KVCacheConfig(
        num_blocks=num_blocks,
        kv_cache_tensors=[],
        kv_cache_groups=groups,
        prefix_cache_retention_interval=retention,
    )


def vllm_config(
    *,
    block_size: int = 16,
    num_blocks: int = 10_000,
    budget: int = 8192,
    max_num_seqs: int = 256,
    max_model_len: int = 65_536,
    caching: bool = True,
    async_scheduling: bool = False,
    queue: Literal["fcfs", "priority"] = "fcfs",
    settings: dict[str, Any] | None = None,
    pipeline_parallel_size: int = 1,
    kv_connector: str | None = None,
    reserve_full_prompt: bool = True,
    match_unit: int | None = None,
) -> VllmConfig:
    """Build an engine configuration. Sizes are tokens, but for ``num_blocks`` and ``max_num_seqs`` (rows).

    Args:
        settings: RadixFlow's own, as under ``--additional-config``'s key ``radixflow``.
        reserve_full_prompt: vLLM's ``scheduler_reserve_full_isl``: admit a prompt only if all of it fits.
        match_unit: vLLM's ``--prefix-match-unit``: tokens a block hash covers, default ``block_size``.
    """
    config = VllmConfig(
        scheduler_config=SchedulerConfig(
            # vLLM wants a token a row.
            max_num_seqs=min(max_num_seqs, budget),
            max_num_batched_tokens=budget,
            max_model_len=max_model_len,
            enable_chunked_prefill=True,
            is_encoder_decoder=False,
            policy=queue,
            watermark=0.0,
            scheduler_reserve_full_isl=reserve_full_prompt,
        ),
        model_config=_model_config(max_model_len),
        cache_config=CacheConfig(
            block_size=block_size, enable_prefix_caching=caching, cache_dtype="auto", mamba_cache_mode="align"
        ),
        parallel_config=ParallelConfig(pipeline_parallel_size=pipeline_parallel_size),
        device_config=DeviceConfig(device="cpu"),
        kv_transfer_config=KVTransferConfig(kv_connector=kv_connector, kv_role="kv_both") if kv_connector else None,
        additional_config={} if settings is None else {"radixflow": settings},
    )
    # Building the configuration adapts it to this machine; the experiment says what the engine would have.
    config.scheduler_config.async_scheduling = async_scheduling
    config.cache_config.num_gpu_blocks = num_blocks
    config.cache_config.block_size = block_size
    config.cache_config.mamba_cache_mode = "align"
    config.cache_config.enable_prefix_caching = caching
    config.cache_config.prefix_match_unit = match_unit
    return config


def build_scheduler(
    scheduler_class: type[Any],
    config: VllmConfig,
    family: Literal["hybrid", "attention", "recurrent"] = "hybrid",
    log_stats: bool = False,
    checkpoint_blocks: int = 0,
    retention: int | None = 0,
    state_groups: int = 1,
) -> Any:  # noqa: ANN401
    """Build a scheduler as vLLM's engine core does, around a cache of ``family``; see :func:`kv_cache_config`."""
    init_none_hash(sha256)
    cache = config.cache_config
    kv_cache = kv_cache_config(
        cache.num_gpu_blocks, cache.block_size, family, checkpoint_blocks, retention, state_groups
    )
    return scheduler_class(
        vllm_config=config,
        kv_cache_config=kv_cache,
        structured_output_manager=StructuredOutputManager(config),
        block_size=cache.block_size,
        hash_block_size=cache.prefix_match_unit or cache.block_size,
        log_stats=log_stats,
    )


def make_request(
    request_id: str,
    tokens: Sequence[int],
    *,
    block_size: int,
    salt: str | None = None,
    max_tokens: int = 1,
    priority: int = 0,
    arrival_time: float = 0.0,
    pooling: bool = False,
    extra_args: dict[str, Any] | None = None,
) -> Request:
    """Build a request with its block hashes.

    Args:
        tokens: token ids of the prompt.
        block_size: tokens a block hash covers; the scheduler's.
        max_tokens: tokens to generate; prefill-only requests have 1.
        pooling: read by a pooler instead of sampling.
        extra_args: what the client passes through to the scheduler, hints for one.
    """
    sampling = None
    if not pooling:
        sampling = SamplingParams(max_tokens=max_tokens, temperature=0.0, ignore_eos=True, extra_args=extra_args)
    if sampling is not None:
        sampling.update_from_generation_config({}, eos_token_id=END_TOKEN)
    return Request(
        request_id=request_id,
        prompt_token_ids=list(tokens),
        sampling_params=sampling,
        pooling_params=PoolingParams(task="embed", extra_kwargs=extra_args) if pooling else None,
        cache_salt=salt,
        priority=priority,
        arrival_time=arrival_time,
        block_hasher=get_request_block_hasher(block_size, sha256),
    )
