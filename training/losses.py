"""What is minimised: wrong answers, and facts of the text that the layers have lost."""

from __future__ import annotations

import math

import torch
from backbone import DecisionNetwork, Reads
from batches import Batch
from torch import nn
from torch.nn import functional as fn

from radixflow.decisions import ReadStrategy
from radixflow.synthetic.generator import FACTS


class Teacher(nn.Module):
    """Asks the hidden states for the facts of a text: what is learned first, and left behind after training."""

    def __init__(self, size: int) -> None:
        """Make a head for the text's mean and one for the end of each leaf."""
        super().__init__()
        self.mean, self.end = nn.Linear(size, sum(FACTS.values())), nn.Linear(size, sum(FACTS.values()))

    def forward(self, reads: Reads, batch: Batch) -> torch.Tensor:
        """Return the loss, averaged over the facts."""
        losses = []
        for found, facts in (
            (self.mean(reads.states), batch.facts),
            (self.end(reads.ends), batch.facts[batch.decisions]),
        ):
            for place, logits in enumerate(found.split(list(FACTS.values()), -1)):
                known = facts[:, place]
                if (known >= 0).any():
                    losses.append(fn.cross_entropy(logits, known))
        return sum(losses) / len(losses) if losses else reads.ends.sum() * 0.0


def read_loss(
    network: DecisionNetwork, teacher: Teacher, batch: Batch, kind: ReadStrategy
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the loss of the answers, that of the facts, and the share of right answers.

    Labels are learned over the whole vocabulary and among the options, branches among the candidates.
    """
    reads = network.model(batch.segments)
    if kind is ReadStrategy.LABEL:
        logits = network.lm_head(reads.leaves[batch.leaves])
        target = batch.labels.gather(1, batch.answers[:, None])[:, 0]
        loss, among = fn.cross_entropy(logits, target), logits.gather(1, batch.labels.clamp(min=0))
    else:
        loss, among = reads.leaves.new_zeros(()), network.score(reads.leaves)[:, 0][batch.labels.clamp(min=0)]
    among = among.masked_fill(batch.labels < 0, -math.inf)
    loss = loss + fn.cross_entropy(among, batch.answers)
    return loss, teacher(reads, batch), (among.argmax(-1) == batch.answers).float().mean()
