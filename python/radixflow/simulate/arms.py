"""Arms of a simulated comparison: stock vLLM, stock behind a gathering client, presets, policies of a user's own."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from radixflow.config import parse_config
from radixflow.engine.scheduler import Scheduler
from radixflow.engine.stock import CountingScheduler
from radixflow.policies import resolve_policy

STOCK = "stock"
GATHER = "gather"
GATHER_S = 0.005


@dataclass(frozen=True, slots=True)
class Arm:
    """A scheduler class with its settings, and what the client does."""

    name: str
    scheduler_class: type[Any]
    settings: dict[str, Any] = field(default_factory=dict)
    gather_s: float = 0.0


def make_arm(name: str, settings: dict[str, Any] | None = None, *, records: bool = False) -> Arm:
    """Return the arm of a name.

    Args:
        name: ``stock``, ``gather`` (stock, and clients that collect branches for 5 ms), a preset, ``module:Class``
            or ``file.py:Class``.
        settings: further RadixFlow settings, such as ``wait_ms``.
        records: keep each round's record for observers.

    Raises:
        ConfigError, PolicyError: the settings or the policy are not usable.
    """
    ring = {"ring_size": 1} if records else {}
    if name in (STOCK, GATHER):
        return Arm(name, CountingScheduler, ring, GATHER_S if name == GATHER else 0.0)
    chosen = {**(settings or {}), "policy": name, **ring}
    resolve_policy(parse_config(chosen, "the options"))
    return Arm(name, Scheduler, chosen)
