"""Tiny random-weight models of the hybrid families whose states vLLM can cache (`mamba_cache_mode=align`).

Each has its family's real architecture, two to four recurrent layers and one or two full ones, the embedded model's
tokenizer, and weights that any machine rebuilds byte for byte.  They answer nothing sensible; they show whether a state
that was stored at a junction is the state that the prompt's prefix has.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from radixflow.models.serving import Device, ServeSettings, serve_settings
from radixflow.models.shape import ModelShape
from radixflow.models.store import embedded_model, files_of, keep
from radixflow.models.weights import A_LOG, LOGIT_STD, Source, linear, pack

Tensors = Iterator[tuple[str, npt.NDArray[np.float32]]]

QWEN3_NEXT = "qwen3-next"
"""The embedded model itself, by its family's name."""

# The state of a Mamba-2 layer is asked for in fp32: what "auto" means depends on the processor, and a rounded state
# would make answers depend on where chunks end.
_STATE_FLAG = "--mamba-ssm-cache-dtype=float32"
_STATE_BYTES = 4
_ACTIVATION_BYTES = 2
# Sharper than an untrained head, whose attention over thousands of tokens is nearly their mean.
_QUERY_GAIN = 2.0


@dataclass(frozen=True)
class FamilyShape(ABC):
    """Sizes that the Mamba-2 families share; counts of elements unless they say otherwise.

    vLLM keeps a state and a block of keys and values in pages of one size, and raises the block size on its own where
    the state is larger: `state_page_bytes` must not exceed `attention_page_bytes`.
    """

    architecture: ClassVar[str]
    model_type: ClassVar[str]

    seed: int = 20_290
    vocab_size: int = 320
    hidden_size: int = 128
    intermediate_size: int = 256
    num_heads: int = 4
    """Heads of queries; keys and values have as many."""
    head_dim: int = 64
    mamba_heads: int = 4
    mamba_head_dim: int = 64
    state_size: int = 16
    """Columns of a recurrent head's state; its rows are `mamba_head_dim`."""
    conv_kernel: int = 4
    max_position: int = 8192
    """Tokens."""
    block_size: int = 32
    """Tokens in one prefix-cache block; the CPU's kernels want multiples of 32."""

    @property
    def mamba_size(self) -> int:
        """Inner width of a recurrent layer."""
        return self.mamba_heads * self.mamba_head_dim

    @property
    def conv_channels(self) -> int:
        """Channels of the short convolution: inputs, then what writes the state, then what reads it."""
        return self.mamba_size + 2 * self.state_size

    @property
    def state_page_bytes(self) -> int:
        """Bytes of the recurrent state of one layer of one request."""
        state = self.mamba_size * self.state_size * _STATE_BYTES
        return state + self.conv_channels * (self.conv_kernel - 1) * _ACTIVATION_BYTES

    @property
    def attention_page_bytes(self) -> int:
        """Bytes of the keys and values of one block of one full layer."""
        return 2 * _ACTIVATION_BYTES * self.num_heads * self.head_dim * self.block_size

    def hf_config(self, *, eos_token_id: int, pad_token_id: int) -> dict[str, object]:
        """Return `config.json` as Hugging Face and vLLM read it."""
        return {
            "architectures": [self.architecture],
            "model_type": self.model_type,
            "dtype": "bfloat16",
            "vocab_size": self.vocab_size,
            "hidden_size": self.hidden_size,
            "intermediate_size": self.intermediate_size,
            "num_attention_heads": self.num_heads,
            "num_key_value_heads": self.num_heads,
            "max_position_embeddings": self.max_position,
            "tie_word_embeddings": False,
            "use_cache": True,
            "eos_token_id": eos_token_id,
            "pad_token_id": pad_token_id,
            "bos_token_id": None,
            **self.own_config(),
        }

    @abstractmethod
    def own_config(self) -> dict[str, object]:
        """Return the keys of `config.json` that only this family has, or that it has otherwise."""

    @abstractmethod
    def tensors(self, source: Source) -> Tensors:
        """Yield (Hugging Face tensor name, float32 values) in file order; the order decides the values."""

    # Parts that the families name alike

    def _ones(self, name: str, size: int | None = None) -> Tensors:
        yield f"{name}.weight", np.ones(self.hidden_size if size is None else size, dtype=np.float32)

    def _embedding(self, source: Source, name: str, std: float = 0.5) -> Tensors:
        yield f"{name}.weight", source.normal((self.vocab_size, self.hidden_size), std)

    def _head(self, source: Source) -> Tensors:
        yield "lm_head.weight", linear(source, self.vocab_size, self.hidden_size, gain=LOGIT_STD)

    def _mixer(self, source: Source, prefix: str) -> Tensors:
        """Yield the weights of a Mamba-2 mixer with one group, whose heads remember about a hundred tokens and more."""
        inner, heads = self.mamba_size, self.mamba_heads
        yield f"{prefix}.in_proj.weight", linear(source, inner + self.conv_channels + heads, self.hidden_size)
        yield f"{prefix}.conv1d.weight", source.normal((self.conv_channels, 1, self.conv_kernel), 0.5)
        yield f"{prefix}.conv1d.bias", source.normal((self.conv_channels,), 0.1)
        decays = [A_LOG[head % len(A_LOG)] for head in range(heads)]
        yield f"{prefix}.A_log", np.array(decays, dtype=np.float32)
        yield f"{prefix}.D", np.ones(heads, dtype=np.float32)
        yield f"{prefix}.dt_bias", np.ones(heads, dtype=np.float32)
        yield from self._ones(f"{prefix}.norm", inner)
        yield f"{prefix}.out_proj.weight", linear(source, self.hidden_size, inner, gain=0.4)

    def _attention(self, source: Source, prefix: str, inputs: int | None = None) -> Tensors:
        width, inputs = self.num_heads * self.head_dim, self.hidden_size if inputs is None else inputs
        yield f"{prefix}.q_proj.weight", linear(source, width, inputs, gain=_QUERY_GAIN)
        yield f"{prefix}.k_proj.weight", linear(source, width, inputs)
        yield f"{prefix}.v_proj.weight", linear(source, width, inputs)
        yield f"{prefix}.o_proj.weight", linear(source, self.hidden_size, width, gain=0.6)


