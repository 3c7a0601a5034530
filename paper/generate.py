"""Write every number, table and figure of the paper from result folders. Nothing is typed by hand.

    .venv/bin/python paper/generate.py [--out paper/generated]

Folders: the latest of each name in ``bench/results``. A test runs this again and fails if a committed file differs.
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
from pathlib import Path
from typing import Any

from radixflow.report.cells import series
from radixflow.report.figures import attribution_bars, paired_ratios
from radixflow.report.load import Folder, load

HERE = Path(__file__).parent
RESULTS = HERE.parent / "bench/results"
NAMES = ("laboratory", "attribution", "open-jev-2b", "ranks", "scale", "simulation-check")
ON_ENGINES = ("readme", "short-states")
"""Quoted in the paper, and not on the report's page."""

Rows = list[list[str]]


def latest(name: str) -> Folder:
    """Return the newest folder of a name."""
    # A folder of a day that already has one of that name ends in a number.
    found = sorted(
        path for path in RESULTS.iterdir() if path.is_dir() and re.fullmatch(rf"[\d-]+_{name}(-\d+)?", path.name)
    )
    if not found:
        raise SystemExit(f"bench/results has no folder of the name {name!r}; `make bench` measures all of them")
    return load([found[-1]])[0]


def escape(text: str) -> str:
    """Write text for LaTeX."""
    for plain, written in (
        ("\\", r"\textbackslash{}"),
        ("%", r"\%"),
        ("_", r"\_"),
        ("&", r"\&"),
        ("#", r"\#"),
        (">", "$\\rightarrow$"),
    ):
        text = text.replace(plain, written)
    return text


def tabular(head: list[str], rows: Rows, caption: str, label: str = "") -> str:
    """Write a table that fits a column."""
    columns = "l" + "r" * (len(head) - 1)
    lines = [" & ".join(map(escape, row)) + r" \\" for row in rows]
    mark = rf"\label{{{label}}}" if label else ""
    return "\n".join(
        [
            r"\begin{table}[t]\centering\scriptsize\setlength{\tabcolsep}{3pt}",
            rf"\caption{{{escape(caption)}}}{mark}",
            r"\resizebox{\columnwidth}{!}{" + rf"\begin{{tabular}}{{{columns}}}\toprule",
            " & ".join(map(escape, head)) + r" \\ \midrule",
            *lines,
            r"\bottomrule\end{tabular}}\end{table}",
            "",
        ]
    )


def laboratory(folder: Folder) -> tuple[dict[str, str], dict[str, str | bytes]]:
    """Return numbers and files from the simulated cells."""
    by_cell: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for run in folder.summary["runs"]:
        by_cell.setdefault(run["cell"], {}).setdefault(run["arm"], []).append(run)

    def mean(cell: str, arm: str, key: str) -> float:
        return statistics.fmean(run[key] for run in by_cell[cell][arm])

    def p99(cell: str, arm: str) -> float:
        return statistics.fmean(dict(run["percentiles_e2el_ms"])[99] for run in by_cell[cell][arm])

    rows, losing = [], []
    arms = [arm for arm in next(iter(by_cell.values())) if arm != "stock"]
    for cell in by_cell:
        stock = mean(cell, "stock", "request_throughput")
        rows.append([cell, f"{stock:.2f}", *(f"{mean(cell, arm, 'of_first'):.2f}" for arm in arms)])
        tail = p99(cell, "planned") / p99(cell, "stock")
        rows[-1] += [f"{tail:.2f}", f"{mean(cell, 'planned', 'tokens_efficiency'):.2f}"]
        if mean(cell, "planned", "of_first") < 0.9995 or tail > 1.0005:
            losing.append(f"{cell} (throughput {mean(cell, 'planned', 'of_first'):.3f}, p99 {tail:.3f})")
    head = ["cell", "stock /s", *(f"{arm} x" for arm in arms), "planned p99 x", "token eff."]
    caption = "Simulated, block 528: throughput over stock's; p99 latency and token efficiency of planned."
    numbers = {
        "LabLongOne": f"{mean('long C1', 'planned', 'of_first'):.2f}",
        "LabLongThirtyTwo": f"{mean('long C32', 'planned', 'of_first'):.2f}",
        "LabBurstThirtyTwo": f"{mean('burst C32', 'planned', 'of_first'):.2f}",
        "LabTokensEff": f"{1 / mean('long C32', 'planned', 'tokens_efficiency'):.2f} times",
        "LabStockTokensEff": f"{1 / mean('long C32', 'stock', 'tokens_efficiency'):.2f} times",
        "LabLosing": escape("; ".join(losing) or "none of these cells"),
    }
    drawing = paired_ratios(series(folder))
    files: dict[str, str | bytes] = {"laboratory.tex": tabular(head, rows, caption, "tab:laboratory")}
    if drawing is not None:
        files["ratios.pdf"] = drawing.pdf()
    return numbers, files


def attribution(folder: Folder) -> tuple[dict[str, str], dict[str, str | bytes]]:
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


def reproduced(folder: Folder) -> tuple[dict[str, str], dict[str, str | bytes]]:
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


