"""Says whether an engine's configuration is one that RadixFlow may schedule."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from radixflow.engine.compat import check_release, check_relied_on, source_sha256
from radixflow.engine.rewrite import Rewrite, rewrite_function
from radixflow.errors import UnsupportedError


def prepare_rewrite(schedule: Callable[..., Any], version: str) -> Rewrite:
    """Check the running vLLM against the table and rewrite its ``schedule()``.

    Raises:
        UnsupportedError: another version or source, or the places of the edit don't match.
    """
    if not inspect.isfunction(schedule) or hasattr(schedule, "__wrapped__"):
        raise UnsupportedError(
            f"vLLM {version}'s Scheduler.schedule is {schedule!r}, a wrapper or another object put in its place; "
            'remove what replaced it, or set "on_unsupported": "native" to run as vLLM does'
        )
    try:
        digest = source_sha256(schedule)
    except (OSError, TypeError) as error:
        raise UnsupportedError(
            f"the source of vLLM {version}'s Scheduler.schedule() can't be read ({error})"
        ) from error
    release = check_release(version, digest)
    check_relied_on(release)
    return rewrite_function(schedule, release)


def refusals(vllm_config: Any) -> list[str]:  # noqa: ANN401
    """Say what in a ``VllmConfig`` RadixFlow was not shown right with, and what to change; empty if nothing."""
    found = []
    pipeline = vllm_config.parallel_config.pipeline_parallel_size
    if pipeline > 1:
        found.append(
            f"pipeline_parallel_size is {pipeline}: rounds of several stages overlap, and a state that one of "
            "them writes would look ready; use --pipeline-parallel-size 1 (tensor parallelism is fine)"
        )
    transfer = vllm_config.kv_transfer_config
    if transfer is not None and transfer.kv_connector is not None:
        found.append(
            f"kv_transfer_config.kv_connector is {transfer.kv_connector!r}: states that arrive from elsewhere are "
            "not in the tables RadixFlow reads; leave --kv-transfer-config out"
        )
    model = vllm_config.model_config
    if model.is_encoder_decoder:
        found.append("the model is an encoder-decoder: its prompts don't share a decoder prefix; use vLLM's scheduler")
    if model.is_diffusion:
        found.append("the model is a diffusion model, which recomputes its canvas each step; use vLLM's scheduler")
    return found


def check_configuration(vllm_config: Any) -> None:  # noqa: ANN401
    """Refuse what :func:`refusals` finds.

    Raises:
        UnsupportedError: with every reason and its fix.
    """
    reasons = refusals(vllm_config)
    if reasons:
        raise UnsupportedError(
            "RadixFlow can't schedule this engine: "
            + "; ".join(reasons)
            + '. Or set "on_unsupported": "native" to run as vLLM does'
        )
