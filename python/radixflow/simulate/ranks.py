"""Data-parallel ranks: what it costs to send the branches of a decision to different ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from radixflow.simulate.arms import Arm
from radixflow.simulate.cost import CostModel
from radixflow.simulate.experiment import Traffic, run
from radixflow.simulate.geometry import Geometry
from radixflow.simulate.loop import Router
from radixflow.simulate.workloads import Workload


class LeastLoaded:
    """Send each branch to the rank with the fewest unfinished requests, as vLLM's front end does without a hint."""

    def __call__(self, decision: int, unfinished: Sequence[int]) -> int:
        """Return the first rank of those with the least."""
        return min(range(len(unfinished)), key=unfinished.__getitem__)


class Affine:
    """Send a decision's branches where its first one went: the least loaded rank at that time.

    Remembers the decisions of the last 65,536 at work.
    """

    _MOST = 65_536

    def __init__(self) -> None:
        """Start without a memory."""
        self._ranks: dict[int, int] = {}

    def __call__(self, decision: int, unfinished: Sequence[int]) -> int:
        """Return the decision's rank."""
        rank = self._ranks.get(decision)
        if rank is None:
            rank = self._ranks[decision] = min(range(len(unfinished)), key=unfinished.__getitem__)
            if len(self._ranks) > self._MOST:
                del self._ranks[next(iter(self._ranks))]
        return rank


ROUTERS: dict[str, Callable[[], Router]] = {"affine": Affine, "least-loaded": LeastLoaded}


def compare_ranks(
    workload: Workload,
    geometry: Geometry,
    arms: Sequence[Arm],
    cost: CostModel,
    ranks: Sequence[int],
    *,
    clients_per_rank: int = 8,
    decisions_per_rank: int = 32,
    seed: int = 1,
    done: Callable[[str], None] = lambda what: None,
) -> list[dict[str, Any]]:
    """Run every arm on every number of ranks with each router; closed loop, load growing with the ranks.

    Returns:
        One row a run, with throughput, tokens and mean latency; ``of_affine`` is throughput over the affine run's.
    """
    rows: list[dict[str, Any]] = []
    for count in ranks:
        for arm in arms:
            base = 0.0
            for name, router in ROUTERS.items():
                traffic = Traffic(workload, decisions_per_rank * count, concurrency=clients_per_rank * count)
                tally = run(traffic, geometry, arm, cost, seed, ranks=count, route=router()).tally
                base = base or tally.per_second
                rows.append(
                    {
                        "ranks": count,
                        "arm": arm.name,
                        "router": name,
                        "per_second": tally.per_second,
                        "per_second_and_rank": tally.per_second / count,
                        "of_affine": tally.per_second / base,
                        "tokens_per_decision": tally.tokens / tally.decisions,
                        "mean_ms": tally.mean_ms,
                        "p99_ms": tally.p99_ms,
                    }
                )
                done(f"{count} ranks, {arm.name}, {name}")
    return rows
