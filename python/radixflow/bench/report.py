"""What a person reads: tables on a console, the same as Markdown, and the notes that go with them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from radixflow.bench.measure import cell_label

Row = Mapping[str, Any]

_MAX_CHANGED = 12

RANDOM_WEIGHTS = (
    "The embedded model has random weights, and some margins between its labels are small: a changed answer "
    "whose margin is about as large as its log-probability difference is rounding, not a scheduling error."
)


def _cell(row: Row) -> str:
    return cell_label(row)


def _figure(value: object, digits: int = 1) -> str:
    if not isinstance(value, int | float) or not math.isfinite(value):
        return "-"
    return f"{value:,.{digits}f}" if isinstance(value, float) else f"{value:,}"


def _change(ratio: object) -> str:
    if not isinstance(ratio, int | float) or not math.isfinite(ratio):
        return "-"
    return f"{(ratio - 1) * 100:+.1f} %"


def _versus(row: Row) -> str:
    """Median of the paired ratios, the middle half of them, and how many there are."""
    versus = row["versus_baseline"]
    pairs = len(versus["request_throughput"])
    if pairs == 0:
        return "-"
    low, high = (f"{(ratio - 1) * 100:+.0f}" for ratio in versus["request_throughput_quartiles"])
    return f"{_change(versus['request_throughput_median'])} [{low}, {high}] n={pairs}"


def _percentile(row: Row, q: int) -> float:
    return float(dict(row["percentiles_e2el_ms"])[q])


def _equal(row: Row) -> str:
    agreement = row["agreement"]
    if agreement is None or not agreement["compared"]:
        return "-"
    return f"{agreement['equal']}/{agreement['compared']}"


@dataclass(frozen=True)
class Column:
    """One column of a table: its heading, what it means, and its text for a summary row."""

    heading: str
    meaning: str
    text: Callable[[Row], str]


def _delta_p(row: Row) -> str:
    agreement = row["agreement"]
    return _figure(agreement["max_delta_p"], 4) if agreement and agreement["compared"] else "-"


def _arm(row: Row) -> str:
    return f"{row['arm']} ({row['failed']} failed)" if row["failed"] else str(row["arm"])


def tables(baseline: str) -> dict[str, list[Column]]:
    """Return title -> columns: what the client sees, and what the scheduler did."""
    key = [
        Column("cell", "workload, and calls in flight", _cell),
        Column("arm", "scheduler; `stock` is vLLM's own with counters around it", _arm),
    ]
    client = [
        Column("decisions/s", "decisions answered per second", lambda row: _figure(row["request_throughput"])),
        Column(
            f"vs {baseline}",
            f"decisions/s against {baseline}: median of the ratios of paired repeats, [their quartiles], pairs",
            _versus,
        ),
        Column("mean ms", "latency of a call, mean", lambda row: _figure(row["mean_e2el_ms"])),
        Column("p50", "its median, ms", lambda row: _figure(row["median_e2el_ms"])),
        Column("p95", "its 95th percentile, ms", lambda row: _figure(_percentile(row, 95))),
        Column(f"= {baseline}", f"answers equal to those of {baseline}'s first repeat", _equal),
        Column("max |Δp|", "largest change of a label's probability", _delta_p),
    ]
    scheduler = [
        Column("rounds", "non-empty worker steps, all repeats", lambda row: _figure(row["worker_rounds"])),
        Column("per decision", "rounds per decision", lambda row: _figure(row["rounds_per_decision"], 2)),
        Column("per call", "rounds per HTTP call", lambda row: _figure(row["rounds_per_call"], 2)),
        Column("tokens", "tokens computed, all repeats", lambda row: _figure(row["tokens_computed"])),
        Column("cached", "prompt tokens taken from the cache", lambda row: _figure(row["prefix_hit_tokens"])),
        Column(
            "host µs",
            "median host time of schedule() in a round",
            lambda row: _figure(row["schedule_host_us"]["p50"], 0),
        ),
        Column(
            "counters µs",
            "median cost of the counters themselves in a round",
            lambda row: _figure(row["telemetry_us"]["p50"]),
        ),
    ]
    return {"RadixFlow benchmark: the client": [*key, *client], "The scheduler": [*key, *scheduler]}


def changed_lines(rows: Sequence[Row]) -> list[str]:
    """Return a line for each changed answer, the largest margins first within each cell and arm."""
    lines: list[str] = []
    for row in rows:
        agreement = row["agreement"]
        changed = agreement["changed"] if agreement else ()
        ordered = sorted(changed, key=lambda change: -change["reference_margin"])
        for change in ordered[:_MAX_CHANGED]:
            lines.append(
                f"{_cell(row)}, {row['arm']}: decision {change['decision']} branch {change['branch']}: "
                f"label {change['reference_label']} -> {change['label']}; "
                f"margin {change['reference_margin']:.4f} nats, "
                f"log-probability difference {change['delta_logprob']:+.4f}"
            )
        if len(ordered) > _MAX_CHANGED:
            lines.append(f"{_cell(row)}, {row['arm']}: {len(ordered) - _MAX_CHANGED} more with smaller margins")
    return lines


def notes(baseline: str, rows: Sequence[Row], *, random_weights: bool) -> list[str]:
    """Return the sentences that belong under the table."""
    lines = [
        f"`= {baseline}`: every arm's repeats against {baseline}'s first repeat; "
        f"{baseline}'s own row shows what repeating alone changes.",
    ]
    if random_weights:
        lines.append(RANDOM_WEIGHTS)
    lines.append(
        "Times are those of a shared machine: where the quartiles of `vs` straddle zero, the cell shows no "
        "difference. `host µs` is per round, and a round that holds more requests takes longer."
    )
    if failed := sum(row["failed"] for row in rows):
        lines.append(f"{failed} decisions failed; their errors are in summary.json.")
    return lines


def _rich_table(title: str, columns: Sequence[Column], rows: Sequence[Row]) -> Table:
    table = Table(title=title, title_justify="left", header_style="bold")
    for index, column in enumerate(columns):
        table.add_column(column.heading, justify="left" if index < 2 else "right")
    previous = None
    for row in rows:
        if previous is not None and previous != _cell(row):
            table.add_section()
        previous = _cell(row)
        table.add_row(*(column.text(row) for column in columns))
    return table


def print_report(console: Console, baseline: str, rows: Sequence[Row], *, random_weights: bool) -> None:
    """Print the tables, the changed answers and the notes."""
    for title, columns in tables(baseline).items():
        console.print(_rich_table(title, columns, rows))
    if changed := changed_lines(rows):
        console.print("Changed answers:", highlight=False)
        for line in changed:
            console.print(f"  {line}", highlight=False, markup=False)
    for line in notes(baseline, rows, random_weights=random_weights):
        console.print(line, highlight=False, markup=False)


def _markdown_table(columns: Sequence[Column], rows: Sequence[Row]) -> list[str]:
    lines = [[column.heading for column in columns]]
    lines.append(["---" if index < 2 else "---:" for index in range(len(columns))])
    lines += [[column.text(row) for column in columns] for row in rows]
    # A bar inside a cell would end it.
    return ["| " + " | ".join(text.replace("|", "\\|") for text in line) + " |" for line in lines]


def markdown(baseline: str, rows: Sequence[Row], *, random_weights: bool) -> str:
    """Return the tables and what belongs to them as Markdown."""
    lines: list[str] = []
    for title, columns in tables(baseline).items():
        lines += [f"{title}:", "", *_markdown_table(columns, rows), ""]
    meanings = {column.heading: column.meaning for columns in tables(baseline).values() for column in columns}
    lines += [*(f"- {heading}: {meaning}" for heading, meaning in meanings.items()), ""]
    if changed := changed_lines(rows):
        lines += ["Changed answers:", "", *(f"- {line}" for line in changed), ""]
    return "\n".join([*lines, *notes(baseline, rows, random_weights=random_weights)]) + "\n"
