"""Results of simulated experiments as Markdown."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]


def table(head: Sequence[str], rows: Sequence[Sequence[str]], left: int = 2) -> str:
    """Write a Markdown table; the first ``left`` columns are text, the others numbers."""
    rule = ["---" if place < left else "---:" for place in range(len(head))]
    lines = [list(head), rule, *(list(row) for row in rows)]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines) + "\n"


def number(value: Any, digits: int = 2) -> str:  # noqa: ANN401
    """Write a number, or a dash for none."""
    if value is None or value != value:
        return "-"
    return f"{value:,.{digits}f}" if isinstance(value, float) else f"{value:,}"


def percent(value: float | None, digits: int = 1) -> str:
    """Write a ratio's distance from 1 in percent."""
    return "-" if value is None else f"{100 * value:+.{digits}f} %"


def simulated(rows: Sequence[Row]) -> str:
    """Write one line a cell, geometry and arm: means over seeds."""
    head = ["cell", "geometry", "arm", "decisions/s", "of first arm", "mean ms", "p99 ms", "rounds", "rounds eff."]
    head += ["tokens", "tokens eff.", "deferrals", "holds", "empty"]
    by_key: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        by_key.setdefault((row["cell"], row["geometry"], row["arm"]), []).append(row)
    lines = []
    for key, runs in by_key.items():
        figures = [
            _mean(runs, "request_throughput", 2),
            _mean(runs, "of_first", 2),
            _mean(runs, "mean_e2el_ms", 1),
            number(statistics.fmean(dict(run["percentiles_e2el_ms"])[99] for run in runs), 1),
            _mean(runs, "worker_rounds", 0),
            _mean(runs, "rounds_efficiency", 2),
            _mean(runs, "tokens_computed", 0),
            _mean(runs, "tokens_efficiency", 2),
            _mean(runs, "pending_deferrals", 0),
            number(statistics.fmean(sum(run["holds"].values()) for run in runs), 0),
            _mean(runs, "empty_steps", 0),
        ]
        lines.append([*key, *figures])
    return table(head, lines, left=3) + (
        "\nEfficiency is the lower bound over what was needed: the fewest tokens with every shared block computed\n"
        "once; the fewest rounds by budget, rows and waiting for answers. Means over seeds.\n"
    )


def _mean(runs: Sequence[Row], key: str, digits: int) -> str:
    return number(statistics.fmean(run[key] for run in runs), digits)


def reproduced(document: Mapping[str, Any]) -> str:
    """Write the published table: published, predicted, error; then ours beside it; then what was assumed and varied."""
    base = document["variants"][0]
    cost = base["cost"]
    lines = [
        "## Open-Jev-2B, one A800: published against simulated\n",
        f"Fitted to stock's two cells: {1e3 * cost['fixed_s']:.2f} ms and {1e6 * cost['per_token_s']:.2f} us a token. "
        f"As assumed, since they don't tell: siblings' gap, {1e3 * cost['per_row_s']:g} ms a row.\n",
        f"Assumed: {base['why']}.\n",
    ]
    rows = []
    for one in base["predictions"]:
        verdict = "missed" if one["missed"] else "ok"
        kind = "fitted" if one["fitted"] else "predicted"
        rows.append(
            [one["cell"], one["arm"], one["measure"], number(float(one["published"])), number(float(one["predicted"])),
             percent(one["error"]), kind, verdict]
        )  # fmt: skip
    lines.append(table(["cell", "arm", "measure", "published", "simulated", "error", "", "within limits"], rows))
    if missed := [one for one in base["predictions"] if one["missed"]]:
        lines.append("Missed, and why:\n")
        lines += [f"- {one['cell']}, {one['arm']}, {one['measure']}: {one['reason']}." for one in missed]
        lines.append("")
    lines.append("## `planned` in the calibrated model\n")
    lines.append(beside(base["beside"]))
    lines += [f"- {one['cell']} misses its target: {one['reason']}.\n" for one in base["beside"] if one["reason"]]
    lines.append("## What was assumed, varied: each fitted anew\n")
    lines.append(variants(document["variants"]))
    lines.append("Not simulated:\n")
    lines += [f"- {text}." for text in document["not_simulated"]]
    return "\n".join(lines) + "\n"


def beside(rows: Sequence[Row]) -> str:
    """Write ours beside stock and the predecessor."""
    head = [
        "cell",
        "stock /s",
        "predecessor /s",
        "planned /s",
        "of stock",
        "target",
        "p99 of stock",
        "rounds",
        "missed",
    ]
    return table(
        head,
        [
            [
                row["cell"],
                number(row["stock_per_second"]),
                number(row["predecessor_per_second"]),
                number(row["per_second"]),
                number(row["ratio"], 3),
                number(float(row["target"])),
                number(row["p99_ratio"], 3),
                " > ".join(number(count) for count in row["rounds"]),
                ", ".join(row["missed"]) or "-",
            ]
            for row in rows
        ],
        left=1,
    )


