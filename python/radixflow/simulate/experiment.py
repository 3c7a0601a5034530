"""One simulated run: a workload, a geometry, an arm, a way of arriving; and its row of results."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from radixflow.simulate.arms import Arm
from radixflow.simulate.arrivals import Arrivals, ClosedLoop, Decision, OpenLoop, bursts, poisson
from radixflow.simulate.bounds import BoundCounter, Bounds
from radixflow.simulate.cost import CostModel
from radixflow.simulate.geometry import Geometry
from radixflow.simulate.loop import EventLoop, Router, to_the_first
from radixflow.simulate.outcome import PERCENTILES, Observer, Tally
from radixflow.simulate.trace import read_trace
from radixflow.simulate.workloads import Workload


@dataclass(frozen=True, slots=True)
class Traffic:
    """What arrives, and when: exactly one of ``concurrency``, ``rate``, ``burst`` and ``trace``."""

    workload: Workload | None = None
    decisions: int = 64
    concurrency: int | None = None
    """Clients of a closed loop."""
    rate: float | None = None
    """Decisions a second, open loop."""
    burstiness: float = 1.0
    burst: int | None = None
    """Decisions at once, every ``every_s`` seconds."""
    every_s: float = 1.0
    trace: Path | None = None
    speed: float = 1.0
    hints: bool = False

    @property
    def label(self) -> str:
        """Name for tables, such as ``long C8``."""
        if self.trace is not None:
            return self.trace.stem
        name = self.workload.name if self.workload else "?"
        if self.rate is not None:
            return f"{name} {self.rate:g}/s"
        return f"{name} B{self.burst}" if self.burst is not None else f"{name} C{self.concurrency}"

    def stream(self, seed: int, bounds: BoundCounter) -> Arrivals:
        """Return the arrivals of a seed; ``bounds`` counts them as they go."""
        if self.trace is not None:
            return OpenLoop(_counted(read_trace(self.trace, self.speed), bounds))
        if self.workload is None:
            raise ValueError("give a workload or a trace")
        decisions = self.workload.decisions(seed, self.decisions, self.hints)
        if self.concurrency is not None:
            return ClosedLoop(bounds.pass_by(decisions), self.concurrency)
        starts = poisson(self.rate, seed, self.burstiness) if self.rate else bursts(self.burst or 1, self.every_s)
        return OpenLoop(_counted(zip(starts, decisions, strict=False), bounds))


def _counted(timed: Iterator[tuple[float, Decision]], bounds: BoundCounter) -> Iterator[tuple[float, Decision]]:
    for start, decision in timed:
        bounds.add(decision)
        yield start, decision


@dataclass(slots=True)
class Holds:
    """Watches how long holds lasted and how often somebody was passed over; eight bytes a hold."""

    hold_ms: list[float] = field(default_factory=list)
    longest_queue: int = 0

    def on_round(self, one: Any) -> None:  # noqa: ANN401
        """Look at a round's record."""
        record = one.record
        if record is None:
            return
        if record.hold_ms:
            self.hold_ms.append(record.hold_ms)
        self.longest_queue = max(self.longest_queue, record.waiting)

    def on_decision(self, number: int, start: float, end: float) -> None:
        """Decisions are counted elsewhere."""


