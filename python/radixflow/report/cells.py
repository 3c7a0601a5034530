"""Cells of a result folder in one shape, whether they were simulated or measured."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from radixflow.report.load import Folder

RESAMPLES = 2_000


@dataclass(slots=True)
class Series:
    """One arm in one cell: a value a seed or repeat."""

    cell: str
    arm: str
    concurrency: int | None
    throughput: list[float] = field(default_factory=list)
    mean_ms: list[float] = field(default_factory=list)
    rounds_per_decision: list[float] = field(default_factory=list)
    latencies: list[float] = field(default_factory=list)
    """Milliseconds, of every decision that was kept."""


def _concurrency(label: str) -> int | None:
    _, found, clients = label.rpartition(" C")
    return int(clients) if found and clients.isdigit() else None


def series(folder: Folder) -> dict[tuple[str, str], Series]:
    """Return (cell, arm) -> series of a ``simulate`` or ``bench`` folder; empty for others."""
    if folder.kind == "simulate":
        made = _simulated(folder)
    elif folder.kind == "bench" and "cells" in folder.summary:
        made = _measured(folder)
    else:
        return {}
    for row in folder.rows():
        found = made.get(_key(folder, row))
        if found is not None and row.get("latency_ms") is not None:
            found.latencies.append(row["latency_ms"])
    return made


def _key(folder: Folder, row: dict[str, Any]) -> tuple[str, str]:
    if folder.kind == "simulate":
        return f"{row['cell']}, {row['geometry']}", row["arm"]
    workload = row.get("workload") or row.get("family")
    if row.get("request_rate") is not None:
        return f"{workload} {row['request_rate']:g}/s", row["arm"]
    return f"{workload} C{row['concurrency']}" if "concurrency" in row else str(workload), row["arm"]


def _simulated(folder: Folder) -> dict[tuple[str, str], Series]:
    made: dict[tuple[str, str], Series] = {}
    for run in folder.summary["runs"]:
        key = (f"{run['cell']}, {run['geometry']}", run["arm"])
        one = made.setdefault(key, Series(*key, _concurrency(run["cell"])))
        one.throughput.append(run["request_throughput"])
        one.mean_ms.append(run["mean_e2el_ms"])
        one.rounds_per_decision.append(run["rounds_per_decision"])
    return made


def _measured(folder: Folder) -> dict[tuple[str, str], Series]:
    made: dict[tuple[str, str], Series] = {}
    for row in folder.summary["cells"]:
        if "by_repeat" not in row or "request_throughput" not in row:
            continue
        key = _key(folder, row)
        one = made.setdefault(key, Series(*key, row.get("concurrency") if row.get("request_rate") is None else None))
        one.throughput += row["by_repeat"]["request_throughput"]
        one.mean_ms.append(row["mean_e2el_ms"])
        one.rounds_per_decision.append(row["rounds_per_decision"])
    return made


def ratio_interval(values: Iterable[float], base: Iterable[float]) -> tuple[float, float, float] | None:
    """Return the geometric mean of paired ratios and its 95 % bootstrap interval; None without two pairs' worth."""
    pairs = [(one, other) for one, other in zip(values, base, strict=False) if one and other]
    if not pairs:
        return None
    logs = np.log([one / other for one, other in pairs])
    draw = np.random.default_rng(23)
    means = logs[draw.integers(0, len(logs), (RESAMPLES, len(logs)))].mean(axis=1)
    low, high = np.percentile(means, [2.5, 97.5])
    return float(np.exp(logs.mean())), float(np.exp(low)), float(np.exp(high))
