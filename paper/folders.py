"""Result folders by name, and how text and tables are written for LaTeX."""

from __future__ import annotations

import re
from pathlib import Path

from radixflow.report.load import Folder, load

RESULTS = Path(__file__).parent.parent / "bench/results"

Rows = list[list[str]]
Made = tuple[dict[str, str], dict[str, str | bytes]]
"""Numbers by macro, and files by name."""


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