@dataclass(frozen=True)
class GraniteMoeHybrid(FamilyShape):
    """Recurrent or full layers, each with a gated MLP; positions are known from the states alone.

    Dense, as the family's small members are: every answer is then bitwise that of another order of chunks.
    """

    architecture = "GraniteMoeHybridForCausalLM"
    model_type = "granitemoehybrid"

    layers: tuple[str, ...] = ("linear_attention", "linear_attention", "full_attention", "linear_attention")

    def own_config(self) -> dict[str, object]:
        """Return Granite's keys."""
        return {
            "num_hidden_layers": len(self.layers),
            "layer_types": list(self.layers),
            "hidden_act": "silu",
            "num_local_experts": 0,
            "num_experts_per_tok": 0,
            "shared_intermediate_size": self.intermediate_size,
            "attention_multiplier": self.head_dim**-0.5,
            "embedding_multiplier": 1.0,
            "residual_multiplier": 1.0,
            "logits_scaling": 1.0,
            "position_embedding_type": "nope",
            "mamba_n_heads": self.mamba_heads,
            "mamba_d_head": self.mamba_head_dim,
            "mamba_d_state": self.state_size,
            "mamba_d_conv": self.conv_kernel,
            "mamba_expand": self.mamba_size // self.hidden_size,
            "mamba_n_groups": 1,
            "mamba_chunk_size": 256,
            "mamba_conv_bias": True,
            "mamba_proj_bias": False,
        }

    def tensors(self, source: Source) -> Tensors:
        """Yield Granite's tensors."""
        yield from self._embedding(source, "model.embed_tokens")
        for index, kind in enumerate(self.layers):
            layer = f"model.layers.{index}"
            yield from self._ones(f"{layer}.input_layernorm")
            yield from self._ones(f"{layer}.post_attention_layernorm")
            if kind == "full_attention":
                yield from self._attention(source, f"{layer}.self_attn")
            else:
                yield from self._mixer(source, f"{layer}.mamba")
            inner = self.intermediate_size
            yield f"{layer}.shared_mlp.input_linear.weight", linear(source, 2 * inner, self.hidden_size)
            yield f"{layer}.shared_mlp.output_linear.weight", linear(source, self.hidden_size, inner, gain=0.3)
        yield from self._ones("model.norm")
        yield from self._head(source)


