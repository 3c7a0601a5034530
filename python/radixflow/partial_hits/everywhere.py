"""The check's policy: every place where prompts part becomes a junction, whatever it costs."""

from __future__ import annotations

from collections.abc import Sequence

from radixflow.config import RadixFlowConfig
from radixflow.policies import JunctionPolicy, JunctionSnapshot, Policy, resolve_policy


class EveryJunction(JunctionPolicy):
    """Store a state at every unit where a peer, known or announced, parts."""

    def plan(self, snapshot: JunctionSnapshot) -> Sequence[int]:
        """Return all of them."""
        unit = snapshot.unit or snapshot.block_size
        return sorted({position // unit * unit for position, _ in snapshot.peers})


class Everywhere(Policy):
    """As `planned`, but for its junctions; prompts keep their last states."""

    def __init__(self, config: RadixFlowConfig) -> None:
        """Take the traversal of `planned`."""
        planned = resolve_policy(RadixFlowConfig(policy="planned", round_tokens=config.round_tokens))
        super().__init__("everywhere", None, planned.traversal, EveryJunction())
