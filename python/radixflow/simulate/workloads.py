"""Workloads by name: what decisions look like, and what each is meant to stress.

Lengths are tokens. The same seed gives the same tokens, whatever the arm or the geometry.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

import numpy as np

from radixflow.errors import ConfigError
from radixflow.simulate.arrivals import Branch, Decision

FIRST_TOKEN, VOCABULARY = 3, 500


def draw_tokens(draw: np.random.Generator, length: int) -> list[int]:
    """Draw token ids; none of them is special."""
    return draw.integers(FIRST_TOKEN, VOCABULARY, length).tolist() if length > 0 else []


def _branded(tokens: list[int], number: int) -> list[int]:
    """Begin with a number in base 400, so that no two decisions share a block by chance."""
    for place in range(min(3, len(tokens))):
        tokens[place] = FIRST_TOKEN + number % 400
        number //= 400
    return tokens


@dataclass(frozen=True, slots=True)
class Workload:
    """A family of decisions."""

    name: str
    stresses: str
    shared: tuple[int, int]
    """Fewest and most tokens that the branches of a decision share."""
    own: tuple[int, int]
    """Fewest and most tokens of a branch's own."""
    branches: int = 4
    questions: int = 1
    """Groups of branches; more than one: each has ``question`` tokens more in common."""
    question: int = 0
    gap_s: float = 0.0012
    """Client-to-engine gap between siblings, seconds."""
    kind: Literal["plain", "tenants", "hot", "decode"] = "plain"
    drawn: Literal["decision", "evenly"] = "decision"
    """``evenly``: shared lengths run through their range in turn, so that shares are exact in a short run, too."""

    @property
    def is_independent(self) -> bool:
        """Whether decisions share nothing with each other."""
        return self.kind in ("plain", "decode")

    def decisions(self, seed: int, count: int | None = None, hints: bool = False) -> Iterator[Decision]:
        """Yield decisions, endless without a ``count``.

        Args:
            seed: of lengths and tokens.
            count: how many.
            hints: let the client say how many branches there are and what they share.
        """
        draw = np.random.default_rng([seed, 7])
        hot = [_branded(draw_tokens(draw, self.shared[1]), 63_000_000 + one) for one in range(8)]
        for number in itertools.count() if count is None else range(count):
            yield self._decision(draw, number, hot, hints)

    def _decision(self, draw: np.random.Generator, number: int, hot: list[list[int]], hints: bool) -> list[Branch]:
        low, high = self.shared
        if self.drawn == "evenly":
            # Golden-section steps: every stretch of decisions covers the range evenly.
            length = low + int((high - low + 1) * ((number + 0.5) * 0.6180339887498949 % 1.0))
        else:
            length = int(draw.integers(low, high + 1))
        salt = None
        if self.kind == "hot" and draw.random() < 0.8:
            # Popular states first: of eight, half of the traffic asks for one.
            state = hot[min(7, int(draw.geometric(0.5)) - 1)][:length]
        elif self.kind == "tenants":
            # The same eight states for every tenant: equal tokens, which may not be shared across salts.
            salt = f"tenant-{draw.integers(0, 4)}"
            state = hot[int(draw.integers(0, 8))][:length]
        else:
            state = _branded(draw_tokens(draw, length), number)
        said = None
        if hints:
            said = {
                "radixflow_group": str(number),
                "radixflow_group_size": self.branches * self.questions,
                "radixflow_shared_tokens": length,
            }
        decodes = self.kind == "decode" and number % 4 == 3
        made: list[Branch] = []
        for asked in range(self.questions):
            prefix = state + _parted(draw, asked, self.question)
            for option in range(1 if decodes else self.branches):
                own = int(draw.integers(self.own[0], self.own[1] + 1))
                tokens = prefix + _parted(draw, option, own)
                offset = len(made) * self.gap_s
                made.append(Branch(tokens, offset, salt, said, max_tokens=32 if decodes else 1))
        return made


def _parted(draw: np.random.Generator, number: int, length: int) -> list[int]:
    # The first token differs, so that branches part exactly there.
    return [FIRST_TOKEN + number, *draw_tokens(draw, length - 1)] if length else []


def _named(*workloads: Workload) -> Mapping[str, Workload]:
    return MappingProxyType({one.name: one for one in workloads})


WORKLOADS = _named(
    Workload("short", "prompts below a block of 528: no state to share, rounds are all there is to save",
             (80, 80), (20, 40)),
    Workload("long", "a state of several blocks and a junction inside the prompt: tokens dominate",
             (2_500, 2_500), (100, 300)),
    Workload("burst", "a shared block each and hardly more, all branches at once: stock's scan stops at each state",
             (600, 600), (40, 40), gap_s=0.0),
    Workload("nested", "16 questions of 4 options: two levels of sharing, so two junctions a decision",
             (3_000, 3_000), (40, 40), questions=16, question=200, gap_s=0.0),
    Workload("tenants", "equal states under four salts: nothing may be shared across them, much within",
             (1_600, 1_600), (60, 120), kind="tenants"),
    Workload("hot-cold", "four of five decisions ask about eight hot states: states return, cold ones mustn't starve",
             (1_000, 2_500), (60, 120), kind="hot"),
    Workload("decode", "every fourth request generates 32 tokens beside decisions: rounds always run, nothing is held",
             (1_200, 1_200), (40, 80), kind="decode"),
    Workload("one-branch", "a stream of lone prompts: nothing to share, a hold can only lose",
             (128, 128), (20, 40), branches=1, gap_s=0.0),
)  # fmt: skip


def workload(name: str) -> Workload:
    """Return a workload by name.

    Raises:
        ConfigError: there is none; the message lists them.
    """
    if name not in WORKLOADS:
        raise ConfigError(f"workload: {name!r} is unknown; known: {', '.join(WORKLOADS)}")
    return WORKLOADS[name]
