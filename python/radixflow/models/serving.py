"""What `vllm serve` needs to run the embedded model: environment variables and flags, with the reasons."""

from __future__ import annotations

from importlib import metadata
from typing import Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field

from radixflow.models.shape import ModelShape

Device = Literal["cpu", "cuda"]


class ServeSettings(BaseModel):
    """Environment and flags of one `vllm serve` process."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    device: Device
    block_size: int = Field(description="tokens in one prefix-cache block")
    max_model_len: int = Field(description="tokens of the longest prompt plus answer")
    max_num_batched_tokens: int = Field(description="token budget of one scheduling round")
    max_num_seqs: int = Field(description="requests that may run at once")
    env: dict[str, str]
    flags: list[str]


class Served(Protocol):
    """What a model's shape says about serving it."""

    @property
    def block_size(self) -> int:
        """Tokens in one prefix-cache block."""

    @property
    def max_position(self) -> int:
        """Tokens of the longest prompt plus answer."""


def installed_device() -> Device:
    """Return the device the installed vLLM was built for; the CPU build carries `cpu` in its version."""
    try:
        version = metadata.version("vllm")
    except metadata.PackageNotFoundError:
        return "cpu"
    return "cpu" if "cpu" in version else "cuda"


def serve_settings(
    shape: Served | None = None,
    *,
    device: Device | None = None,
    max_num_batched_tokens: int = 16_384,
    max_num_seqs: int = 256,
) -> ServeSettings:
    """Return the settings that the embedded model needs.

    Args:
        shape: shape of the model served; gives the block size and the longest prompt.
        device: `cpu` or `cuda`; default what the installed vLLM is built for.
        max_num_batched_tokens: tokens; the default leaves the round budget out of the experiments.
        max_num_seqs: requests; likewise.
    """
    shape = ModelShape() if shape is None else shape
    device = installed_device() if device is None else device
    flags = [
        "--dtype=bfloat16",
        "--enforce-eager",
        "--enable-prefix-caching",
        "--mamba-cache-mode=align",
        f"--block-size={shape.block_size}",
        f"--max-model-len={shape.max_position}",
        f"--max-num-batched-tokens={max_num_batched_tokens}",
        f"--max-num-seqs={max_num_seqs}",
        "--generation-config=vllm",
        "--seed=0",
    ]
    env = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
    if device == "cpu":
        env |= {
            "VLLM_CPU_KVCACHE_SPACE": "1",  # GiB
            # Pinned threads fight over contended cores: single steps took up to 2.4 s instead of 10 ms.
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",
            "OMP_NUM_THREADS": "1",
            # Log-probabilities are compiled on first use even under --enforce-eager: 3 to 28 s instead of
            # 0.05 s.
            "TORCHDYNAMO_DISABLE": "1",
        }
    else:
        # Several servers share the device, and a model of a few megabytes needs next to nothing.
        flags.append("--gpu-memory-utilization=0.2")
    return ServeSettings(
        device=device,
        block_size=shape.block_size,
        max_model_len=shape.max_position,
        max_num_batched_tokens=max_num_batched_tokens,
        max_num_seqs=max_num_seqs,
        env=env,
        flags=flags,
    )
