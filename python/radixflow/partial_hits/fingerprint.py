"""What a check of hits inside blocks holds for: shapes, number formats, device and release; not weights."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

# They say where a model lies and who wrote its file, not what is computed.
_IRRELEVANT = frozenset({"_name_or_path", "name_or_path", "transformers_version", "id2label", "label2id"})


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """A digest, and the parts of it that a person can read."""

    digest: str
    about: dict[str, str]


def fingerprint(vllm_config: Any, version: str) -> Fingerprint:  # noqa: ANN401
    """Describe an engine by what decides how a state is computed and copied.

    Args:
        vllm_config: vLLM's ``VllmConfig``.
        version: of vLLM; a local label doesn't count.
    """
    model, cache = vllm_config.model_config, vllm_config.cache_config
    shape = _plain(model.hf_config.to_dict())
    architectures = getattr(model.hf_config, "architectures", None) or ["unknown"]
    about = {
        "vllm": version.partition("+")[0],
        "device": str(vllm_config.device_config.device_type),
        "architecture": str(architectures[0]),
        "dtype": str(model.dtype),
        "quantization": str(model.quantization),
        "cache_dtype": str(cache.cache_dtype),
        "mamba_cache_dtype": f"{cache.mamba_cache_dtype}/{cache.mamba_ssm_cache_dtype}",
        "tensor_parallel_size": str(vllm_config.parallel_config.tensor_parallel_size),
    }
    text = json.dumps({"about": about, "shape": shape}, sort_keys=True, default=str)
    return Fingerprint(hashlib.sha256(text.encode()).hexdigest()[:32], about)


def _plain(value: Any) -> Any:  # noqa: ANN401
    """Drop what is irrelevant, at any depth; architectures too, as the task's head computes no state."""
    if isinstance(value, dict):
        dropped = _IRRELEVANT | {"architectures", "num_labels", "problem_type"}
        return {str(name): _plain(inner) for name, inner in value.items() if name not in dropped}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value
