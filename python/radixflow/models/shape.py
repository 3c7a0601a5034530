"""The shape of the embedded model and the `config.json` that says it to vLLM."""

from __future__ import annotations

from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

# The recurrent state of one Gated-DeltaNet layer: fp32 matrices plus the bf16 window of the short
# convolution.
_STATE_BYTES = 4
_ACTIVATION_BYTES = 2


class ModelShape(BaseModel):
    """Sizes of a Qwen3-Next style hybrid; every size is a count of elements unless it says otherwise.

    The defaults are the smallest shape that vLLM 0.29.0 runs on a CPU with a prefix-cache block of 32 tokens:
    the CPU kernels want head dimension 128 in the linear layers and a rotary dimension of 64 (256 x 0.25).

    Raises:
        pydantic.ValidationError: for sizes that do not fit together, naming the field and what would fit.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    seed: int = Field(default=20_290, ge=0, description="seed of the weight generator")
    vocab_size: int = Field(default=320, ge=260, description="tokens; 256 bytes, merges and special tokens")
    hidden_size: int = Field(default=128, ge=32)
    intermediate_size: int = Field(default=256, ge=32)
    num_layers: int = Field(default=4, ge=4, description="three linear layers, then a full one, repeated")
    full_attention_interval: int = Field(default=4, ge=2)
    num_heads: int = Field(default=4, ge=1)
    num_kv_heads: int = Field(default=4, ge=1)
    head_dim: int = Field(default=256, ge=64)
    linear_heads: int = Field(default=1, ge=1, description="key and value heads of a linear layer")
    linear_head_dim: int = Field(default=128, ge=64)
    conv_kernel: int = Field(default=4, ge=2, description="taps of the short convolution")
    num_experts: int = Field(default=4, ge=2)
    experts_per_token: int = Field(
        default=4, ge=1, description="all of them: a near-tie in the router must not flip an answer"
    )
    expert_size: int = Field(default=64, ge=32, description="inner size of one expert and of the shared one")
    max_position: int = Field(default=8192, ge=64, description="tokens")
    block_size: int = Field(default=32, ge=32, description="tokens in one prefix-cache block")

    @model_validator(mode="after")
    def _fits_one_page(self) -> Self:
        if self.num_layers % self.full_attention_interval:
            raise ValueError(
                f"num_layers={self.num_layers} must be a multiple of full_attention_interval="
                f"{self.full_attention_interval}, so that the last layer is a full one (it holds the experts)"
            )
        if self.num_heads % self.num_kv_heads:
            raise ValueError(f"num_heads={self.num_heads} must be a multiple of num_kv_heads={self.num_kv_heads}")
        # vLLM keeps a recurrent state and a block of keys and values in pages of one size; where the state is
        # larger it raises the block size on its own, and the prefixes we mean to share fall below one block.
        if self.attention_page_bytes < self.state_page_bytes:
            raise ValueError(
                f"block_size={self.block_size} gives an attention page of {self.attention_page_bytes} B, "
                f"less than a recurrent state ({self.state_page_bytes} B); "
                "raise num_kv_heads, head_dim or block_size"
            )
        return self

    @property
    def attention_page_bytes(self) -> int:
        """Bytes of the keys and values of one block of one full layer."""
        return 2 * _ACTIVATION_BYTES * self.num_kv_heads * self.head_dim * self.block_size

    @property
    def conv_channels(self) -> int:
        """Channels of the short convolution: queries, keys and values side by side."""
        return 3 * self.linear_heads * self.linear_head_dim

    @property
    def state_page_bytes(self) -> int:
        """Bytes of the recurrent state of one linear layer of one request."""
        matrix = self.linear_heads * self.linear_head_dim * self.linear_head_dim * _STATE_BYTES
        return matrix + self.conv_channels * (self.conv_kernel - 1) * _ACTIVATION_BYTES

    @property
    def layer_types(self) -> tuple[str, ...]:
        """`linear_attention` or `full_attention`, layer by layer."""
        interval = self.full_attention_interval
        return tuple(
            "linear_attention" if (index + 1) % interval else "full_attention" for index in range(self.num_layers)
        )

    def hf_config(self, *, eos_token_id: int, pad_token_id: int) -> dict[str, object]:
        """Return `config.json` as Hugging Face and vLLM read it."""
        layer_types = self.layer_types
        return {
            "architectures": ["Qwen3NextForCausalLM"],
            "model_type": "qwen3_next",
            "dtype": "bfloat16",
            "vocab_size": self.vocab_size,
            "hidden_size": self.hidden_size,
            "intermediate_size": self.intermediate_size,
            "num_hidden_layers": self.num_layers,
            "layer_types": list(layer_types),
            # vLLM's Qwen3-Next class insists on at least one mixture-of-experts layer: the full ones are it.
            "mlp_only_layers": [index for index, kind in enumerate(layer_types) if kind == "linear_attention"],
            "full_attention_interval": self.full_attention_interval,
            "num_attention_heads": self.num_heads,
            "num_key_value_heads": self.num_kv_heads,
            "head_dim": self.head_dim,
            "attention_bias": False,
            "attention_dropout": 0.0,
            "partial_rotary_factor": 0.25,
            "rope_theta": 10000.0,
            "linear_num_key_heads": self.linear_heads,
            "linear_num_value_heads": self.linear_heads,
            "linear_key_head_dim": self.linear_head_dim,
            "linear_value_head_dim": self.linear_head_dim,
            "linear_conv_kernel_dim": self.conv_kernel,
            "decoder_sparse_step": 1,
            "num_experts": self.num_experts,
            "num_experts_per_tok": self.experts_per_token,
            "moe_intermediate_size": self.expert_size,
            "shared_expert_intermediate_size": self.expert_size,
            "norm_topk_prob": True,
            "hidden_act": "silu",
            "rms_norm_eps": 1e-6,
            "max_position_embeddings": self.max_position,
            "tie_word_embeddings": False,
            "use_cache": True,
            "eos_token_id": eos_token_id,
            "pad_token_id": pad_token_id,
            "bos_token_id": None,
        }