def variants(rows: Sequence[Row]) -> str:
    """Write one line a set of assumptions: errors of every published throughput, and our ratios."""
    shown = [(one["cell"], one["arm"]) for one in rows[0]["predictions"] if one["measure"] == "per_second"]
    ours = [one["cell"] for one in rows[0]["beside"]]
    head = [
        "assumed",
        "fixed ms",
        "us/token",
        *(f"{cell} {arm}" for cell, arm in shown),
        *(f"{cell} x" for cell in ours),
    ]
    lines = []
    for row in rows:
        errors = {(one["cell"], one["arm"]): one for one in row["predictions"] if one["measure"] == "per_second"}
        lines.append(
            [
                f"{row['name']}: {row['why']}" if row is not rows[0] else row["name"],
                number(1e3 * row["cost"]["fixed_s"], 1),
                number(1e6 * row["cost"]["per_token_s"], 1),
                *(percent(errors[key]["error"], 0) for key in shown),
                *(number(one["ratio"]) for one in row["beside"]),
            ]
        )
    return table(head, lines, left=1) + "\nErrors of published throughput in percent; then `planned` over stock.\n"


def attributed(rows: Sequence[Row]) -> str:
    """Write the ablation: what each step gains, its share of the whole, and the client's gather beside it."""
    names = [step["step"] for step in rows[0]["steps"]]
    head = ["cell", "geometry", "planned of stock", *names, "client gather of stock"]
    lines = []
    for row in rows:
        cells = [row["cell"], row["geometry"], _between(row["ratio"], row["ratio_interval"])]
        for step in row["steps"]:
            low, high = step["log_gain_interval"]
            text = f"{100 * step['log_gain']:+.1f} [{100 * low:+.1f}, {100 * high:+.1f}]"
            cells.append(text if step["share"] is None else f"{text} = {100 * step['share']:.0f} %")
        cells.append("-" if row["gather_ratio"] is None else _between(row["gather_ratio"], row["gather_interval"]))
        lines.append(cells)
    return table(head, lines) + (
        "\nSteps: 100 ln(throughput over that of the step before), mean over seeds [95 % interval, bootstrap],\n"
        "and its share of 100 ln(planned over stock) where that is at least 1. What a step gains depends on the steps\n"
        "before it.\n"
    )


def _between(value: float, interval: Sequence[float]) -> str:
    return f"{value:.3f} [{interval[0]:.3f}, {interval[1]:.3f}]"


def ranked(rows: Sequence[Row]) -> str:
    """Write throughput by ranks, arm and router."""
    head = ["ranks", "arm", "router", "decisions/s", "a rank", "of affine", "tokens a decision", "mean ms", "p99 ms"]
    return table(
        head,
        [
            [
                str(row["ranks"]),
                row["arm"],
                row["router"],
                number(row["per_second"]),
                number(row["per_second_and_rank"]),
                number(row["of_affine"], 3),
                number(row["tokens_per_decision"], 0),
                number(row["mean_ms"], 0),
                number(row["p99_ms"], 0),
            ]
            for row in rows
        ],
        left=3,
    )


def scaled(document: Mapping[str, Any]) -> str:
    """Write wall-clock time by decisions, and host time by waiting requests."""
    lines = []
    for arm in document["growth"]:
        lines.append(f"### {arm['arm']}, {arm['workload']}: exponent {number(arm['exponent'], 3)}\n")
        head = [
            "decisions",
            "branches",
            "rounds",
            "wall s",
            "processor s",
            "branches/s",
            "MiB at a quarter",
            "at the end",
        ]
        rows = [
            [
                number(row["decisions"]),
                number(row["branches"]),
                number(row["rounds"]),
                number(row["wall_s"], 1),
                number(row["processor_s"], 1),
                number(row["branches_per_processor_s"], 0),
                number(row["memory_mib"][len(row["memory_mib"]) // 4], 0),
                number(row["memory_mib"][-1], 0),
            ]
            for row in arm["rows"]
        ]
        lines.append(table(head, rows, left=0))
    for arm in document["waiting"]:
        lines.append(f"### {arm['arm']}: `schedule()` by waiting requests, exponent {number(arm['exponent'], 3)}\n")
        head = ["waiting", "first ms", "median ms", "us a row", "build and add, us a request"]
        rows = [
            [number(row["waiting"]), number(row["schedule_ms_first"]), number(row["schedule_ms_median"]),
             number(row["schedule_us_per_row"], 0), number(row["build_and_add_us"], 0)]
            for row in arm["rows"]
        ]  # fmt: skip
        lines.append(table(head, rows, left=0))
    return "\n".join(lines)
