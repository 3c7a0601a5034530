"""Draw a training curve: `python training/plot.py curve.json curve.png`."""

from __future__ import annotations

import json
from pathlib import Path

import matplotlib
import typer


def main(curve: Path, out: Path) -> None:
    """Draw the share of right answers of both reads, on training batches, over the minutes."""
    matplotlib.use("Agg")
    from matplotlib import pyplot

    points = json.loads(curve.read_text())
    figure, axes = pyplot.subplots(figsize=(7, 3.5))
    for name in ("label_right", "branch_right"):
        known = [(point["minutes"], point[name]) for point in points if name in point]
        axes.plot(*zip(*known, strict=True), label=name.split("_")[0])
    axes.set(xlabel="minutes", ylabel="right answers, training batches", ylim=(0, 1))
    axes.legend()
    axes.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(out, dpi=110)


if __name__ == "__main__":
    typer.run(main)
