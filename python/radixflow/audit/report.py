"""The audit as tables: Markdown for the folder, the same on a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

_COLUMNS = ("arm", "mode", "answers", "flips", "at near-ties", "unequal", "max |dp|", "mean |dp|", "largest margin")
_BINS = ("margin", "answers", "flips", "flip rate", "max |dp|")
NOTE = (
    "Each answer is compared with the first arm's, one decision at a time. A flip is another most probable option; its "
    "margin is the reference's. Answers are not calibrated: this says whether they repeat, not whether they are right."
)


def _number(value: float | None, form: str = ".4f") -> str:
    return "-" if value is None else format(value, form)


def group_cells(groups: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Return the rows of the first table: one an arm and mode."""
    return [
        [
            str(row["arm"]),
            str(row["mode"]),
            f"{row['answers']:,}",
            f"{row['flips']:,}",
            f"{row['flips_at_near_ties']:,}",
            f"{row['unequal']:,}",
            _number(row["max_delta_p"]),
            _number(row["mean_delta_p"], ".6f"),
            _number(row["largest_flipped_margin"]),
        ]
        for row in groups
    ]


def bin_cells(bins: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Return the rows of the second table: one a bin of margins."""
    return [
        [
            f"{row['margin_from']:g} to {row['margin_to']:g}",
            f"{row['answers']:,}",
            f"{row['flips']:,}",
            "-" if row["flip_rate"] is None else f"{100 * row['flip_rate']:.2f} %",
            _number(row["max_delta_p"]),
        ]
        for row in bins
    ]


def _markdown(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    # A bar would end the cell.
    names = [column.replace("|", "\\|") for column in columns]
    lines = ["| " + " | ".join(names) + " |", "| " + " | ".join("---" for _ in names) + " |"]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)]) + "\n"


def markdown(groups: Sequence[Mapping[str, Any]], bins: Sequence[Mapping[str, Any]]) -> str:
    """Return both tables and what they mean."""
    return f"{_markdown(_COLUMNS, group_cells(groups))}\n{_markdown(_BINS, bin_cells(bins))}\n{NOTE}\n"


def show(console: Console, groups: Sequence[Mapping[str, Any]], bins: Sequence[Mapping[str, Any]]) -> None:
    """Print both tables."""
    for columns, rows in ((_COLUMNS, group_cells(groups)), (_BINS, bin_cells(bins))):
        table = Table(*columns)
        for row in rows:
            table.add_row(*row)
        console.print(table)
    console.print(NOTE, highlight=False, markup=False)
