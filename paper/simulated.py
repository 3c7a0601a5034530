"""Numbers, tables and figures from simulated results."""

from __future__ import annotations

import statistics
from typing import Any

from folders import Made, escape, tabular

from radixflow.report.cells import series
from radixflow.report.figures import attribution_bars, paired_ratios
from radixflow.report.load import Folder

Runs = dict[str, dict[str, list[dict[str, Any]]]]


def by_cell(folder: Folder) -> Runs:
    """Return a folder's runs by cell and arm; the geometry is part of a cell's name where there are several."""
    several = len({run["geometry"] for run in folder.summary["runs"]}) > 1
    found: Runs = {}
    for run in folder.summary["runs"]:
        name = f"{run['cell']}, {run['geometry']}" if several else run["cell"]
        found.setdefault(name, {}).setdefault(run["arm"], []).append(run)
    return found


def losing(runs: Runs, arm: str = "planned") -> str:
    """Name the cells in which an arm has less throughput than stock, or a longer p99."""
    found = []
    for cell, arms in runs.items():
        ratio = mean(arms[arm], "of_first")
        tail = p99(arms[arm]) / p99(arms["stock"])
        if ratio < 0.9995 or tail > 1.0005:
            found.append(f"{cell} (throughput {ratio:.3f}, p99 {tail:.3f})")
    return escape("; ".join(found) or "none of these cells")


def mean(runs: list[dict[str, Any]], key: str) -> float:
    """Return the mean of a value over seeds."""
    return statistics.fmean(run[key] for run in runs)


def p99(runs: list[dict[str, Any]]) -> float:
    """Return the mean over seeds of the 99th percentile of latency, ms."""
    return statistics.fmean(dict(run["percentiles_e2el_ms"])[99] for run in runs)


def laboratory(folder: Folder) -> Made:
    """Return numbers and files from the simulated cells."""
    runs = by_cell(folder)
    names = [arm for arm in next(iter(runs.values())) if arm != "stock"]
    rows = [
        [
            cell,
            f"{mean(arms['stock'], 'request_throughput'):.2f}",
            *(f"{mean(arms[arm], 'of_first'):.2f}" for arm in names),
            f"{p99(arms['planned']) / p99(arms['stock']):.2f}",
            f"{mean(arms['planned'], 'tokens_efficiency'):.2f}",
        ]
        for cell, arms in runs.items()
    ]
    head = ["cell", "stock /s", *(f"{arm} x" for arm in names), "planned p99 x", "token eff."]
    caption = "Simulated, block 528: throughput over stock's; p99 latency and token efficiency of planned."
    numbers = {
        "LabLongOne": f"{mean(runs['long C1']['planned'], 'of_first'):.2f}",
        "LabLongThirtyTwo": f"{mean(runs['long C32']['planned'], 'of_first'):.2f}",
        "LabBurstThirtyTwo": f"{mean(runs['burst C32']['planned'], 'of_first'):.2f}",
        "LabTokensEff": f"{1 / mean(runs['long C32']['planned'], 'tokens_efficiency'):.2f} times",
        "LabStockTokensEff": f"{1 / mean(runs['long C32']['stock'], 'tokens_efficiency'):.2f} times",
        "LabLosing": losing(runs),
    }
    drawing = paired_ratios(series(folder))
    files: dict[str, str | bytes] = {"laboratory.tex": tabular(head, rows, caption, "tab:laboratory")}
    if drawing is not None:
        files["ratios.pdf"] = drawing.pdf()
    return numbers, files


def workloads(folder: Folder) -> Made:
    """Return numbers and a table from the other workloads and models."""
    runs = by_cell(folder)
    rows = [
        [
            cell,
            f"{mean(arms['stock'], 'request_throughput'):.2f}",
            f"{mean(arms['planned'], 'of_first'):.2f}",
            f"{p99(arms['planned']) / p99(arms['stock']):.2f}",
            f"{mean(arms['stock'], 'tokens_efficiency'):.2f} > {mean(arms['planned'], 'tokens_efficiency'):.2f}",
        ]
        for cell, arms in runs.items()
    ]
    head = ["cell, model", "stock /s", "planned x", "p99 x", "token eff."]
    caption = (
        "Simulated, other workloads and models: throughput and p99 over stock's; token efficiency, stock > planned."
    )
    return {"WorkLosing": losing(runs)}, {"workloads.tex": tabular(head, rows, caption, "tab:workloads")}