@dataclass(frozen=True)
class FalconH1(FamilyShape):
    """Every layer has attention and a recurrence side by side, and a gated MLP."""

    architecture = "FalconH1ForCausalLM"
    model_type = "falcon_h1"

    layers: int = 2

    def own_config(self) -> dict[str, object]:
        """Return Falcon-H1's keys."""
        return {
            "num_hidden_layers": self.layers,
            "hidden_act": "silu",
            "head_dim": self.head_dim,
            "rope_theta": 10000.0,
            "mamba_d_ssm": self.mamba_size,
            "mamba_n_heads": self.mamba_heads,
            "mamba_d_head": self.mamba_head_dim,
            "mamba_d_state": self.state_size,
            "mamba_d_conv": self.conv_kernel,
            "mamba_expand": self.mamba_size // self.hidden_size,
            "mamba_n_groups": 1,
            "mamba_chunk_size": 256,
            "mamba_conv_bias": True,
            "mamba_proj_bias": False,
            "mamba_rms_norm": True,
            "projectors_bias": False,
        }

    def tensors(self, source: Source) -> Tensors:
        """Yield Falcon-H1's tensors."""
        yield from self._embedding(source, "model.embed_tokens")
        for index in range(self.layers):
            layer = f"model.layers.{index}"
            yield from self._ones(f"{layer}.input_layernorm")
            yield from self._ones(f"{layer}.pre_ff_layernorm")
            yield from self._attention(source, f"{layer}.self_attn")
            yield from self._mixer(source, f"{layer}.mamba")
            feed, inner = f"{layer}.feed_forward", self.intermediate_size
            yield f"{feed}.gate_proj.weight", linear(source, inner, self.hidden_size)
            yield f"{feed}.up_proj.weight", linear(source, inner, self.hidden_size)
            yield f"{feed}.down_proj.weight", linear(source, self.hidden_size, inner, gain=0.3)
        yield from self._ones("model.final_layernorm")
        yield from self._head(source)


@dataclass(frozen=True)
class Zamba2(FamilyShape):
    """Recurrent layers, some of which first take in what a shared transformer block makes of them and the embeddings.

    The block's attention is twice as wide as the model.  The head is the embedding, whose values are therefore small.
    """

    architecture = "Zamba2ForCausalLM"
    model_type = "zamba2"

    layers: tuple[str, ...] = ("linear_attention", "linear_attention", "hybrid", "linear_attention")
    adapter_rank: int = 16

    def own_config(self) -> dict[str, object]:
        """Return Zamba2's keys."""
        return {
            "num_hidden_layers": len(self.layers),
            "layers_block_type": list(self.layers),
            "hidden_act": "gelu",
            "tie_word_embeddings": True,
            "num_mem_blocks": 1,
            "use_shared_attention_adapter": False,
            "adapter_rank": self.adapter_rank,
            "use_mem_rope": True,
            "rope_theta": 10000.0,
            "add_bias_linear": False,
            "n_mamba_heads": self.mamba_heads,
            "mamba_d_state": self.state_size,
            "mamba_d_conv": self.conv_kernel,
            "mamba_expand": self.mamba_size // self.hidden_size,
            "mamba_ngroups": 1,
            "chunk_size": 256,
            "use_conv_bias": True,
        }

    def tensors(self, source: Source) -> Tensors:
        """Yield Zamba2's tensors."""
        yield from self._embedding(source, "model.embed_tokens", std=LOGIT_STD * self.hidden_size**-0.5)
        for index, kind in enumerate(self.layers):
            layer = f"model.layers.{index}"
            recurrent = layer
            if kind == "hybrid":
                recurrent = f"{layer}.mamba_decoder"
                yield f"{layer}.linear.weight", linear(source, self.hidden_size, self.hidden_size, gain=0.6)
                yield from self._transformer(source, f"{layer}.shared_transformer")
            yield from self._ones(f"{recurrent}.input_layernorm")
            yield from self._mixer(source, f"{recurrent}.mamba")
        yield from self._ones("model.final_layernorm")

    def _transformer(self, source: Source, prefix: str) -> Tensors:
        inner = self.intermediate_size
        yield from self._ones(f"{prefix}.input_layernorm", 2 * self.hidden_size)
        yield from self._ones(f"{prefix}.pre_ff_layernorm")
        yield from self._attention(source, f"{prefix}.self_attn", 2 * self.hidden_size)
        feed = f"{prefix}.feed_forward"
        yield f"{feed}.gate_up_proj.weight", linear(source, 2 * inner, self.hidden_size)
        yield f"{feed}.down_proj.weight", linear(source, self.hidden_size, inner, gain=0.6)
        for block in range(self.layers.count("hybrid")):
            adapter = f"{feed}.gate_up_proj_adapter_list.{block}"
            yield f"{adapter}.0.weight", linear(source, self.adapter_rank, self.hidden_size)
            yield f"{adapter}.1.weight", linear(source, 2 * inner, self.adapter_rank, gain=0.3)


