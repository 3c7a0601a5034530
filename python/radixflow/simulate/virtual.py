"""A virtual clock around a real scheduler: rounds take what a cost model says, nothing sleeps.

A closed loop of clients sends decisions; requests reach the scheduler only between rounds, stamped with their
true arrival, as an engine core sees them. Same arrivals, same rounds: the result is exact, not measured.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from vllm.v1.request import Request

from radixflow.simulate.rig import make_request
from radixflow.simulate.stepper import Stepper

_EPOCH = 1_700_000_000.0
"""Added to arrival stamps: vLLM stamps with the wall clock, schedulers count on another one."""


@dataclass(frozen=True, slots=True)
class RoundCost:
    """What a round takes: ``fixed_s + per_token_s * tokens`` seconds; an empty call ``empty_s``."""

    fixed_s: float = 0.045
    per_token_s: float = 25e-6
    empty_s: float = 0.001

    def seconds(self, tokens: int) -> float:
        """Return how long a round of ``tokens`` tokens takes."""
        return self.fixed_s + self.per_token_s * tokens if tokens else self.empty_s


@dataclass(frozen=True, slots=True)
class Branch:
    """One prompt of a decision."""

    tokens: list[int]
    offset_s: float = 0.0
    """Arrival after the decision's start, seconds."""
    salt: str | None = None
    hints: dict[str, Any] | None = None
    max_tokens: int = 1
    """Tokens to generate; prefill-only branches have 1."""


Decision = Sequence[Branch]


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


class VirtualEngine:
    """Runs decisions through one scheduler."""

    def __init__(self, scheduler: Any, cost: RoundCost | None = None, block_size: int | None = None) -> None:  # noqa: ANN401
        """Take over the scheduler's clock.

        Args:
            scheduler: vLLM's, or one of ours.
            cost: what rounds take.
            block_size: tokens a block hash covers, default the scheduler's.
        """
        self.cost = cost or RoundCost()
        self.now = 0.0
        self._scheduler = scheduler
        self._stepper = Stepper(scheduler)
        self._block_size = block_size or scheduler.hash_block_size
        scheduler.clock = lambda: self.now

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
        outcome = Outcome()
        arrivals: list[tuple[float, int, int, Branch]] = []
        order = itertools.count()
        started: dict[int, float] = {}
        open_branches: dict[int, int] = {}
        to_come = iter(enumerate(decisions) if starts is None else ())

        def send(number: int, decision: Decision, at: float) -> None:
            started[number] = at
            open_branches[number] = len(decision)
            for branch in decision:
                heapq.heappush(arrivals, (at + branch.offset_s, next(order), number, branch))

        def send_next() -> None:
            for number, decision in itertools.islice(to_come, 1):
                send(number, decision, self.now)

        for _ in range(min(concurrency, len(decisions))):
            send_next()
        for number, start in enumerate(starts or ()):
            send(number, decisions[number], start)
        begin = self.now
        for _ in range(most_calls):
            if not self._scheduler.has_unfinished_requests():
                if not arrivals:
                    outcome.seconds = self.now - begin
                    return outcome
                self.now = max(self.now, arrivals[0][0])
            while arrivals and arrivals[0][0] <= self.now:
                at, _, number, branch = heapq.heappop(arrivals)
                self._scheduler.add_request(self._request(f"{number}-{next(order)}", at, branch))
            done = self._round(outcome)
            for request_id in done:
                number = int(request_id.partition("-")[0])
                open_branches[number] -= 1
                if not open_branches[number]:
                    outcome.latencies.append(self.now - started[number])
                    send_next()
        raise RuntimeError(f"{len(open_branches)} decisions begun, work left after {most_calls} calls")

    def _round(self, outcome: Outcome) -> list[str]:
        """One call of ``schedule()`` and its answer; returns the requests that finished."""
        output = self._stepper.schedule()
        tokens = output.total_num_scheduled_tokens
        self.now += self.cost.seconds(tokens)
        if tokens:
            outcome.rounds.append(self._stepper.rounds[-1])
            outcome.round_ends.append(self.now)
        else:
            outcome.empty_steps += 1
        self._stepper.finished.clear()
        self._stepper.rounds.clear()
        self._stepper.complete(output)
        return list(self._stepper.finished)

    def _request(self, request_id: str, at: float, branch: Branch) -> Request:
        return make_request(
            request_id,
            branch.tokens,
            block_size=self._block_size,
            salt=branch.salt,
            max_tokens=branch.max_tokens,
            arrival_time=_EPOCH + at,
            extra_args=branch.hints,
        )
