"""The layers put together, over trees of segments, and the two heads."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from delta import Carry
from network import Layer, Norm, Segment
from torch import nn

from radixflow.models.shape import ModelShape

_FIRST_STEP = 0.15


@dataclass(frozen=True, slots=True)
class Reads:
    """What comes out of the layers."""

    leaves: torch.Tensor
    """At the end of each leaf, normalised: what the heads read."""
    states: torch.Tensor
    """Mean over each beginning, before the full layer: only for training."""
    ends: torch.Tensor
    """At the end of each leaf, before the full layer: only for training."""


class Backbone(nn.Module):
    """Embedding, layers, norm."""

    def __init__(self, shape: ModelShape) -> None:
        """Make the layers; the last one, and no other, is full attention."""
        super().__init__()
        self.embed_tokens = nn.Embedding(shape.vocab_size, shape.hidden_size)
        self.layers = nn.ModuleList(Layer(shape, index) for index in range(shape.num_layers))
        self.norm = Norm(shape.hidden_size)

    def forward(self, segments: list[Segment]) -> Reads:
        """Read the leaves, in the order of the segments."""
        hidden = [self.embed_tokens(segment.ids) for segment in segments]
        starts: list[torch.Tensor] = []
        for segment in segments:
            if segment.parent is None:
                starts.append(torch.zeros_like(segment.lengths))
            else:
                starts.append((starts[segment.parent] + segments[segment.parent].lengths)[segment.rows])
        for layer in self.layers[:-1]:
            carries: list[Carry] = []
            for index, segment in enumerate(segments):
                carry = None
                if segment.parent is not None:
                    tail, state = carries[segment.parent]
                    carry = tail[segment.rows], state[segment.rows]
                hidden[index], carry = layer.linear(hidden[index], segment.lengths, carry)
                carries.append(carry)
        last = self.layers[-1]
        normed = [last.input_layernorm(x) for x in hidden]
        keys = [last.self_attn.keys(x, start) for x, start in zip(normed, starts, strict=True)]
        reads = []
        for index, segment in enumerate(segments):
            if not segment.is_leaf:
                continue
            rows, seen = torch.arange(len(segment.ids)), []
            ends = (rows, segment.lengths - 1)
            chain, at = index, rows
            while True:
                seen.append((normed[chain][at], keys[chain][at], segments[chain].lengths[at]))
                above = segments[chain].parent
                if above is None:
                    break
                at, chain = segments[chain].rows[at], above
            place = starts[index] + segment.lengths - 1
            x = hidden[index][ends]
            x = x + last.self_attn(normed[index][ends], place, seen)
            reads.append(x + last.mlp(last.post_attention_layernorm(x)))
        ends = torch.cat(
            [
                x[torch.arange(len(x)), part.lengths - 1]
                for x, part in zip(normed, segments, strict=True)
                if part.is_leaf
            ]
        )
        first = segments[0]
        real = (torch.arange(first.ids.shape[1])[None, :] < first.lengths[:, None])[..., None]
        return Reads(self.norm(torch.cat(reads)), (normed[0] * real).sum(1) / first.lengths[:, None], ends)


class DecisionNetwork(nn.Module):
    """The model; its state dict has the names of a checkpoint."""

    def __init__(self, shape: ModelShape) -> None:
        """Draw the weights from torch's generator."""
        super().__init__()
        self.model = Backbone(shape)
        self.lm_head = nn.Linear(shape.hidden_size, shape.vocab_size, bias=False)
        self.score = nn.Linear(shape.hidden_size, 1, bias=False)
        for name, weight in self.named_parameters():
            if weight.dim() == 2:
                std = 0.5 if "embed" in name else weight.shape[1] ** -0.5
                # Small steps in the residual stream at first: what the embeddings know is still there at its end.
                std *= _FIRST_STEP if name.endswith(("out_proj.weight", "down_proj.weight")) else 1.0
                nn.init.normal_(weight, 0.0, std)
        # The full layer begins as a mean of its inputs: a bag of words, from which the heads can tell a topic at once.
        mean = self.model.layers[-1].self_attn
        with torch.no_grad():
            value, out = (
                mean.v_proj.weight.view(mean.heads, mean.dim, -1),
                mean.o_proj.weight.view(-1, mean.heads, mean.dim),
            )
            value.mul_(_FIRST_STEP)
            out.mul_(_FIRST_STEP)
            for head in range(mean.heads):
                for place in range(shape.hidden_size):
                    value[head, place, place] += 1.0
                    out[place, head, place] += 1.0

    def labels(self, segments: list[Segment]) -> torch.Tensor:
        """Return the logits of the whole vocabulary after each leaf."""
        return self.lm_head(self.model(segments).leaves)

    def scores(self, segments: list[Segment]) -> torch.Tensor:
        """Return the scalar of each leaf."""
        return self.score(self.model(segments).leaves)[:, 0]