@dataclass(frozen=True)
class NemotronH(FamilyShape):
    """A layer is a recurrence (M), attention (*) or an MLP of squared ReLU (-); the states alone tell positions."""

    architecture = "NemotronHForCausalLM"
    model_type = "nemotron_h"

    pattern: str = "M-M*-M-"

    def own_config(self) -> dict[str, object]:
        """Return Nemotron-H's keys."""
        return {
            "num_hidden_layers": len(self.pattern),
            "hybrid_override_pattern": self.pattern,
            "head_dim": self.head_dim,
            "mlp_hidden_act": "relu2",
            "mlp_bias": False,
            "use_bias": False,
            "mamba_num_heads": self.mamba_heads,
            "mamba_head_dim": self.mamba_head_dim,
            "mamba_hidden_act": "silu",
            "mamba_ssm_cache_dtype": "float32",
            "ssm_state_size": self.state_size,
            "n_groups": 1,
            "conv_kernel": self.conv_kernel,
            "expand": self.mamba_size // self.hidden_size,
            "use_conv_bias": True,
            "chunk_size": 256,
        }

    def tensors(self, source: Source) -> Tensors:
        """Yield Nemotron-H's tensors."""
        yield from self._embedding(source, "backbone.embeddings")
        for index, kind in enumerate(self.pattern):
            layer = f"backbone.layers.{index}"
            yield from self._ones(f"{layer}.norm")
            mixer = f"{layer}.mixer"
            if kind == "M":
                yield from self._mixer(source, mixer)
            elif kind == "*":
                yield from self._attention(source, mixer)
            else:
                yield f"{mixer}.up_proj.weight", linear(source, self.intermediate_size, self.hidden_size)
                yield f"{mixer}.down_proj.weight", linear(source, self.hidden_size, self.intermediate_size, gain=0.3)
        yield from self._ones("backbone.norm_f")
        yield from self._head(source)


_SHAPES: Mapping[str, Callable[[], FamilyShape]] = MappingProxyType(
    {
        # Attention as wide as the model: fewer columns of state, or it would not fit a page.
        "granite-moe-hybrid": lambda: GraniteMoeHybrid(head_dim=32, mamba_heads=2),
        "falcon-h1": lambda: FalconH1(block_size=64, state_size=32),
        "zamba2": Zamba2,
        "nemotron-h": lambda: NemotronH(block_size=64, state_size=32),
    }
)

FAMILIES: tuple[str, ...] = (QWEN3_NEXT, *_SHAPES)
"""Names of the families, as `family_model` and `family_settings` take them."""


def family_shape(name: str) -> FamilyShape | ModelShape:
    """Return the sizes of a family's tiny model.

    Raises:
        ValueError: an unknown name; the message lists the known ones.
    """
    if name == QWEN3_NEXT:
        return ModelShape()
    if name not in _SHAPES:
        raise ValueError(f"family is {name!r}, which is unknown; known: {', '.join(FAMILIES)}")
    return _SHAPES[name]()


def family_model(name: str, *, root: Path | None = None) -> Path:
    """Return the folder of a family's tiny model, building it if it is missing or damaged.

    Args:
        name: one of `FAMILIES`.
        root: cache folder; default `home()`.

    Raises:
        ValueError: an unknown name.
        ModelStoreError: when the cache folder cannot be written.
    """
    shape = family_shape(name)
    if isinstance(shape, ModelShape):
        return embedded_model(shape, root=root)
    files = files_of(shape, pack(shape.tensors(Source(shape.seed))))
    return keep(f"tiny-{name}", files, {"seed": shape.seed, "family": name, "shape": asdict(shape)}, root=root)


def family_settings(name: str, *, device: Device | None = None) -> ServeSettings:
    """Return the environment and the `vllm serve` flags that a family's tiny model needs.

    Args:
        name: one of `FAMILIES`.
        device: `cpu` or `cuda`; default what the installed vLLM is built for.

    Raises:
        ValueError: an unknown name.
    """
    shape = family_shape(name)
    serve = serve_settings(shape, device=device)
    if isinstance(shape, ModelShape):
        return serve
    return serve.model_copy(update={"flags": [*serve.flags, _STATE_FLAG]})