def waiting(folder: Folder) -> dict[str, str]:
    """Return the time of ``schedule()`` with most requests waiting."""
    last = {arm["arm"]: arm["rows"][-1] for arm in folder.summary["waiting"]}
    return {
        "WaitingMost": f"{last['planned']['waiting']:,}",
        "WaitingStock": f"{last['stock']['schedule_ms_median']:.1f}",
        "WaitingPlanned": f"{last['planned']['schedule_ms_median']:.1f}",
    }


def attribution(folder: Folder) -> Made:
    """Return numbers and files from the ablation."""
    cells = folder.summary["cells"]
    steps = [step["step"] for step in cells[0]["steps"]]
    rows = [
        [
            f"{row['cell']}, {row['geometry']}",
            *(f"{100 * step['log_gain']:.1f}" for step in row["steps"]),
            f"{row['ratio']:.2f} [{row['ratio_interval'][0]:.2f}, {row['ratio_interval'][1]:.2f}]",
            "-" if row["gather_ratio"] is None else f"{row['gather_ratio']:.2f}",
        ]
        for row in cells
    ]
    whole = sorted(cells[-1]["steps"], key=lambda step: -step["log_gain"])
    numbers = {
        "AttributionSeeds": str(len(folder.summary["seeds"])),
        "AttributionFirst": whole[0]["step"].lstrip("+"),
        "AttributionFirstShare": rf"{100 * whole[0]['share']:.0f}\,\%",
        "AttributionSecond": whole[1]["step"].lstrip("+"),
        "AttributionSecondShare": rf"{100 * whole[1]['share']:.0f}\,\%",
    }
    caption = "Simulated: 100 ln of each step's gain; planned and a gathering client over stock."
    table = tabular(["cell", *steps, "planned x", "gather x"], rows, caption, "tab:attribution")
    return numbers, {"attribution.tex": table, "attribution.pdf": attribution_bars(folder).pdf()}


def reproduced(folder: Folder) -> Made:
    """Return numbers and files from the published table."""
    base = folder.summary["variants"][0]
    rows = [
        [
            f"{one['cell']}, {one['arm']}, {one['measure'].replace('_', ' ')}",
            f"{one['published']:g}",
            f"{one['predicted']:.3g}",
            f"{100 * one['error']:+.1f} %",
            "fitted" if one["fitted"] else ("missed" if one["missed"] else "predicted"),
        ]
        for one in base["predictions"]
    ]
    rates = [one for one in base["predictions"] if one["measure"] == "per_second" and not one["fitted"]]
    ours = {row["cell"]: row for row in base["beside"]}
    numbers = {
        "ReproFixed": f"{1e3 * base['cost']['fixed_s']:.1f}",
        "ReproToken": f"{1e6 * base['cost']['per_token_s']:.1f}",
        "ReproMissed": str(sum(one["missed"] for one in rates)),
        "ReproPredicted": str(len(rates)),
        "ReproShortOne": f"{ours['short C1']['ratio']:.2f}",
        "ReproShortOneVerdict": ", missed" if ours["short C1"]["missed"] else ", met",
        "ReproLongOne": f"{ours['long C1']['ratio']:.2f}",
        "ReproLongEight": f"{ours['long C8']['ratio']:.2f}",
        "ReproLongThirtyTwo": f"{ours['long C32']['ratio']:.2f}",
        "ReproAttention": f"{ours['attention C8']['ratio']:.2f}",
    }
    caption = "Open-Jev-2B on an A800: published figures, and the simulation's."
    head = ["cell, arm, measure", "published", "simulated", "error", ""]
    return numbers, {"reproduce.tex": tabular(head, rows, caption, "tab:repro")}


def ranks(folder: Folder) -> dict[str, str]:
    """Return numbers from the data-parallel runs."""
    rows = [row for row in folder.summary["rows"] if row["arm"] == "planned" and row["router"] == "least-loaded"]
    most = max(rows, key=lambda row: row["ranks"])
    return {"RanksMost": str(most["ranks"]), "RanksLeast": rf"{100 * most['of_affine']:.0f}\,\%"}


def scale(folder: Folder) -> dict[str, str]:
    """Return numbers from the growth runs."""
    (arm,) = folder.summary["growth"]
    last = arm["rows"][-1]
    memory = last["memory_mib"]
    return {
        "ScaleDecisions": f"{last['decisions']:,}",
        "ScaleWall": f"{last['wall_s']:.0f}",
        "ScaleProcessor": f"{last['processor_s']:.0f}",
        "ScaleMemoryFirst": f"{memory[len(memory) // 4]:.0f}",
        "ScaleMemoryLast": f"{memory[-1]:.0f}",
        "ScaleExponent": f"{arm['exponent']:.2f}",
    }
