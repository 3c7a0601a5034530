"""Pass whoever can't run in this round, keep promises, and keep rounds short once somebody was passed."""

from __future__ import annotations

from typing import Literal

from radixflow.policies.base import Action, BarrierKind, BarrierSnapshot, RoundSnapshot, TraversalPolicy

RoundTokens = int | Literal["auto", "budget"]

AUTO_FACTOR = 3.0
"""Rounds are cut where compute takes this many times the fixed cost."""
_MOST_ZERO = 16


class PlannedTraversal(TraversalPolicy):
    """Defer the pending and those of whom no token fits; stop growing a round at ``round_tokens``.

    Passing everybody over makes few, long rounds: good for throughput, bad for the mean. Consumers of earlier
    producers stand first in the queue, so a round that stops early ends decisions before it starts others.
    vLLM would have stopped at the first request passed over, so a limit that binds only after it never makes a
    round shorter than vLLM's.
    """

    keeps_promises = True

    def __init__(self, round_tokens: RoundTokens = "auto") -> None:
        """Set the limit: tokens, ``auto`` (learned), or ``budget`` (none but the round's budget)."""
        self.limit = round_tokens

    def on_barrier(self, snapshot: BarrierSnapshot) -> Action:
        """Defer where the state is pending or no token fits; past 16 requests in a round the scan isn't worth it."""
        if snapshot.pending:
            return Action.DEFER
        if snapshot.kind is BarrierKind.ZERO and snapshot.deferred_in_round < _MOST_ZERO:
            return Action.DEFER
        return Action.BARRIER

    def round_tokens(self, snapshot: RoundSnapshot) -> int | None:
        """Return the limit for this round."""
        if self.limit == "budget":
            return None
        if self.limit != "auto":
            return self.limit
        return max(snapshot.block_size, int(AUTO_FACTOR * snapshot.cost.balance_tokens))
