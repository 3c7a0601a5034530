"""What a simulated run did: counters that take no memory a decision, and observers for those who want more."""

from __future__ import annotations

from array import array
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

PERCENTILES = (50, 90, 95, 99)


@dataclass(frozen=True, slots=True)
class Round:
    """One non-empty worker step."""

    rank: int
    start: float
    """Virtual seconds; ``schedule()`` included."""
    end: float
    tokens: dict[str, int]
    """Tokens by request id: ``<decision>-<serial>``."""
    record: Any | None
    """The scheduler's own :class:`radixflow.telemetry.RoundRecord`; None where it keeps none."""


class Observer(Protocol):
    """Sees what happens, while it happens."""

    def on_round(self, one: Round) -> None:
        """Take a round."""

    def on_decision(self, number: int, start: float, end: float) -> None:
        """Take an answered decision."""


@dataclass
class Tally:
    """Counts of a run. Times are virtual seconds; eight bytes a decision, nothing a round."""

    latencies: array[float] = field(default_factory=lambda: array("d"))
    """Per decision, from its start to its last branch's answer, in order of completion."""
    rounds: int = 0
    tokens: int = 0
    branches: int = 0
    empty_steps: int = 0
    seconds: float = 0.0
    worker_s: float = 0.0
    """Seconds in which workers had something to do, all ranks."""
    totals: Counter[str] = field(default_factory=Counter)
    """The schedulers' own counts since their start, added up; none where a scheduler keeps none."""

    @property
    def decisions(self) -> int:
        """Decisions answered."""
        return len(self.latencies)

    @property
    def per_second(self) -> float:
        """Decisions a second."""
        return self.decisions / self.seconds if self.seconds else 0.0

    @property
    def mean_ms(self) -> float:
        """Mean latency of a decision, milliseconds."""
        return 1e3 * float(np.mean(self.latencies)) if self.latencies else float("nan")

    def percentile_ms(self, q: float) -> float:
        """Return a percentile of latency, milliseconds, by linear interpolation."""
        return 1e3 * float(np.percentile(self.latencies, q)) if self.latencies else float("nan")

    @property
    def p99_ms(self) -> float:
        """The 99th percentile of latency, milliseconds."""
        return self.percentile_ms(99)

    def group(self, name: str) -> dict[str, int]:
        """Return the schedulers' counts below a name, such as ``deferrals``."""
        prefix = name + "."
        return {key.removeprefix(prefix): count for key, count in sorted(self.totals.items()) if key.startswith(prefix)}
