"""One picture: how far answers moved against how close they were, and how many flipped."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from radixflow.audit.compare import Change, by_margin

_FLOOR = 1e-6


def draw(path: Path, rows: Sequence[Change], title: str) -> None:
    """Write a PNG.

    Args:
        path: where.
        rows: every comparison.
        title: above both panels.
    """
    # Imported here: it costs a second, and most commands never draw.
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    for mode in dict.fromkeys(row.mode for row in rows):
        mine = [row for row in rows if row.mode == mode and not row.flipped]
        left.plot(
            [max(row.margin, _FLOOR) for row in mine], [max(row.delta, _FLOOR) for row in mine], ".", ms=3, label=mode
        )
    flipped = [row for row in rows if row.flipped]
    left.plot(
        [max(row.margin, _FLOOR) for row in flipped],
        [max(row.delta, _FLOOR) for row in flipped],
        "x",
        color="black",
        label="flipped",
    )
    left.set(xscale="log", yscale="log", xlabel="margin of the reference", ylabel="largest |dp|")
    left.legend(frameon=False, fontsize=8)
    table = by_margin(rows)
    names = [f"{row['margin_from']:g}-{row['margin_to']:g}" for row in table]
    bars = right.bar(names, [100 * (row["flip_rate"] or 0.0) for row in table])
    right.bar_label(bars, [f"{row['flips']}/{row['answers']}" for row in table], fontsize=7)
    right.set(xlabel="margin of the reference", ylabel="answers that flipped, %")
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(title, fontsize=10)
    figure.savefig(path, dpi=120)
