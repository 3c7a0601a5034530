"""The event loop: arrivals, one or more engines, one virtual clock. Nothing sleeps, nothing is measured.

A request reaches its scheduler only between two worker steps, stamped with its true arrival, as an engine core sees
it. An engine with work but nothing to schedule (a hold) polls. Same arrivals, same rounds: counts are exact.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from radixflow.simulate.arrivals import Arrivals, Branch, Decision, gather
from radixflow.simulate.cost import CostModel
from radixflow.simulate.outcome import Observer, Round, Tally
from radixflow.simulate.rig import make_request
from radixflow.simulate.stepper import Stepper

EPOCH = 1_700_000_000.0
"""Added to arrival stamps: vLLM stamps with the wall clock, schedulers count on another one."""

Router = Callable[[int, Sequence[int]], int]
"""(number of the decision, unfinished requests of each rank) -> rank of a branch."""


def to_the_first(decision: int, unfinished: Sequence[int]) -> int:
    """Send everything to rank 0."""
    return 0


@dataclass(slots=True)
class _Engine:
    """One scheduler and what it is doing."""

    scheduler: Any
    stepper: Stepper
    inbox: list[tuple[str, float, Branch]] = field(default_factory=list)
    unfinished: int = 0
    end: float | None = None
    """When the step in flight ends; None: idle."""
    output: Any = None


class EventLoop:
    """Runs decisions through schedulers; use it once."""

    def __init__(
        self,
        schedulers: Sequence[Any],
        cost: CostModel,
        *,
        route: Router = to_the_first,
        gather_s: float = 0.0,
        observers: Sequence[Observer] = (),
        block_size: int | None = None,
        start_s: float = 0.0,
    ) -> None:
        """Take over the schedulers' clocks.

        Args:
            schedulers: vLLM's or ours, one a data-parallel rank.
            cost: what worker steps take.
            route: which rank a branch goes to.
            gather_s: window of a client that collects its branches, seconds; 0: it sends at once.
            observers: see every round and decision.
            block_size: tokens a block hash covers, default the schedulers'.
            start_s: virtual time to start at: after that of an earlier loop around the same schedulers.
        """
        self.now = start_s
        self.tally = Tally()
        self._cost = cost
        self._route = route
        self._gather_s = gather_s
        self._observers = observers
        self._hash_size = block_size or schedulers[0].hash_block_size
        self._engines = [_Engine(one, Stepper(one)) for one in schedulers]
        self._order = itertools.count()
        self._heap: list[tuple[float, int, int, Branch]] = []
        self._started: dict[int, tuple[float, int]] = {}
        self._calls = 0
        for scheduler in schedulers:
            scheduler.clock = lambda: self.now

    def run(self, arrivals: Arrivals, most_calls: int | None = None) -> Tally:
        """Run until nothing is left.

        Raises:
            RuntimeError: work is left after ``most_calls`` calls of ``schedule()``.
        """
        begin = self.now
        numbers = itertools.count()
        while (at := self._next_event(arrivals)) is not None:
            self.now = max(self.now, at)
            for engine in self._engines:
                if engine.end is not None and engine.end <= self.now:
                    self._complete(engine, arrivals)
            while (due := arrivals.due()) is not None and due <= self.now:
                self._start(next(numbers), arrivals.take(), due)
            while self._heap and self._heap[0][0] <= self.now:
                self._deliver(*heapq.heappop(self._heap))
            for rank, engine in enumerate(self._engines):
                if engine.end is None and (engine.inbox or engine.unfinished):
                    self._step(rank, engine)
            if most_calls is not None and self._calls > most_calls:
                raise RuntimeError(f"{len(self._started)} decisions begun, work left after {most_calls} calls")
        self.tally.seconds = self.now - begin
        for engine in self._engines:
            recorder = getattr(engine.scheduler, "recorder", None)
            if recorder is not None:
                self.tally.totals.update(recorder.totals)
        return self.tally

    def _next_event(self, arrivals: Arrivals) -> float | None:
        """Return when something happens next; None at the end."""
        times = [engine.end for engine in self._engines if engine.end is not None]
        due = arrivals.due()
        if due is not None:
            times.append(due)
        if self._heap:
            times.append(self._heap[0][0])
        return min(times) if times else None

    def _start(self, number: int, decision: Decision, at: float) -> None:
        self._started[number] = (at, len(decision))
        branches = gather(decision, self._gather_s) if self._gather_s else decision
        for branch in branches:
            heapq.heappush(self._heap, (at + branch.offset_s, next(self._order), number, branch))

    def _deliver(self, at: float, order: int, number: int, branch: Branch) -> None:
        rank = self._route(number, [engine.unfinished for engine in self._engines]) if len(self._engines) > 1 else 0
        engine = self._engines[rank]
        engine.inbox.append((f"{number}-{next(self._order)}", at, branch))
        engine.unfinished += 1
        self.tally.branches += 1

    def _step(self, rank: int, engine: _Engine) -> None:
        """Hand over what came, and begin a worker step."""
        scheduler = engine.scheduler
        for request_id, at, branch in engine.inbox:
            scheduler.add_request(self._request(request_id, at, branch))
        engine.inbox.clear()
        engine.output = output = engine.stepper.schedule()
        self._calls += 1
        scheduled = engine.stepper.rounds.pop()
        tokens = output.total_num_scheduled_tokens
        cost = self._cost
        if not tokens:
            self.tally.empty_steps += 1
            engine.end = self.now + cost.empty_s
            return
        cached = self._cached(scheduler, scheduled) if cost.per_cached_token_s else 0
        waiting = len(scheduler.waiting) + len(scheduler.skipped_waiting) if cost.counts_waiting else 0
        rows = len(scheduled)
        host = cost.schedule_seconds(rows, waiting)
        engine.end = self.now + (host + cost.seconds(tokens, rows, cached))
        self.tally.rounds += 1
        self.tally.tokens += tokens
        self.tally.worker_s += engine.end - self.now
        if self._observers:
            ring = getattr(getattr(scheduler, "recorder", None), "ring", None)
            record = ring.records[-1] if ring is not None and ring.records else None
            seen = Round(rank, self.now, engine.end, scheduled, record)
            for observer in self._observers:
                observer.on_round(seen)

    def _complete(self, engine: _Engine, arrivals: Arrivals) -> None:
        """End a worker step: answers go out."""
        output, engine.output, engine.end = engine.output, None, None
        engine.stepper.complete(output)
        finished = engine.stepper.finished
        engine.unfinished -= len(finished)
        for request_id in finished:
            number = int(request_id.partition("-")[0])
            start, left = self._started[number]
            if left > 1:
                self._started[number] = (start, left - 1)
                continue
            del self._started[number]
            self.tally.latencies.append(self.now - start)
            for observer in self._observers:
                observer.on_decision(number, start, self.now)
            arrivals.answered(self.now)
        finished.clear()

    def _cached(self, scheduler: Any, scheduled: dict[str, int]) -> int:  # noqa: ANN401
        # vLLM has advanced the count of computed tokens by what it scheduled.
        requests = scheduler.requests
        return sum(requests[name].num_computed_tokens - tokens for name, tokens in scheduled.items())

    def _request(self, request_id: str, at: float, branch: Branch) -> Any:  # noqa: ANN401
        return make_request(
            request_id,
            branch.tokens,
            block_size=self._hash_size,
            salt=branch.salt,
            max_tokens=branch.max_tokens,
            arrival_time=EPOCH + at,
            extra_args=branch.hints,
        )
