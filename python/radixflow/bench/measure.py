"""The arithmetic of a comparison: percentiles, paired ratios, and whether two arms gave the same answers."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

PERCENTILES = (50, 90, 95, 99)


def cell_label(row: Mapping[str, Any]) -> str:
    """Return the name of a row's cell, for example `long C8` or `long 4/s`."""
    if row.get("request_rate") is not None:
        return f"{row['workload']} {row['request_rate']:g}/s"
    return f"{row['workload']} C{row['concurrency']}"


def percentile(values: Sequence[float], q: float) -> float:
    """Return the q-th percentile (0 to 100) with linear interpolation, as numpy and vLLM's benchmark do.

    NaN for no values.

    Raises:
        ValueError: when `q` is outside 0 to 100.
    """
    if not 0 <= q <= 100:
        raise ValueError(f"percentile is {q!r}; give a number from 0 to 100")
    if not values:
        return math.nan
    ordered = sorted(values)
    place = (len(ordered) - 1) * q / 100
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def latency_summary(latencies_ms: Sequence[float]) -> dict[str, object]:
    """Return the keys that `vllm bench serve` writes for end-to-end latency, in milliseconds."""
    return {
        "mean_e2el_ms": statistics.fmean(latencies_ms) if latencies_ms else math.nan,
        "median_e2el_ms": percentile(latencies_ms, 50),
        "std_e2el_ms": statistics.pstdev(latencies_ms) if latencies_ms else math.nan,
        "percentiles_e2el_ms": [[q, percentile(latencies_ms, q)] for q in PERCENTILES],
    }


def paired_ratios(values: Sequence[float], baseline: Sequence[float]) -> list[float]:
    """Return value / baseline, repeat by repeat; a pair without a positive baseline is left out."""
    return [
        value / base
        for value, base in zip(values, baseline, strict=True)
        if base > 0 and math.isfinite(base) and math.isfinite(value)
    ]


@dataclass(frozen=True)
class Answer:
    """One branch's answer: log-probabilities of the labels, of which the highest wins."""

    logprobs: tuple[float, ...]

    @property
    def label(self) -> int:
        """Index of the best label; the first one on a tie."""
        return max(range(len(self.logprobs)), key=self.logprobs.__getitem__)

    @property
    def margin(self) -> float:
        """Best minus second-best log-probability, in nats; infinite with a single label."""
        if len(self.logprobs) < 2:
            return math.inf
        first, second = sorted(self.logprobs, reverse=True)[:2]
        return first - second


@dataclass(frozen=True)
class ChangedAnswer:
    """A branch that was answered otherwise than by the reference; log-probabilities in nats."""

    decision: int
    branch: int
    reference_label: int
    label: int
    reference_margin: float
    margin: float
    delta_logprob: float


@dataclass(frozen=True)
class Agreement:
    """How far the answers of one run agree with those of the reference run."""

    compared: int = 0
    equal: int = 0
    max_delta_p: float = 0.0
    max_delta_logprob: float = 0.0
    min_margin: float = math.inf
    changed: tuple[ChangedAnswer, ...] = field(default=())

    def as_dict(self) -> dict[str, object]:
        """Return it as plain JSON values; an infinite margin (nothing compared) becomes null."""
        document = asdict(self)
        document["min_margin"] = self.min_margin if math.isfinite(self.min_margin) else None
        return document


Answers = Sequence[Sequence[Answer] | None]


def compare(reference: Answers, other: Answers) -> Agreement:
    """Compare decision by decision, branch by branch; a decision that failed (None) on a side is left out.

    `delta_logprob` of a changed answer is the reference label's log-probability in `other` minus that in
    `reference`; `max_delta_p` is the largest change of a label's probability over the whole vocabulary.
    """
    total, equal, delta_p, delta_log, margin = 0, 0, 0.0, 0.0, math.inf
    changed: list[ChangedAnswer] = []
    for decision, (left, right) in enumerate(zip(reference, other, strict=True)):
        if left is None or right is None:
            continue
        for branch, (first, second) in enumerate(zip(left, right, strict=True)):
            total += 1
            margin = min(margin, first.margin)
            for old, new in zip(first.logprobs, second.logprobs, strict=True):
                delta_p = max(delta_p, abs(math.exp(new) - math.exp(old)))
                delta_log = max(delta_log, abs(new - old))
            if first.label == second.label:
                equal += 1
                continue
            shift = second.logprobs[first.label] - first.logprobs[first.label]
            changed.append(
                ChangedAnswer(decision, branch, first.label, second.label, first.margin, second.margin, shift)
            )
    return Agreement(total, equal, delta_p, delta_log, margin, tuple(changed))


def merge_agreement(parts: Sequence[Agreement]) -> Agreement:
    """Add up the agreements of a cell's repeats."""
    return Agreement(
        compared=sum(part.compared for part in parts),
        equal=sum(part.equal for part in parts),
        max_delta_p=max((part.max_delta_p for part in parts), default=0.0),
        max_delta_logprob=max((part.max_delta_logprob for part in parts), default=0.0),
        min_margin=min((part.min_margin for part in parts), default=math.inf),
        changed=tuple(change for part in parts for change in part.changed),
    )
