"""The decision model in torch: Qwen3-Next as ModelShape says it, with a label head and a scalar head.

The same numbers as transformers' classes, several times faster on a CPU: what prompts share is computed once, all
experts are used, so that nothing has to be sorted by expert, and the last layer asks for the positions that are read.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from delta import EPS, Carry, DeltaNet
from torch import nn
from torch.nn import functional as fn

from radixflow.models.shape import ModelShape

# Decay of a token's memory in the linear layers when training begins: a dozen, fifty and two hundred tokens.
_DECAYS = (0.06, 0.015, 0.004)


@dataclass(frozen=True, slots=True)
class Segment:
    """Parts of prompts of about one length, which continue rows of another segment."""

    ids: torch.Tensor
    """(rows, tokens), padded at the right to whole chunks."""
    lengths: torch.Tensor
    parent: int | None = None
    """Place of the segment that is continued; None: the rows are beginnings."""
    rows: torch.Tensor | None = None
    """Which of its rows."""
    is_leaf: bool = False
    """Whether the rows are read at their last token."""


class Norm(nn.Module):
    """RMS norm whose factor is one plus the weight."""

    def __init__(self, size: int) -> None:
        """Begin with a factor of one."""
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(size))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Normalise over the last dimension."""
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + EPS) * (1.0 + self.weight)


class Mlp(nn.Module):
    """Gated feed-forward layer."""

    def __init__(self, size: int, inner: int) -> None:
        """Make the three projections."""
        super().__init__()
        self.gate_proj = nn.Linear(size, inner, bias=False)
        self.up_proj = nn.Linear(size, inner, bias=False)
        self.down_proj = nn.Linear(inner, size, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map the last dimension."""
        return self.down_proj(fn.silu(self.gate_proj(x)) * self.up_proj(x))


class Experts(nn.Module):
    """Mixture in which every expert has its share, and a shared one."""

    def __init__(self, shape: ModelShape) -> None:
        """Make the experts."""
        super().__init__()
        self.gate = nn.Linear(shape.hidden_size, shape.num_experts, bias=False)
        self.experts = nn.ModuleList(Mlp(shape.hidden_size, shape.expert_size) for _ in range(shape.num_experts))
        self.shared_expert = Mlp(shape.hidden_size, shape.expert_size)
        self.shared_expert_gate = nn.Linear(shape.hidden_size, 1, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map the last dimension."""
        shares = self.gate(x).softmax(-1)
        mixed = sum(shares[..., i : i + 1] * expert(x) for i, expert in enumerate(self.experts))
        return mixed + self.shared_expert_gate(x).sigmoid() * self.shared_expert(x)


class Attention(nn.Module):
    """Gated full attention of one position a prompt."""

    def __init__(self, shape: ModelShape) -> None:
        """Make projections and the table of angles."""
        super().__init__()
        self.heads, self.dim = shape.num_heads, shape.head_dim
        width = self.heads * self.dim
        self.q_proj = nn.Linear(shape.hidden_size, 2 * width, bias=False)
        self.k_proj = nn.Linear(shape.hidden_size, width, bias=False)
        self.v_proj = nn.Linear(shape.hidden_size, width, bias=False)
        self.o_proj = nn.Linear(width, shape.hidden_size, bias=False)
        self.q_norm, self.k_norm = Norm(self.dim), Norm(self.dim)
        turned = self.dim // 4
        angles = torch.arange(shape.max_position)[:, None] * 10000.0 ** -(torch.arange(0, turned, 2) / turned)
        angles = torch.cat((angles, angles), -1)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def _turn(self, x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        cos, sin = self.cos[places][..., None, :], self.sin[places][..., None, :]
        turned, rest = x[..., : cos.shape[-1]], x[..., cos.shape[-1] :]
        left, right = turned.chunk(2, -1)
        return torch.cat((turned * cos + torch.cat((-right, left), -1) * sin, rest), -1)

    def keys(self, x: torch.Tensor, starts: torch.Tensor) -> torch.Tensor:
        """Return the keys of a segment whose rows begin at some places."""
        keys = self.k_norm(self.k_proj(x).view(*x.shape[:2], self.heads, self.dim))
        return self._turn(keys, starts[:, None] + torch.arange(x.shape[1]))

    def forward(
        self, last: torch.Tensor, place: torch.Tensor, seen: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]]
    ) -> torch.Tensor:
        """Read one token (rows, hidden) at its place.

        Args:
            last: the tokens.
            place: their places.
            seen: inputs, keys and lengths of what each of them continues, and of its own segment.
        """
        query, gate = self.q_proj(last).view(-1, self.heads, 2 * self.dim).chunk(2, -1)
        query = self._turn(self.q_norm(query), place)
        weights = []
        for x, keys, lengths in seen:
            far = torch.arange(x.shape[1])[None, :] >= lengths[:, None]
            weights.append(torch.einsum("rhd,rthd->rht", query, keys).masked_fill(far[:, None], -math.inf))
        shares = (torch.cat(weights, -1) * self.dim**-0.5).softmax(-1).split([x.shape[1] for x, _, _ in seen], -1)
        # Values are linear in the inputs: mix those, and project the one mixture a head.
        mixed = sum(torch.bmm(share, x) for share, (x, _, _) in zip(shares, seen, strict=True))
        read = torch.einsum("rhc,hdc->rhd", mixed, self.v_proj.weight.view(self.heads, self.dim, -1)) * gate.sigmoid()
        return self.o_proj(read.reshape(len(last), -1))


class Layer(nn.Module):
    """A linear layer with its MLP, or the full one with its experts."""

    def __init__(self, shape: ModelShape, index: int) -> None:
        """Make the layer of an index."""
        super().__init__()
        self.input_layernorm, self.post_attention_layernorm = Norm(shape.hidden_size), Norm(shape.hidden_size)
        self.is_full = shape.layer_types[index] == "full_attention"
        if self.is_full:
            self.self_attn = Attention(shape)
            self.mlp: nn.Module = Experts(shape)
        else:
            self.linear_attn = DeltaNet(shape, _DECAYS[index % len(_DECAYS)])
            self.mlp = Mlp(shape.hidden_size, shape.intermediate_size)

    def linear(self, x: torch.Tensor, lengths: torch.Tensor, carry: Carry | None) -> tuple[torch.Tensor, Carry]:
        """Map a segment through a linear layer."""
        mixed, carry = self.linear_attn(self.input_layernorm(x), lengths, carry)
        x = x + mixed
        return x + self.mlp(self.post_attention_layernorm(x)), carry
