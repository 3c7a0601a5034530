"""One scheduler under a virtual clock, every round kept: for cells and tests, which look at all of it.

:class:`radixflow.simulate.loop.EventLoop` does the work.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from radixflow.simulate.arrivals import Branch, ClosedLoop, Decision, OpenLoop
from radixflow.simulate.cost import CostModel
from radixflow.simulate.loop import EventLoop
from radixflow.simulate.outcome import Round

RoundCost = CostModel

__all__ = ["Branch", "Decision", "Outcome", "RoundCost", "VirtualEngine"]


@dataclass
class Outcome:
    """What a run did. Times are virtual seconds."""

    latencies: list[float] = field(default_factory=list)
    """Per decision, from its start to its last branch's answer, in order of completion."""
    rounds: list[dict[str, int]] = field(default_factory=list)
    """Tokens by request id, of each non-empty round."""
    round_ends: list[float] = field(default_factory=list)
    empty_steps: int = 0
    seconds: float = 0.0

    @property
    def tokens(self) -> int:
        """Tokens computed."""
        return sum(sum(tokens.values()) for tokens in self.rounds)

    @property
    def per_second(self) -> float:
        """Decisions a second."""
        return len(self.latencies) / self.seconds if self.seconds else 0.0

    @property
    def mean_ms(self) -> float:
        """Mean latency of a decision, milliseconds."""
        return 1e3 * float(np.mean(self.latencies))

    @property
    def p99_ms(self) -> float:
        """The 99th percentile of latency, milliseconds, by linear interpolation."""
        return 1e3 * float(np.percentile(self.latencies, 99))

    def on_round(self, one: Round) -> None:
        """Keep a round."""
        self.rounds.append(one.tokens)
        self.round_ends.append(one.end)

    def on_decision(self, number: int, start: float, end: float) -> None:
        """Keep a latency."""
        self.latencies.append(end - start)


class VirtualEngine:
    """Runs decisions through one scheduler."""

    def __init__(self, scheduler: Any, cost: CostModel | None = None, block_size: int | None = None) -> None:  # noqa: ANN401
        """Take over the scheduler's clock.

        Args:
            scheduler: vLLM's, or one of ours.
            cost: what rounds take.
            block_size: tokens a block hash covers, default the scheduler's.
        """
        self._outcome = Outcome()
        self._loop = EventLoop(
            [scheduler], cost or CostModel(), observers=[self._outcome], block_size=block_size or None
        )

    @property
    def now(self) -> float:
        """Virtual seconds."""
        return self._loop.now

    def run(
        self,
        decisions: Sequence[Decision],
        concurrency: int,
        most_calls: int = 1_000_000,
        starts: Sequence[float] | None = None,
    ) -> Outcome:
        """Send the decisions, ``concurrency`` at a time, each client the next one when its last is answered.

        Args:
            decisions: what to send.
            concurrency: clients of the closed loop.
            most_calls: calls of ``schedule()`` after which work that is left is an error.
            starts: an open loop instead: when each decision starts, virtual seconds, whatever was answered by then.

        Raises:
            RuntimeError: work is left after ``most_calls`` calls of ``schedule()``.
        """
        if starts is None:
            tally = self._loop.run(ClosedLoop(iter(decisions), concurrency), most_calls)
        else:
            timed = sorted(zip(starts, decisions, strict=True), key=lambda pair: pair[0])
            tally = self._loop.run(OpenLoop(iter(timed)), most_calls)
        self._outcome.empty_steps, self._outcome.seconds = tally.empty_steps, tally.seconds
        return self._outcome
