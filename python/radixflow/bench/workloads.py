"""Workloads by name: which prompts are sent, and what each is meant to stress.

A call is one `/v1/completions` request; it carries one decision, or, in `burst`, many.  Token ids are
printable ASCII bytes, so that every prompt can be read and decoded whatever it is followed by.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, Protocol

Prompt = tuple[int, ...]

# Letters A to D: one byte, one token each.
LABEL_IDS: tuple[int, ...] = (65, 66, 67, 68)

_FIRST_ID, _LAST_ID = 33, 126


class Sizes(Protocol):
    """What a workload reads from the settings."""

    @property
    def branches(self) -> int:
        """Prompts of one decision."""

    @property
    def burst_decisions(self) -> int:
        """Decisions in one call of `burst`."""

    @property
    def seed(self) -> int:
        """Seed of the prompts."""


@dataclass(frozen=True)
class Decision:
    """Prompts that share a prefix: `shared` tokens of each are the same in all of them."""

    shared: int
    prompts: tuple[Prompt, ...]


@dataclass(frozen=True)
class Call:
    """One HTTP request, with the decisions whose prompts it carries, in that order."""

    decisions: tuple[Decision, ...]

    @property
    def prompts(self) -> list[Prompt]:
        """Every prompt of the call, decision after decision."""
        return [prompt for decision in self.decisions for prompt in decision.prompts]


@dataclass(frozen=True)
class Workload(ABC):
    """A source of calls; the same seed and block size give the same prompts, whatever the arm or repeat."""

    name: ClassVar[str]
    stresses: ClassVar[str]
    fixed_concurrency: ClassVar[int | None] = None
    min_calls: ClassVar[int] = 1

    branches: int
    decisions_per_call: int
    seed: int

    @abstractmethod
    def lengths(self, rng: random.Random, block_size: int) -> tuple[int, list[int]]:
        """Return (shared tokens, own tokens of each branch) of the next decision."""

    def round_up(self, decisions: int) -> int:
        """Return the least number of decisions, at least `decisions`, that fills whole calls."""
        calls = max(self.min_calls, -(-decisions // self.decisions_per_call))
        return calls * self.decisions_per_call

    def calls(self, decisions: int, block_size: int, *, stream: str = "measured") -> list[Call]:
        """Return calls that carry `decisions` decisions in all; the last call may carry fewer.

        Args:
            decisions: number of decisions, at least 1.
            block_size: tokens in one prefix-cache block of the model served.
            stream: name of an independent stream of prompts, so that a warm-up never sends measured ones.
        """
        rng = random.Random(f"{self.name}/{stream}/{self.seed}")
        made = [self._decision(rng, block_size) for _ in range(decisions)]
        size = self.decisions_per_call
        return [Call(tuple(made[start : start + size])) for start in range(0, decisions, size)]

    def _decision(self, rng: random.Random, block_size: int) -> Decision:
        shared, own = self.lengths(rng, block_size)
        prefix = _tokens(rng, shared)
        # A first token per branch that no sibling has: they part exactly at `shared`, never later by chance.
        firsts = rng.sample(range(_FIRST_ID, _LAST_ID + 1), len(own))
        prompts = tuple((*prefix, first, *_tokens(rng, length - 1)) for first, length in zip(firsts, own, strict=True))
        return Decision(shared, prompts)


def _tokens(rng: random.Random, count: int) -> Prompt:
    return tuple(rng.randint(_FIRST_ID, _LAST_ID) for _ in range(count))


class Short(Workload):
    """Whole prompts below one block: nothing can be cached, only rounds can be saved.

    A longer prompt takes two rounds whatever the scheduler: its prefill chunk stops at the last block
    boundary, where a state is stored.
    """

    name = "short"
    stresses = "whole prompts below one block: no cache hit is possible, rounds are all there is to save"

    def lengths(self, rng: random.Random, block_size: int) -> tuple[int, list[int]]:
        """Share half a block, and end before the first boundary."""
        shared = block_size // 2
        room = block_size - shared - 1
        return shared, [rng.randint(min(4, room), room) for _ in range(self.branches)]


class Long(Workload):
    """Many shared blocks, then own tokens that cross a block boundary: the junction is inside the prompt."""

    name = "long"
    stresses = "many shared blocks and a junction inside the prompt: computed tokens dominate"

    def lengths(self, rng: random.Random, block_size: int) -> tuple[int, list[int]]:
        """Share 18.75 blocks (600 tokens at block 32); 20 to 60 own tokens."""
        return block_size * 75 // 4, [rng.randint(20, 60) for _ in range(self.branches)]


class Burst(Workload):
    """Many decisions at once, each with a block that its own branches wait for: stock's scan barrier."""

    name = "burst"
    stresses = "many decisions at once, one shared block each: stock's scan stops at every pending state"
    fixed_concurrency = 1
    min_calls = 3

    def lengths(self, rng: random.Random, block_size: int) -> tuple[int, list[int]]:
        """Share one and a quarter blocks, and end before the second boundary.

        The last full block of every prompt is then the shared one: its state is stored at the end of the
        first branch's chunk, and all siblings need it.
        """
        shared = block_size * 5 // 4
        room = 2 * block_size - shared - 1
        return shared, [rng.randint(min(8, room), min(20, room)) for _ in range(self.branches)]


WorkloadFactory = Callable[[Sizes], Workload]

WORKLOADS: Mapping[str, WorkloadFactory] = MappingProxyType(
    {
        Short.name: lambda sizes: Short(sizes.branches, 1, sizes.seed),
        Long.name: lambda sizes: Long(sizes.branches, 1, sizes.seed),
        Burst.name: lambda sizes: Burst(sizes.branches, sizes.burst_decisions, sizes.seed),
    }
)
