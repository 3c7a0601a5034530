"""Runs what `radixflow simulate` asks for."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from radixflow.laboratory import tables
from radixflow.laboratory.keep import SIMULATED, keep
from radixflow.laboratory.settings import SimulateSettings
from radixflow.simulate.arms import make_arm
from radixflow.simulate.calibrate import Calibration, vary
from radixflow.simulate.cost import read_cost
from radixflow.simulate.experiment import Traffic, cells, run
from radixflow.simulate.geometry import geometry
from radixflow.simulate.outcome import Round
from radixflow.simulate.published import NOT_SIMULATED, VARIANTS
from radixflow.simulate.workloads import workload

Tick = Callable[[str], None]
_MOST_ROWS = 20_000
"""Decisions and rounds kept a run; the summary counts all."""


@dataclass
class Journal:
    """Keeps the first decisions and rounds of a run as rows."""

    cell: dict[str, Any]
    decisions: list[dict[str, Any]] = field(default_factory=list)
    rounds: list[dict[str, Any]] = field(default_factory=list)

    def on_round(self, one: Round) -> None:
        """Keep a round: what was scheduled for whom, and what the scheduler says of it."""
        if len(self.rounds) >= _MOST_ROWS:
            return
        row: dict[str, Any] = {"round": len(self.rounds), "rank": one.rank, "start_s": one.start, "end_s": one.end}
        row["tokens"] = one.tokens
        if one.record is not None:
            row["waiting"] = one.record.waiting
            row["deferrals"] = dict(one.record.deferrals)
            row["barriers"] = dict(one.record.barriers)
            row["hold_ms"], row["release"], row["held"] = one.record.hold_ms, one.record.release, one.record.held
        self.rounds.append({**self.cell, **row})

    def on_decision(self, number: int, start: float, end: float) -> None:
        """Keep a decision."""
        if len(self.decisions) < _MOST_ROWS:
            row = {"decision": number, "started_s": start, "latency_ms": 1e3 * (end - start)}
            self.decisions.append({**self.cell, **row})


def quieten() -> None:
    """Leave vLLM's remarks about the machine out of a simulation's output."""
    logging.getLogger("vllm").setLevel(logging.ERROR)


def traffics(settings: SimulateSettings) -> list[Traffic]:
    """Return the traffic of every cell."""
    hints = settings.hints
    if settings.trace is not None:
        return [Traffic(trace=settings.trace, speed=settings.speed)]
    chosen = [workload(name) for name in settings.workloads]
    if settings.rate is not None:
        count = settings.decisions or 256
        return [
            Traffic(one, count, rate=rate, burstiness=settings.burstiness, hints=hints)
            for one in chosen
            for rate in settings.rate
        ]
    if settings.burst is not None:
        return [
            Traffic(one, settings.decisions or 4 * size, burst=size, every_s=settings.every_ms / 1e3, hints=hints)
            for one in chosen
            for size in settings.burst
        ]
    return cells(chosen, settings.concurrency or [1, 8], settings.decisions, hints)


def run_all(settings: SimulateSettings, tick: Tick) -> tuple[list[dict[str, Any]], list[Journal]]:
    """Run every cell, geometry, seed and arm; returns a row a run, and journals where results are kept."""
    quieten()
    cost = read_cost(settings.cost)
    own = {} if settings.wait_ms is None else {"wait_ms": settings.wait_ms}
    arms = [make_arm(name, own, records=True) for name in settings.arms]
    rows, journals = [], []
    for where in [geometry(name) for name in settings.geometries]:
        for traffic in traffics(settings):
            for seed in settings.seeds:
                first = None
                for arm in arms:
                    cell = {"cell": traffic.label, "geometry": where.name, "arm": arm.name, "seed": seed}
                    journal = Journal(cell)
                    observers = [journal] if settings.name else []
                    result = run(traffic, where, arm, cost, seed, observers=observers)
                    row = result.row(settings.goodput_ms)
                    first = first or row["request_throughput"]
                    row["of_first"] = row["request_throughput"] / first if first else None
                    rows.append(row)
                    journals.append(journal)
                    tick(f"{traffic.label} {where.name} {arm.name}")
    return rows, journals


def _public(settings: SimulateSettings) -> dict[str, Any]:
    document = settings.model_dump(mode="json", exclude={"result_dir", "trace"})
    return {**document, "trace": settings.trace.name if settings.trace else None}


def simulate(settings: SimulateSettings, tick: Tick = lambda what: None) -> tuple[dict[str, Any], str, Path | None]:
    """Run, and keep where a name was given.

    Returns:
        The document, the same as Markdown, and the result folder.
    """
    rows, journals = run_all(settings, tick)
    document = {"what": SIMULATED, "settings": _public(settings), "runs": rows}
    table = tables.simulated(rows)
    folder = None
    if settings.name is not None:
        rounds = "".join(json.dumps(row, separators=(",", ":")) + "\n" for one in journals for row in one.rounds)
        decisions = (row for one in journals for row in one.decisions)
        folder = keep(
            settings.result_dir, settings.name, "simulate", document, table, decisions, {"rounds.jsonl": rounds}
        )
    return document, table, folder


def _variant(calibration: Calibration) -> dict[str, Any]:
    return {
        "name": calibration.assumptions.name,
        "why": calibration.assumptions.why,
        "cost": calibration.cost.model_dump(),
        "predictions": [
            {
                "cell": one.figure.cell,
                "arm": one.figure.arm,
                "measure": one.figure.measure,
                "published": one.figure.value,
                "predicted": one.predicted,
                "error": one.error,
                "fitted": one.figure.fitted,
                "missed": one.missed,
                "reason": one.reason,
            }
            for one in calibration.predictions()
        ],
        "beside": calibration.beside(),
    }


def reproduce(
    seed: int, only_base: bool, name: str | None, result_dir: Path, tick: Tick = lambda what: None
) -> tuple[dict[str, Any], str, Path | None]:
    """Reproduce the published table; see :mod:`radixflow.simulate.calibrate`."""
    quieten()
    calibrated = vary(VARIANTS[:1] if only_base else VARIANTS, seed, tick)
    document = {
        "what": SIMULATED,
        "seed": seed,
        "variants": [_variant(one) for one in calibrated.values()],
        "not_simulated": list(NOT_SIMULATED),
    }
    table = tables.reproduced(document)
    folder = keep(result_dir, name, "reproduce", document, table) if name else None
    return document, table, folder
