"""One picture of a run: latency and rounds per decision, by cell and arm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from radixflow.bench.measure import cell_label

Row = Mapping[str, Any]

_PANELS = (
    ("median_e2el_ms", "median latency, ms"),
    ("rounds_per_decision", "rounds per decision"),
    ("request_throughput", "decisions per second"),
)


def draw(path: Path, rows: Sequence[Row], title: str) -> None:
    """Write a PNG with grouped bars, one group a cell and one colour an arm."""
    # Imported here: it costs a second, and most commands never draw.
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib.figure import Figure

    cells = list(dict.fromkeys(cell_label(row) for row in rows))
    arms = list(dict.fromkeys(str(row["arm"]) for row in rows))
    by_key = {(cell_label(row), str(row["arm"])): row for row in rows}
    figure = Figure(figsize=(4.2 * len(_PANELS), 3.6), layout="constrained")
    panels = figure.subplots(1, len(_PANELS))
    width = 0.8 / max(1, len(arms))
    for axes, (key, label) in zip(panels, _PANELS, strict=True):
        for index, arm in enumerate(arms):
            places = [place for place, cell in enumerate(cells) if (cell, arm) in by_key]
            heights = [float(by_key[cells[place], arm][key]) for place in places]
            offset = (index - (len(arms) - 1) / 2) * width
            bars = axes.bar([place + offset for place in places], heights, width, label=arm)
            axes.bar_label(bars, fmt="%.3g", fontsize=7, padding=1)
        axes.set_xticks(range(len(cells)), cells)
        axes.set_ylabel(label)
        axes.margins(y=0.12)
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].legend(frameon=False, fontsize=8)
    figure.suptitle(title, fontsize=10)
    figure.savefig(path, dpi=120)
