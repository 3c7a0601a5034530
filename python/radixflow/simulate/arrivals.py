"""When decisions start: a closed loop of clients, a Poisson process, bursts, or a recorded trace."""

from __future__ import annotations

import heapq
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np


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


class Arrivals(ABC):
    """A source of decisions. It is asked only for what is due, so an endless one takes no memory."""

    @abstractmethod
    def due(self) -> float | None:
        """Return when the next decision starts; None while that depends on answers, or when there is none left."""

    @abstractmethod
    def take(self) -> Decision:
        """Return the decision that is due, and move on."""

    def answered(self, now: float) -> None:  # noqa: B027 - an open loop doesn't care
        """Take note of an answered decision."""


class ClosedLoop(Arrivals):
    """Clients that send their next decision when their last one is answered."""

    def __init__(self, decisions: Iterator[Decision], concurrency: int, start_s: float = 0.0) -> None:
        """Set up ``concurrency`` clients that are all free at ``start_s``."""
        self._decisions = decisions
        self._free = [start_s] * concurrency
        self._next = next(decisions, None)

    def due(self) -> float | None:
        """Return when the first free client sends."""
        return self._free[0] if self._next is not None and self._free else None

    def take(self) -> Decision:
        """Let the first free client send."""
        heapq.heappop(self._free)
        decision, self._next = self._next, next(self._decisions, None)
        if decision is None:
            raise RuntimeError("no decision is due")
        return decision

    def answered(self, now: float) -> None:
        """Free a client."""
        heapq.heappush(self._free, now)


class OpenLoop(Arrivals):
    """Decisions that start at given times, whatever was answered by then."""

    def __init__(self, timed: Iterator[tuple[float, Decision]]) -> None:
        """Take (start, decision) pairs in the order of their starts."""
        self._timed = timed
        self._next = next(timed, None)

    def due(self) -> float | None:
        """Return the next start."""
        return self._next[0] if self._next is not None else None

    def take(self) -> Decision:
        """Return the decision that starts next."""
        if self._next is None:
            raise RuntimeError("no decision is due")
        (start, decision), self._next = self._next, next(self._timed, None)
        if self._next is not None and self._next[0] < start:
            raise ValueError(f"a decision starts at {self._next[0]:g} s, after one at {start:g} s: sort them")
        return decision


def poisson(rate: float, seed: int, burstiness: float = 1.0) -> Iterator[float]:
    """Yield start times of a process of ``rate`` decisions a second.

    Args:
        rate: decisions a second.
        seed: of the gaps.
        burstiness: shape of the gamma distribution of gaps, as in `vllm bench serve`: 1 is Poisson, less is burstier.
    """
    draw = np.random.default_rng([seed, 11])
    now = 0.0
    while True:
        now += float(draw.gamma(burstiness, 1.0 / (rate * burstiness)))
        yield now


def bursts(size: int, every_s: float) -> Iterator[float]:
    """Yield start times: ``size`` at once, every ``every_s`` seconds."""
    number = 0
    while True:
        yield number // size * every_s
        number += 1


def gather(decision: Decision, window_s: float) -> list[Branch]:
    """Let a client collect what it sends: the first branch opens a window, at whose end all that came in it go out.

    What comes later opens the next window. The baseline for holding in the engine.
    """
    held: list[Branch] = []
    end = -1.0
    for branch in sorted(decision, key=lambda one: one.offset_s):
        if branch.offset_s > end:
            end = branch.offset_s + window_s
        held.append(replace(branch, offset_s=end))
    return held
