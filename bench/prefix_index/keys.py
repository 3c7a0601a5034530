"""The keys that everything is measured on: prompts of a few states, each with branches of their own.

Only the standard library, and the same tokens on every machine: the counted runs import this too.
"""

from __future__ import annotations

from typing import NamedTuple

VOCABULARY = 150_000


class Workload(NamedTuple):
    """How many prompts, and what they share. Lengths are tokens."""

    states: int = 64
    branches: int = 4
    shared: int = 1024
    own: int = 64

    @property
    def length(self) -> int:
        """Tokens of one key."""
        return self.shared + self.own

    def waiting(self, states: range | None = None) -> list[list[int]]:
        """Build the keys that wait, state by state. Each has int objects of its own, as prompts in an engine do."""
        return self._keys(states, range(self.branches))

    def queries(self, states: range | None = None) -> list[list[int]]:
        """Build as many keys that don't wait, each a further branch of a waiting state: `shared` tokens match."""
        return self._keys(states, range(self.branches, 2 * self.branches))

    def _keys(self, states: range | None, branches: range) -> list[list[int]]:
        return [self._key(state, branch) for state in states or range(self.states) for branch in branches]

    def _key(self, state: int, branch: int) -> list[int]:
        return [*_tokens(2 * state, self.shared), branch, *_tokens(state * 1000 + branch, self.own - 1)]


def _tokens(seed: int, count: int) -> list[int]:
    """Spread token ids over the vocabulary: an arithmetic sequence with a step of its own for each seed."""
    start, step = seed * 2_654_435_761, 7919 + 2 * seed
    return [(start + number * step) % VOCABULARY for number in range(count)]
