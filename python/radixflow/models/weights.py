"""Seeded random weights of the embedded models, as the bytes of one safetensors file.

The same bytes come out on every machine: the generator's raw 64-bit stream (which numpy guarantees, unlike
its normal deviates) goes through integer arithmetic and IEEE multiplications only, and the file is laid out
here rather than by a library whose padding may change.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt

from radixflow.models.shape import ModelShape

# Standard deviation of the sum of four independent uniform 16-bit integers.
_SUM_STD = math.sqrt(4 * (2**32 - 1) / 12)
_SUM_MEAN = 4 * (2**16 - 1) / 2

# Logits of about this standard deviation: label log-probabilities then lie apart by tenths to several nats,
# well above what bfloat16 arithmetic adds, instead of by the hundredths of an untrained head.
LOGIT_STD = 2.5

# Decay per token of the linear layers, as exp(A_log): a memory of about a hundred tokens and more, so that a
# wrong recurrent state shows in the answer.  Branches of the residual stream add less than their input, which
# keeps rounding differences from growing layer by layer.
A_LOG = (-4.5, -5.5, -6.5)


class Source:
    """Approximately normal float32 arrays from one seed, in the order they are asked for."""

    def __init__(self, seed: int) -> None:
        self._bits = np.random.PCG64(seed)

    def normal(self, shape: tuple[int, ...], std: float) -> npt.NDArray[np.float32]:
        """Return an array of `shape` with mean 0 and standard deviation `std`."""
        raw = self._bits.random_raw(math.prod(shape)).astype("<u8")
        total = raw.view("<u2").reshape(-1, 4).sum(axis=1, dtype=np.int64)
        values: npt.NDArray[np.float64] = (total - _SUM_MEAN) * (std / _SUM_STD)
        return values.astype(np.float32).reshape(shape)


def to_bfloat16(values: npt.NDArray[np.float32]) -> npt.NDArray[np.uint16]:
    """Round finite float32 values to bfloat16, ties to even, and return the 16-bit patterns (same shape).

    Raises:
        ValueError: when a value is not finite.
    """
    if not np.isfinite(values).all():
        raise ValueError("weights must be finite: found inf or nan")
    bits = np.ascontiguousarray(values, dtype="<f4").view(np.dtype("<u4"))
    rounding = np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    rounded: npt.NDArray[np.uint32] = (bits + rounding) >> np.uint32(16)
    return rounded.astype(np.dtype("<u2"))


def linear(source: Source, rows: int, columns: int, gain: float = 1.0) -> npt.NDArray[np.float32]:
    """Weights (rows x columns) of a projection that maps unit-variance inputs to variance gain**2."""
    return source.normal((rows, columns), gain / math.sqrt(columns))


def _mlp(source: Source, prefix: str, hidden: int, inner: int) -> Iterator[tuple[str, npt.NDArray[np.float32]]]:
    yield f"{prefix}.gate_proj.weight", linear(source, inner, hidden)
    yield f"{prefix}.up_proj.weight", linear(source, inner, hidden)
    yield f"{prefix}.down_proj.weight", linear(source, hidden, inner, gain=0.3)


def _linear_attention(
    source: Source, prefix: str, shape: ModelShape, a_log: float
) -> Iterator[tuple[str, npt.NDArray[np.float32]]]:
    width = shape.linear_heads * shape.linear_head_dim
    yield f"{prefix}.in_proj_qkvz.weight", linear(source, 4 * width, shape.hidden_size)
    yield f"{prefix}.in_proj_ba.weight", linear(source, 2 * shape.linear_heads, shape.hidden_size)
    taps = (shape.conv_channels, 1, shape.conv_kernel)
    yield f"{prefix}.conv1d.weight", source.normal(taps, 1.0 / math.sqrt(shape.conv_kernel))
    yield f"{prefix}.dt_bias", np.ones(shape.linear_heads, dtype=np.float32)
    yield f"{prefix}.A_log", np.full(shape.linear_heads, a_log, dtype=np.float32)
    yield f"{prefix}.norm.weight", np.ones(shape.linear_head_dim, dtype=np.float32)
    yield f"{prefix}.out_proj.weight", linear(source, shape.hidden_size, width, gain=0.4)


def _full_attention(source: Source, prefix: str, shape: ModelShape) -> Iterator[tuple[str, npt.NDArray[np.float32]]]:
    query, keys = shape.num_heads * shape.head_dim, shape.num_kv_heads * shape.head_dim
    # Queries carry their output gate beside them, head by head.
    yield f"{prefix}.q_proj.weight", linear(source, 2 * query, shape.hidden_size)
    yield f"{prefix}.k_proj.weight", linear(source, keys, shape.hidden_size)
    yield f"{prefix}.v_proj.weight", linear(source, keys, shape.hidden_size)
    yield f"{prefix}.o_proj.weight", linear(source, shape.hidden_size, query, gain=0.6)
    # Norms of this family multiply by one plus the weight.
    yield f"{prefix}.q_norm.weight", np.zeros(shape.head_dim, dtype=np.float32)
    yield f"{prefix}.k_norm.weight", np.zeros(shape.head_dim, dtype=np.float32)


def _experts(source: Source, prefix: str, shape: ModelShape) -> Iterator[tuple[str, npt.NDArray[np.float32]]]:
    yield f"{prefix}.gate.weight", linear(source, shape.num_experts, shape.hidden_size)
    for expert in range(shape.num_experts):
        yield from _mlp(source, f"{prefix}.experts.{expert}", shape.hidden_size, shape.expert_size)
    yield from _mlp(source, f"{prefix}.shared_expert", shape.hidden_size, shape.expert_size)
    yield f"{prefix}.shared_expert_gate.weight", linear(source, 1, shape.hidden_size)


def tensors(shape: ModelShape) -> Iterator[tuple[str, npt.NDArray[np.float32]]]:
    """Yield (Hugging Face tensor name, float32 values) in file order; the order decides the values."""
    source = Source(shape.seed)
    # Small against the layers' outputs, or the last token alone would decide the answer.
    yield "model.embed_tokens.weight", source.normal((shape.vocab_size, shape.hidden_size), 0.5)
    for index, kind in enumerate(shape.layer_types):
        layer = f"model.layers.{index}"
        yield f"{layer}.input_layernorm.weight", np.zeros(shape.hidden_size, dtype=np.float32)
        yield f"{layer}.post_attention_layernorm.weight", np.zeros(shape.hidden_size, dtype=np.float32)
        if kind == "linear_attention":
            a_log = A_LOG[index % len(A_LOG)]
            yield from _linear_attention(source, f"{layer}.linear_attn", shape, a_log)
            yield from _mlp(source, f"{layer}.mlp", shape.hidden_size, shape.intermediate_size)
        else:
            yield from _full_attention(source, f"{layer}.self_attn", shape)
            yield from _experts(source, f"{layer}.mlp", shape)
    yield "model.norm.weight", np.zeros(shape.hidden_size, dtype=np.float32)
    yield "lm_head.weight", linear(source, shape.vocab_size, shape.hidden_size, gain=LOGIT_STD)


def pack(named: Iterable[tuple[str, npt.NDArray[np.float32]]]) -> bytes:
    """Return a whole safetensors file: header length (8 bytes), JSON header, then bfloat16 data, in the order given."""
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    chunks: list[bytes] = []
    offset = 0
    for name, values in named:
        data = to_bfloat16(values).tobytes()
        header[name] = {
            "dtype": "BF16",
            "shape": list(values.shape),
            "data_offsets": [offset, offset + len(data)],
        }
        chunks.append(data)
        offset += len(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # the format asks for data aligned to eight bytes
    return struct.pack("<Q", len(text)) + text + b"".join(chunks)


def safetensors_bytes(shape: ModelShape) -> bytes:
    """Return the embedded model's weights as a safetensors file."""
    return pack(tensors(shape))
