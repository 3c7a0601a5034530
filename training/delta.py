"""Gated DeltaNet in torch, over segments of prompts that continue others."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional as fn

from radixflow.models.shape import ModelShape

CHUNK = 16
"""Tokens that are computed at once; segments are padded to whole chunks."""
EPS = 1e-6

Carry = tuple[torch.Tensor, torch.Tensor]
"""What a segment leaves to those that continue it: the convolution's last inputs and the state."""


class GatedNorm(nn.Module):
    """RMS norm, then a gate."""

    def __init__(self, size: int) -> None:
        """Begin with ones."""
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, x: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
        """Normalise over the last dimension."""
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + EPS) * self.weight * fn.silu(gate)


class DeltaNet(nn.Module):
    """Gated DeltaNet with one head."""

    def __init__(self, shape: ModelShape, decay: float) -> None:
        """Begin with a decay a token."""
        super().__init__()
        size, width = shape.hidden_size, shape.linear_head_dim
        self.width = width
        self.in_proj_qkvz = nn.Linear(size, 4 * width, bias=False)
        self.in_proj_ba = nn.Linear(size, 2, bias=False)
        self.conv1d = nn.Conv1d(3 * width, 3 * width, shape.conv_kernel, groups=3 * width, bias=False)
        self.dt_bias = nn.Parameter(torch.ones(1))
        self.A_log = nn.Parameter(torch.tensor([math.log(decay)]))
        self.norm = GatedNorm(width)
        self.out_proj = nn.Linear(width, size, bias=False)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor, carry: Carry | None) -> tuple[torch.Tensor, Carry]:
        """Continue from a carry.

        Args:
            x: (rows, tokens, hidden); the tokens fill whole chunks, those after a row's length are padding.
            lengths: tokens of each row.
            carry: of what each row continues; None: nothing.
        """
        rows, tokens, _ = x.shape
        qkv, z = self.in_proj_qkvz(x).split([3 * self.width, self.width], -1)
        beta, a = self.in_proj_ba(x).split(1, -1)
        before = self.conv1d.kernel_size[0] - 1
        if carry is None:
            carry = qkv.new_zeros(rows, before, 3 * self.width), qkv.new_zeros(rows, self.width, self.width)
        window = torch.cat((carry[0], qkv), 1)
        q, k, v = fn.silu(self.conv1d(window.transpose(1, 2)).transpose(1, 2)).split(self.width, -1)
        q = q * (torch.rsqrt(q.pow(2).sum(-1, keepdim=True) + EPS) * self.width**-0.5)
        k = k * torch.rsqrt(k.pow(2).sum(-1, keepdim=True) + EPS)
        decay = -self.A_log.exp() * fn.softplus(a + self.dt_bias)
        # Padding writes nothing and forgets nothing: the state at the end is that of the last real token.
        real = (torch.arange(tokens)[None, :] < lengths[:, None])[..., None].to(x.dtype)
        read, state = delta_rule(q, k, v, (decay * real)[..., 0], beta.sigmoid() * real, carry[1])
        ends = window[torch.arange(rows)[:, None], lengths[:, None] + torch.arange(before)]
        return self.out_proj(self.norm(read, z)), (ends, state)


def delta_rule(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, decay: torch.Tensor, beta: torch.Tensor, state: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Run the gated delta rule, chunk by chunk.

    Args:
        q: (rows, tokens, width), like k and v.
        k: what is written to.
        v: what is written.
        decay: logarithm of what is kept at each token, (rows, tokens).
        beta: how much is written, (rows, tokens, 1).
        state: (rows, width, width).

    Returns:
        What each token reads, and the last state.
    """
    rows, tokens, width = q.shape
    cut = (rows, tokens // CHUNK, CHUNK)
    q, k, v, beta = (part.reshape(*cut, -1) for part in (q, k, v, beta))
    total = decay.reshape(cut).cumsum(-1)
    upper = torch.ones(CHUNK, CHUNK, dtype=torch.bool).triu(1)
    pair = (total[..., :, None] - total[..., None, :]).masked_fill(upper, -math.inf).exp()
    lower = torch.matmul(k, k.transpose(-1, -2)) * (pair * beta)
    grown = total.exp()[..., None]
    right = torch.cat((v * beta, k * (beta * grown)), -1)
    values, keys = torch.linalg.solve_triangular(lower, right, upper=False, unitriangular=True).split(width, -1)
    inside = torch.matmul(q, k.transpose(-1, -2)) * pair
    q = q * grown
    k = (k * (total[..., -1:] - total).exp()[..., None]).transpose(-1, -2)
    kept = total[..., -1].exp()[..., None, None]
    reads = []
    for i in range(cut[1]):
        new = torch.baddbmm(values[:, i], keys[:, i], state, alpha=-1)
        reads.append(torch.baddbmm(torch.bmm(q[:, i], state), inside[:, i], new))
        state = torch.baddbmm(state * kept[:, i], k[:, i], new)
    return torch.cat(reads, 1), state