def check(folder: Folder) -> tuple[dict[str, str], dict[str, str | bytes]]:
    """Return numbers and files from the check against an engine."""
    found = folder.summary["rows"]
    rows = [
        [
            row["arm"],
            " = ".join(map(str, row["rounds"])) if row["rounds"][0] == row["rounds"][1] else str(row["rounds"]),
            " = ".join(map(str, row["tokens"])) if row["tokens"][0] == row["tokens"][1] else str(row["tokens"]),
            "yes" if row["equal_round_by_round"] else "no",
            ", ".join(f"{value:.0f}" for value in row["mean_ms"]),
            f"{100 * row['latency_error']:+.1f} %",
        ]
        for row in found
    ]
    head = ["arm", "rounds", "tokens", "every round", "mean processor ms", "error"]
    caption = "CPU engine, then simulated: rounds, tokens, mean latency."
    return {"CheckFamily": escape(found[0]["family"])}, {"check.tex": tabular(head, rows, caption, "tab:check")}


def engines(folder: Folder) -> tuple[dict[str, str], dict[str, str | bytes]]:
    """Return numbers and files from servers side by side."""
    cells = folder.summary["cells"]
    stock = {(cell["workload"], cell["concurrency"]): cell for cell in cells if cell["arm"] == "stock"}
    rows = []
    for cell in cells:
        beside, versus, agreement = (
            stock[cell["workload"], cell["concurrency"]],
            cell["versus_baseline"],
            cell["agreement"],
        )
        if cell is not beside:
            low, high = versus["request_throughput_quartiles"]
            rows.append(
                [
                    f"{cell['workload']} C{cell['concurrency']}, {cell['arm']}",
                    f"{versus['request_throughput_median']:.2f} [{low:.2f}, {high:.2f}]",
                    f"{beside['worker_rounds']} > {cell['worker_rounds']}",
                    f"{beside['tokens_computed']:,} > {cell['tokens_computed']:,}",
                    f"{agreement['equal']}/{agreement['compared']}",
                ]
            )
    settings = folder.summary["settings"]
    numbers = {
        "EndCores": str(folder.environment["cores"]),
        "EndPairs": str(settings["repeats"]),
        "EndBranches": str(settings["branches"]),
        "EndMaxDelta": f"{max(cell['agreement']['max_delta_p'] for cell in cells):.4f}",
    }
    origin = folder.origin[0].upper() + folder.origin[1:]
    caption = f"{origin}: throughput over stock's; rounds and tokens, stock > arm; answers equal to stock's."
    head = ["cell, arm", "throughput x", "rounds", "tokens", "equal"]
    return numbers, {"engines.tex": tabular(head, rows, caption, "tab:engines")}


def short_states(folder: Folder) -> dict[str, str]:
    """Return numbers from states inside blocks, on servers."""
    found, settings = folder.summary, folder.environment["settings"]
    unit, numbers = settings["unit"], {}
    for arm, digits in (("stock", 1), ("planned", 3)):
        numbers[f"Short{arm.title()}Tokens"] = f"{found[arm]['computed_tokens']:,}"
        numbers[f"Short{arm.title()}"] = f"{found[arm]['of_different']:.{digits}f}"
        numbers[f"Short{arm.title()}Seconds"] = f"{found[arm]['median_ms'] / 1e3:.1f}"
    return numbers | {
        "ShortDecisions": str(settings["decisions"]),
        "ShortStateTokens": str(settings["state_tokens"]),
        "ShortQuestions": str(settings["questions"]),
        "ShortOptions": str(settings["options"]),
        "ShortBranches": str(settings["questions"] * settings["options"]),
        "ShortBlock": str(settings["block_size"]),
        "ShortUnit": f"{unit} tokens, set by hand" if unit else "the size that the check chose",
        "ShortDifferent": f"{found['different_tokens']:,}",
        "ShortFirst": f"{found['first_of_different']:.2f}",
        "ShortAnswers": str(settings["decisions"] * settings["questions"]),
        "ShortChanged": str(found["answers_changed"]),
        "ShortMaxDelta": f"{found['max_delta_p']:.4f}",
    }


def generate() -> dict[str, str | bytes]:
    """Return every generated file: name -> content."""
    folders = {name: latest(name) for name in (*NAMES, *ON_ENGINES)}
    numbers: dict[str, str] = {}
    files: dict[str, str | bytes] = {}
    for name, make in (
        ("laboratory", laboratory),
        ("attribution", attribution),
        ("open-jev-2b", reproduced),
        ("simulation-check", check),
        ("readme", engines),
    ):
        some, made = make(folders[name])
        numbers.update(some)
        files.update(made)
    numbers.update(ranks(folders["ranks"]))
    numbers.update(scale(folders["scale"]))
    numbers.update(short_states(folders["short-states"]))
    macros = [f"% From bench/results: {', '.join(folder.name for folder in folders.values())}."]
    macros += [rf"\newcommand{{\{name}}}{{{value}}}" for name, value in sorted(numbers.items())]
    files["numbers.tex"] = "\n".join(macros) + "\n"
    return files


def main() -> None:
    """Write the files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=HERE / "generated", help="folder (%(default)s)")
    parser.add_argument("--folders", action="store_true", help="print the folders that are quoted, and stop")
    options = parser.parse_args()
    if options.folders:
        sys.stdout.write("\n".join(str(latest(name).path) for name in NAMES) + "\n")
        return
    out: Path = options.out
    out.mkdir(parents=True, exist_ok=True)
    for name, content in generate().items():
        (out / name).write_bytes(content.encode() if isinstance(content, str) else content)


if __name__ == "__main__":
    main()
