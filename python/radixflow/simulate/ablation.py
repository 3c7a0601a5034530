"""The default policy taken apart: each step adds one mechanism, and the last one is ``planned`` itself.

Policies of their own, named ``radixflow.simulate.ablation:hold`` and so on, so that they run in `bench` and in
`vllm serve`, too.
"""

from __future__ import annotations

from radixflow.config import RadixFlowConfig
from radixflow.policies import (
    AccountedTails,
    LearnedAdmission,
    PlannedJunctions,
    PlannedTraversal,
    Policy,
)

_HERE = "radixflow.simulate.ablation"


def hold(config: RadixFlowConfig) -> Policy:
    """Hold an idle engine where that has paid; scan, junctions and round size are vLLM's."""
    return Policy("hold", LearnedAdmission())


def deferral(config: RadixFlowConfig) -> Policy:
    """Also pass over who can't run in this round."""
    return Policy("deferral", LearnedAdmission(), PlannedTraversal("budget"))


def junctions(config: RadixFlowConfig) -> Policy:
    """Also store states where waiting peers part."""
    return Policy("junctions", LearnedAdmission(), PlannedTraversal("budget"), PlannedJunctions())


def tails(config: RadixFlowConfig) -> Policy:
    """Also leave out the state at a prompt's end while nobody waits for it."""
    return Policy("tails", LearnedAdmission(), PlannedTraversal("budget"), PlannedJunctions(), AccountedTails())


STEPS: tuple[tuple[str, str], ...] = (
    ("stock", "stock"),
    ("+hold", f"{_HERE}:hold"),
    ("+deferral", f"{_HERE}:deferral"),
    ("+junctions", f"{_HERE}:junctions"),
    ("+tail states", f"{_HERE}:tails"),
    ("+round size", "planned"),
)
"""(label, arm); tail states are counted apart from junctions, because they save rounds and not tokens."""
