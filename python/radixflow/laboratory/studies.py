"""Experiments of several runs: attribution, data-parallel ranks, growth."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from radixflow.laboratory import tables
from radixflow.laboratory.keep import SIMULATED, keep
from radixflow.laboratory.settings import SimulateSettings
from radixflow.laboratory.simulate import quieten
from radixflow.simulate.arms import make_arm
from radixflow.simulate.attribution import attribute
from radixflow.simulate.cost import read_cost
from radixflow.simulate.experiment import cells
from radixflow.simulate.geometry import geometry
from radixflow.simulate.ranks import compare_ranks
from radixflow.simulate.scale import grow, waiting_cost
from radixflow.simulate.workloads import workload

Tick = Callable[[str], None]
Told = tuple[dict[str, Any], str, Path | None]

_SCALE_BLOCKS = 8_192
"""A pool that has gone round long before the first quarter of a long run, so that memory can be flat."""


def _kept(settings: SimulateSettings, kind: str, document: dict[str, Any], table: str) -> Told:
    folder = keep(settings.result_dir, settings.name, kind, document, table) if settings.name else None
    return document, table, folder


def attribution(settings: SimulateSettings, tick: Tick) -> Told:
    """Run the ablation over all cells."""
    quieten()
    traffic = cells([workload(name) for name in settings.workloads], settings.concurrency or [1], settings.decisions)
    where = [geometry(name) for name in settings.geometries]
    rows = attribute(traffic, where, read_cost(settings.cost), settings.seeds, tick)
    document = {"what": SIMULATED, "seeds": settings.seeds, "cost": settings.cost, "cells": rows}
    return _kept(settings, "attribution", document, tables.attributed(rows))


def ranks(settings: SimulateSettings, counts: Sequence[int], tick: Tick) -> Told:
    """Compare routers on data-parallel ranks."""
    quieten()
    rows = compare_ranks(
        workload(settings.workloads[0]),
        geometry(settings.geometries[0]).model_copy(update={"num_blocks": _SCALE_BLOCKS}),
        [make_arm(name) for name in settings.arms],
        read_cost(settings.cost),
        counts,
        done=tick,
    )
    document = {"what": SIMULATED, "workload": settings.workloads[0], "rows": rows}
    return _kept(settings, "ranks", document, tables.ranked(rows))


def scale(settings: SimulateSettings, sizes: Sequence[int], waiting: Sequence[int], tick: Tick) -> Told:
    """Measure growth."""
    quieten()
    where = geometry(settings.geometries[0]).model_copy(update={"num_blocks": _SCALE_BLOCKS})
    chosen, cost = workload(settings.workloads[0]), read_cost(settings.cost)
    clients = (settings.concurrency or [32])[0]
    arms = [make_arm(name) for name in settings.arms]
    document = {
        "what": "wall-clock time of the simulator and processor time of schedule() on the machine of environment.json",
        "growth": [grow(chosen, where, arm, cost, sizes, clients, tick) for arm in arms] if sizes else [],
        "waiting": [waiting_cost(chosen, where, arm, waiting, done=tick) for arm in arms] if waiting else [],
    }
    return _kept(settings, "scale", document, tables.scaled(document))
