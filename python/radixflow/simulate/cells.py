"""The cells every preset is judged by: workload, model family, block size, concurrency.

Lengths are tokens. A decision has four branches; a branch arrives every 1.2 ms from the decision's start, or
all at once. Rounds cost 45 ms and 25 us a token.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from radixflow.simulate.rig import build_scheduler, vllm_config
from radixflow.simulate.virtual import Branch, Decision, Outcome, RoundCost, VirtualEngine

_VOCABULARY = 500


@dataclass(frozen=True, slots=True)
class Cell:
    """One workload on one model geometry."""

    name: str
    decisions: int
    concurrency: int
    shared: int
    """Tokens that the branches of a decision share."""
    own: tuple[int, int]
    """Fewest and most tokens of a branch's own."""
    branches: int = 4
    questions: int = 1
    """Groups of branches; more than one: each has ``question`` tokens more in common."""
    question: int = 0
    gap_s: float = 0.0012
    family: Literal["hybrid", "attention"] = "hybrid"
    block_size: int = 528
    budget: int = 16_384
    match_unit: int | None = None
    """Tokens a block hash covers (``--prefix-match-unit``), None for a block."""
    checkpoint_blocks: int = 0
    """States that a chunk stores besides the one at its end."""
    seed: int = 7

    def make_decisions(self, hints: bool = False) -> list[Decision]:
        """Draw the decisions; the same cell gives the same tokens.

        Args:
            hints: let the client say how many branches there are and what they share.
        """
        draw = np.random.default_rng(self.seed)
        made: list[Decision] = []
        for number in range(self.decisions):
            state = draw.integers(3, _VOCABULARY, self.shared).tolist()
            # A first token of its own: no two decisions share anything.
            state[:2] = [3 + number % 400, 3 + number // 400]
            said = {
                "radixflow_group": str(number),
                "radixflow_group_size": self.branches * self.questions,
                "radixflow_shared_tokens": self.shared,
            }
            branches: list[Branch] = []
            for number_of_question in range(self.questions):
                prefix = state + self._tokens(draw, number_of_question, self.question)
                for option in range(self.branches):
                    tokens = prefix + self._tokens(draw, option, int(draw.integers(self.own[0], self.own[1] + 1)))
                    branches.append(Branch(tokens, len(branches) * self.gap_s, hints=dict(said) if hints else None))
            made.append(branches)
        return made

    def _tokens(self, draw: np.random.Generator, number: int, length: int) -> list[int]:
        # The first token differs, so that branches part exactly there.
        return [3 + number, *draw.integers(3, _VOCABULARY, length - 1).tolist()] if length else []

    def lower_bound(self, decisions: Sequence[Decision], unit: int | None = None) -> int:
        """Fewest tokens anybody could compute: each distinct full block once, each remainder once a branch.

        Only blocks that several branches of a decision share are worth a state; a branch's own are its remainder.

        Args:
            decisions: the cell's.
            unit: tokens that states are multiples of, default the block size.
        """
        unit = unit or self.block_size
        state = self.shared // unit * unit
        question = (self.shared + self.question) // unit * unit
        shared = state + self.questions * (question - state)
        return sum(shared + sum(len(branch.tokens) - question for branch in decision) for decision in decisions)

    def run(
        self,
        scheduler_class: type[Any],
        settings: dict[str, Any] | None = None,
        hints: bool = False,
        cost: RoundCost | None = None,
    ) -> Outcome:
        """Run the cell once.

        Args:
            scheduler_class: vLLM's or ours.
            settings: RadixFlow's settings, for ours.
            hints: see :meth:`make_decisions`.
            cost: what rounds take, default 45 ms and 25 us a token.
        """
        decisions = self.make_decisions(hints)
        # Room for everything at once, so that no cell is about eviction.
        longest = self.shared + self.question + self.own[1]
        rows = self.branches * self.questions * self.concurrency
        stored = sum(self.shared + sum(len(branch.tokens) - self.shared for branch in one) for one in decisions)
        blocks = 64 + 2 * (stored + rows * longest) // self.block_size + 4 * sum(map(len, decisions))
        config = vllm_config(
            block_size=self.block_size,
            num_blocks=blocks,
            budget=self.budget,
            max_num_seqs=256,
            settings=settings,
            match_unit=self.match_unit,
        )
        scheduler = build_scheduler(scheduler_class, config, self.family, checkpoint_blocks=self.checkpoint_blocks)
        return VirtualEngine(scheduler, cost).run(decisions, self.concurrency)


def _with_blocks(cell: Cell, blocks: Sequence[int]) -> Iterator[Cell]:
    for block in blocks:
        yield replace(cell, block_size=block)


def all_cells(blocks: Sequence[int] = (32, 64, 528)) -> list[Cell]:
    """List every cell, at each of the block sizes."""
    cells = []
    for concurrency, decisions in ((1, 32), (8, 64), (32, 128)):
        cells += [
            Cell(f"short C{concurrency}", decisions, concurrency, 80, (20, 40)),
            Cell(f"long C{concurrency}", decisions, concurrency, 2_500, (100, 300)),
            Cell(f"attention long C{concurrency}", decisions, concurrency, 2_500, (100, 300), family="attention"),
        ]
    cells += [
        Cell("burst 16", 16, 16, 600, (40, 40), gap_s=0.0, budget=65_536),
        Cell("burst 32", 32, 32, 600, (40, 40), gap_s=0.0, budget=65_536),
        Cell("wide 16", 16, 16, 1_600, (600, 600), gap_s=0.0, budget=65_536),
        Cell("nested 64 x 4", 4, 1, 3_000, (40, 40), questions=64, question=200, gap_s=0.0),
        Cell("short C1, 2 ms apart", 32, 1, 80, (20, 40), gap_s=0.002),
        Cell("lone", 200, 1, 128, (20, 40), branches=1, gap_s=0.0),
    ]
    return [sized for cell in cells for sized in _with_blocks(cell, blocks)]


def short_state_cells(blocks: Sequence[int] = (528,)) -> list[Cell]:
    """List cells whose states are shorter than a block, with many questions: what hits inside blocks are for."""
    cells = [
        Cell("64 branches C1", 8, 1, 400, (30, 60), branches=64, gap_s=0.0002),
        Cell("64 branches C4", 16, 4, 400, (30, 60), branches=64, gap_s=0.0002),
        Cell("16 branches C1", 16, 1, 400, (30, 60), branches=16, gap_s=0.0002),
        Cell("16 questions x 4", 8, 1, 400, (8, 8), questions=16, question=24, gap_s=0.0002),
    ]
    return [sized for cell in cells for sized in _with_blocks(cell, blocks)]
