"""Pass a request that waits for a state written in this round, instead of stopping behind it."""

from __future__ import annotations

from radixflow.policies.base import Action, BarrierKind, BarrierSnapshot, TraversalPolicy


class DeferPending(TraversalPolicy):
    """Defer a consumer whose state is pending; keep every other barrier.

    Exhaustion (no blocks, watermark, reservation) is not pending: passing such a request would let small
    ones take the blocks it waits for.
    """

    def on_barrier(self, snapshot: BarrierSnapshot) -> Action:
        """Defer where the state is pending."""
        return Action.DEFER if snapshot.pending else Action.BARRIER


class DeferPendingAndZero(DeferPending):
    """Defer also a request whose next chunk doesn't fit in what is left of the budget.

    The rest of the budget goes to requests behind it. It keeps its place, so the next round's whole budget
    is offered to it first.
    """

    def on_barrier(self, snapshot: BarrierSnapshot) -> Action:
        """Defer where the state is pending or no token fits."""
        return Action.DEFER if snapshot.kind is BarrierKind.ZERO else super().on_barrier(snapshot)
