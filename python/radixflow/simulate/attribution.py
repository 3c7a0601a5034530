"""How much of a speed-up comes from which mechanism: logarithmic shares, with intervals over seeds."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from radixflow.simulate.ablation import STEPS
from radixflow.simulate.arms import GATHER, make_arm
from radixflow.simulate.cost import CostModel
from radixflow.simulate.experiment import Traffic, run
from radixflow.simulate.geometry import Geometry

RESAMPLES = 2_000
LEAST_GAIN = 0.01
"""Below a total of one percent there is nothing to share out."""

Logs = Mapping[str, Sequence[float]]


def bootstrap(values: Sequence[float], seed: int = 0) -> list[float]:
    """Return the 2.5th and 97.5th percentile of the mean under resampling.

    Args:
        values: one a traffic seed.
        seed: of the resampling.
    """
    draw = np.random.default_rng([seed, 23])
    data = np.asarray(values, float)
    means = data[draw.integers(0, len(data), (RESAMPLES, len(data)))].mean(axis=1)
    return [float(np.percentile(means, q)) for q in (2.5, 97.5)]


def shares(logs: Logs) -> list[dict[str, Any]]:
    """Split the logarithm of a speed-up over the steps.

    ``ln(throughput of a step / throughput of the step before)`` adds up to that of the whole; a share is its part
    of the sum. What a step gains depends on the steps before it: the order is that of the table.

    Args:
        logs: step -> ln(throughput) by seed, in order, stock first.
    """
    names = list(logs)
    data = {name: np.asarray(values, float) for name, values in logs.items()}
    total = data[names[-1]] - data[names[0]]
    whole = float(total.mean())
    rows = []
    for before, name in itertools.pairwise(names):
        gains = data[name] - data[before]
        mean = float(gains.mean())
        rows.append(
            {
                "step": name,
                "log_gain": mean,
                "log_gain_interval": bootstrap(gains.tolist()),
                "percent": 100.0 * math.expm1(mean),
                "share": mean / whole if abs(whole) >= LEAST_GAIN else None,
                "share_interval": _share_interval(gains, total) if abs(whole) >= LEAST_GAIN else None,
            }
        )
    return rows


def _share_interval(gains: np.ndarray, total: np.ndarray) -> list[float] | None:
    """Resample seeds; gains and totals of a seed stay together."""
    draw = np.random.default_rng([1, 23])
    picks = draw.integers(0, len(gains), (RESAMPLES, len(gains)))
    sums = total[picks].mean(axis=1)
    usable = np.abs(sums) > LEAST_GAIN / 10
    if not usable.any():
        return None
    parts = gains[picks].mean(axis=1)[usable] / sums[usable]
    return [float(np.percentile(parts, q)) for q in (2.5, 97.5)]


def attribute(
    traffics: Sequence[Traffic],
    geometries: Sequence[Geometry],
    cost: CostModel,
    seeds: Sequence[int],
    done: Callable[[str], None] = lambda cell: None,
) -> list[dict[str, Any]]:
    """Run the ablation in every cell; returns one row a cell, and one over all of them at the end.

    Args:
        traffics: cells.
        geometries: each cell runs on each.
        cost: of worker steps.
        seeds: of the traffic; every step sees the same.
        done: called after each cell.
    """
    rows: list[dict[str, Any]] = []
    pooled: dict[str, list[float]] = {}
    arms = [*STEPS, (GATHER, GATHER)]
    for geometry in geometries:
        for traffic in traffics:
            logs: dict[str, list[float]] = {label: [] for label, _ in arms}
            counts: dict[str, Any] = {}
            for label, name in arms:
                arm = make_arm(name)
                for seed in seeds:
                    tally = run(traffic, geometry, arm, cost, seed).tally
                    logs[label].append(math.log(tally.per_second))
                    if seed == seeds[0]:
                        counts[label] = {"rounds": tally.rounds, "tokens": tally.tokens, "mean_ms": tally.mean_ms}
            client = [mine - base for mine, base in zip(logs[GATHER], logs["stock"], strict=True)]
            steps = {label: logs[label] for label, _ in STEPS}
            for label, values in steps.items():
                base = logs["stock"]
                pooled.setdefault(label, []).extend(value - one for value, one in zip(values, base, strict=True))
            rows.append(_row(traffic.label, geometry.name, steps, client, counts))
            done(f"{traffic.label} {geometry.name}")
    rows.append(_row("all cells", "all", pooled, None, {}))
    return rows


def _row(
    cell: str, geometry: str, steps: Logs, client: Sequence[float] | None, counts: dict[str, Any]
) -> dict[str, Any]:
    first, *_, last = steps.values()
    total = [end - begin for begin, end in zip(first, last, strict=True)]
    mean = float(np.mean(total))
    return {
        "cell": cell,
        "geometry": geometry,
        "ratio": math.exp(mean),
        "ratio_interval": [math.exp(value) for value in bootstrap(total)],
        "steps": shares(steps),
        "gather_ratio": None if client is None else math.exp(float(np.mean(client))),
        "gather_interval": None if client is None else [math.exp(value) for value in bootstrap(client)],
        "counts": counts,
    }