@dataclass(frozen=True, slots=True)
class Result:
    """A run's counters, its bounds and what was watched."""

    traffic: Traffic
    geometry: Geometry
    arm: str
    seed: int
    tally: Tally
    bounds: Bounds
    holds: Holds

    def row(self, goodput_ms: float | None = None) -> dict[str, Any]:
        """Return the run under the names of `vllm bench serve`, with the scheduler's block; a request is a decision.

        Args:
            goodput_ms: latency up to which a decision counts for ``request_goodput``.
        """
        tally, bounds = self.tally, self.bounds
        latencies = 1e3 * np.asarray(tally.latencies)
        per_round = tally.tokens / tally.rounds if tally.rounds else 0.0
        good = None if goodput_ms is None else float(np.mean(latencies <= goodput_ms)) * tally.per_second
        return {
            "cell": self.traffic.label,
            "geometry": self.geometry.name,
            "arm": self.arm,
            "seed": self.seed,
            "completed": tally.decisions,
            "failed": 0,
            "branches": tally.branches,
            "duration": tally.seconds,
            "request_throughput": tally.per_second,
            "request_goodput": good,
            "total_token_throughput": tally.tokens / tally.seconds if tally.seconds else 0.0,
            "mean_e2el_ms": tally.mean_ms,
            "median_e2el_ms": tally.percentile_ms(50),
            "std_e2el_ms": float(latencies.std()),
            "percentiles_e2el_ms": [[q, tally.percentile_ms(q)] for q in PERCENTILES],
            "worker_rounds": tally.rounds,
            "rounds_per_decision": tally.rounds / max(1, tally.decisions),
            "rounds_lower_bound": bounds.rounds,
            "rounds_lower_bound_with_reuse": bounds.rounds_with_reuse,
            "rounds_efficiency": bounds.rounds / tally.rounds if tally.rounds else 1.0,
            "tokens_computed": tally.tokens,
            "tokens_lower_bound": bounds.tokens,
            "tokens_efficiency": bounds.tokens / tally.tokens if tally.tokens else 1.0,
            "tokens_per_round": per_round,
            "prefix_hit_tokens": tally.totals["saved_tokens"],
            "pending_deferrals": sum(tally.group("deferrals").values()),
            "deferrals": tally.group("deferrals"),
            "barrier_breaks": tally.group("barriers"),
            "holds": tally.group("holds"),
            "hold_ms": {f"p{q}": _percentile(self.holds.hold_ms, q) for q in (50, 95, 99)},
            "empty_steps": tally.empty_steps,
            "failures": sum(tally.group("failures").values()),
        }


def _percentile(values: Sequence[float], q: float) -> float | None:
    return float(np.percentile(values, q)) if values else None


def run(
    traffic: Traffic,
    geometry: Geometry,
    arm: Arm,
    cost: CostModel,
    seed: int,
    *,
    ranks: int = 1,
    route: Router = to_the_first,
    observers: Sequence[Observer] = (),
) -> Result:
    """Run one arm once.

    Args:
        traffic: what arrives.
        geometry: the model's, and the engine's limits.
        arm: scheduler and client.
        cost: of worker steps.
        seed: of the traffic: every arm sees the same.
        ranks: data-parallel engines.
        route: which of them a branch goes to.
        observers: see every round and decision.
    """
    independent = traffic.workload is not None and traffic.workload.is_independent
    counter = BoundCounter(
        unit=geometry.hash_size,
        budget=geometry.budget * ranks,
        rows=geometry.rows * ranks,
        clients=traffic.concurrency,
        recurrent=geometry.family != "attention",
        independent=independent,
    )
    holds = Holds()
    schedulers = [geometry.scheduler(arm.scheduler_class, arm.settings) for _ in range(ranks)]
    loop = EventLoop(schedulers, cost, route=route, gather_s=arm.gather_s, observers=[holds, *observers])
    try:
        tally = loop.run(traffic.stream(seed, counter))
    finally:
        for scheduler in schedulers:
            scheduler.shutdown()
    return Result(traffic, geometry, arm.name, seed, tally, counter.bounds, holds)


def cells(
    workloads: Sequence[Workload], concurrency: Sequence[int], decisions: int | None, hints: bool = False
) -> list[Traffic]:
    """Return closed-loop traffic for every workload and number of clients; by default 32, 64 or 128 decisions."""
    made = []
    for one, clients in itertools.product(workloads, concurrency):
        count = decisions or (32 if clients == 1 else max(64, 4 * clients))
        made.append(Traffic(one, count, concurrency=clients, hints=hints))
    return made
