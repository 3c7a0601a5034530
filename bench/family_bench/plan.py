"""What is measured: families, arms, and the prompts, which are the same for all of them."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from radixflow.bench.workloads import Call, Decision, Workload
from radixflow.models.families import FAMILIES

STOCK = "stock"
INSIDE = "inside"
"""The arm `planned` with states inside blocks: blocks of `INSIDE_BLOCK` tokens, units of `INSIDE_UNIT`."""
INSIDE_BLOCK, INSIDE_UNIT = 128, 64
ARMS = (STOCK, "radixflow", "planned")


@dataclass(frozen=True)
class LongDecisions(Workload):
    """The workload `long` at a size of one's choice; lengths are tokens."""

    name = "long"
    stresses = "many shared blocks and a junction inside the prompt: computed tokens dominate"

    shared: int = 2_500
    own: tuple[int, int] = (100, 300)
    """Fewest and most tokens of a branch's own."""

    def lengths(self, rng: random.Random, block_size: int) -> tuple[int, list[int]]:
        """Return the shared length and one own length a branch."""
        return self.shared, [rng.randint(*self.own) for _ in range(self.branches)]


@dataclass(frozen=True)
class Plan:
    """One run of the bench. Decisions are sent in a closed loop of `concurrency` clients."""

    families: tuple[str, ...] = FAMILIES
    arms: tuple[str, ...] = ARMS
    decisions: int = 16
    """Of each arm in each repeat."""
    repeats: int = 4
    warmup: int = 4
    """Decisions of each arm that aren't measured."""
    concurrency: int = 8
    branches: int = 4
    shared: int = 2_500
    own: tuple[int, int] = (100, 300)
    seed: int = 0
    pinned_cost: tuple[float, float] | None = None
    """What a round is believed to take, seconds and seconds a token; None: learned, as in service.

    For tests: a busy machine's times then change nothing that is scheduled.
    """
    policy: Mapping[str, Any] = field(default_factory=dict)
    """Further RadixFlow settings of the presets."""

    def quick(self) -> Plan:
        """Return the short form: enough to see tokens and answers, not times."""
        return replace(self, decisions=8, repeats=2, warmup=2, shared=600, own=(40, 120))

    def calls(self, block_size: int, stream: str = "measured") -> list[Call]:
        """Draw the decisions, one a call; the same plan gives the same prompts."""
        workload = LongDecisions(self.branches, 1, self.seed, self.shared, self.own)
        count = self.decisions if stream == "measured" else self.warmup
        return workload.calls(count, block_size, stream=stream)

    def document(self) -> dict[str, Any]:
        """Return the plan as plain values, from which `Plan(**...)` makes it again."""
        return asdict(self)

    @classmethod
    def read(cls, document: dict[str, Any]) -> Plan:
        """Make a plan from `document()`, by way of JSON."""
        values = {key: tuple(value) if isinstance(value, list) else value for key, value in document.items()}
        return cls(**values)


def least_tokens(decision: Decision, block_size: int) -> int:
    """Return the fewest tokens anybody could compute for a decision: its shared blocks once, what is left a branch."""
    stored = decision.shared // block_size * block_size
    return stored + sum(len(prompt) - stored for prompt in decision.prompts)


def ends_past_a_block(prompt: tuple[int, ...], block_size: int) -> bool:
    """Whether a prompt ends one token after a block boundary.

    Where the chunk before stops at that boundary, vLLM computes the token that is left as it computes a generated one,
    by other kernels than a prompt's; without a prefix cache it doesn't. Bits differ, whoever schedules.
    """
    return len(prompt) % block_size == 1
