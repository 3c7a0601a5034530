"""Figures of a report: vector, and the same bytes from the same data."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from radixflow.report.cells import Series, ratio_interval, series
from radixflow.report.load import Folder

_SIZE = (9.0, 3.6)
_MOST_PANELS = 6
_STYLE: dict[Any, Any] = {
    "svg.hashsalt": "radixflow",
    "svg.fonttype": "path",
    "font.size": 9,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


@dataclass(frozen=True, slots=True)
class Drawing:
    """A figure that can be written more than once, and comes out the same."""

    draw: Callable[[Any], None]
    size: tuple[float, float] = _SIZE
    """Inches."""

    def svg(self) -> str:
        """Return an ``<svg>`` element."""
        text = self._render("svg", {"Date": None, "Creator": None}).decode()
        return text[text.index("<svg") :]

    def pdf(self) -> bytes:
        """Return a PDF file."""
        return self._render("pdf", {"CreationDate": None, "Creator": None, "Producer": None})

    def _render(self, form: str, metadata: dict[str, None]) -> bytes:
        # Imported here: it costs a second, and most commands never draw.
        import matplotlib as mpl

        mpl.use("Agg")
        from matplotlib.figure import Figure

        with mpl.rc_context(_STYLE):
            figure = Figure(figsize=self.size, layout="constrained")
            self.draw(figure)
            buffer = io.BytesIO()
            figure.savefig(buffer, format=form, metadata=metadata)
        return buffer.getvalue()


Figures = dict[str, Drawing]


def _panels(figure: Any, cells: list[str]) -> Any:  # noqa: ANN401
    columns = min(3, len(cells))
    return figure.subplots(-(-len(cells) // columns), columns, squeeze=False).flat


def latency_cdfs(found: Mapping[tuple[str, str], Series]) -> Drawing | None:
    """Draw the share of decisions answered within a time, a panel a cell."""
    cells = [cell for cell in dict.fromkeys(cell for cell, _ in found) if _has_latencies(found, cell)][:_MOST_PANELS]
    if not cells:
        return None

    def draw(figure: Any) -> None:  # noqa: ANN401
        for axes, cell in zip(_panels(figure, cells), cells, strict=False):
            for (name, arm), one in found.items():
                if name == cell and one.latencies:
                    values = sorted(one.latencies)
                    axes.step(values, [(place + 1) / len(values) for place in range(len(values))], label=arm)
            axes.set_title(cell, fontsize=9)
            axes.set_xlabel("latency, ms")
            axes.set_ylim(0, 1.02)
            axes.set_xlim(left=0)
            axes.legend(fontsize=7)

    return Drawing(draw, (9.0, 2.8 * -(-len(cells) // 3)))


def _has_latencies(found: Mapping[tuple[str, str], Series], cell: str) -> bool:
    return any(one.latencies for (name, _), one in found.items() if name == cell)


def _lines(found: Mapping[tuple[str, str], Series]) -> dict[tuple[str, str], list[Series]]:
    """Group series that differ in concurrency only: (workload, arm) -> by concurrency."""
    lines: dict[tuple[str, str], list[Series]] = {}
    for (cell, arm), one in found.items():
        if one.concurrency is not None:
            workload = re.sub(r" C\d+", "", cell)
            lines.setdefault((workload, arm), []).append(one)
    return {key: sorted(some, key=lambda one: one.concurrency or 0) for key, some in lines.items()}


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def rounds_by_concurrency(found: Mapping[tuple[str, str], Series]) -> Drawing | None:
    """Draw rounds a decision over clients."""
    return _by_workload(
        found,
        lambda one: float(one.concurrency or 0),
        lambda one: _mean(one.rounds_per_decision),
        "clients",
        "rounds a decision",
    )


def frontier(found: Mapping[tuple[str, str], Series]) -> Drawing | None:
    """Draw mean latency over throughput, a point a number of clients."""
    return _by_workload(
        found, lambda one: _mean(one.throughput), lambda one: _mean(one.mean_ms), "decisions/s", "mean latency, ms"
    )


def _by_workload(
    found: Mapping[tuple[str, str], Series],
    across: Callable[[Series], float],
    up: Callable[[Series], float],
    across_label: str,
    up_label: str,
) -> Drawing | None:
    lines = _lines(found)
    workloads = list(dict.fromkeys(name for name, _ in lines))[:_MOST_PANELS]
    if not workloads:
        return None

    def draw(figure: Any) -> None:  # noqa: ANN401
        for axes, workload in zip(_panels(figure, workloads), workloads, strict=False):
            for (name, arm), some in lines.items():
                if name == workload:
                    axes.plot([across(one) for one in some], [up(one) for one in some], "o-", ms=4, label=arm)
            axes.set_title(workload, fontsize=9)
            axes.set_xlabel(across_label)
            axes.set_ylabel(up_label)
            axes.set_ylim(bottom=0)
            axes.legend(fontsize=7)

    return Drawing(draw, (9.0, 2.8 * -(-len(workloads) // 3)))


def paired_ratios(found: Mapping[tuple[str, str], Series]) -> Drawing | None:
    """Draw throughput over the first arm's, paired by seed or repeat, with bootstrap intervals."""
    first = next((arm for _, arm in found), None)
    rows = []
    for (cell, arm), one in found.items():
        base = found.get((cell, first or ""))
        if arm == first or base is None:
            continue
        interval = ratio_interval(one.throughput, base.throughput)
        if interval is not None:
            rows.append((f"{cell}: {arm}", interval))
    if not rows:
        return None

    def draw(figure: Any) -> None:  # noqa: ANN401
        axes = figure.subplots()
        for place, (_, (middle, low, high)) in enumerate(reversed(rows)):
            axes.plot([low, high], [place, place], color="tab:blue", lw=2)
            axes.plot([middle], [place], "o", color="tab:blue" if low >= 1.0 else "tab:red", ms=5)
        axes.axvline(1.0, color="black", lw=0.8)
        axes.set_yticks(range(len(rows)), [name for name, _ in reversed(rows)], fontsize=8)
        axes.set_xlabel(f"throughput over {first}'s, geometric mean and 95 % interval; red: not above 1")

    return Drawing(draw, (9.0, 1.0 + 0.26 * len(rows)))


def attribution_bars(folder: Folder) -> Drawing:
    """Draw what each step gains, stacked, a bar a cell."""
    rows = folder.summary["cells"]
    steps = [step["step"] for step in rows[0]["steps"]]

    def draw(figure: Any) -> None:  # noqa: ANN401
        axes = figure.subplots()
        names = [f"{row['cell']}, {row['geometry']}" for row in rows]
        above, below = [0.0] * len(rows), [0.0] * len(rows)
        for place, step in enumerate(steps):
            gains = [100 * row["steps"][place]["log_gain"] for row in rows]
            starts = [above[i] if gain >= 0 else below[i] for i, gain in enumerate(gains)]
            axes.barh(names, gains, left=starts, label=step, height=0.7)
            for i, gain in enumerate(gains):
                (above if gain >= 0 else below)[i] += gain
        axes.invert_yaxis()
        axes.axvline(0.0, color="black", lw=0.8)
        axes.set_xlabel("100 ln(throughput over that of the step before)")
        axes.legend(fontsize=7)

    return Drawing(draw, (9.0, 1.2 + 0.32 * len(rows)))


def margin_histogram(folder: Folder) -> Drawing | None:
    """Draw how far the best label is ahead of the second, by arm, where a real model answered."""
    margins: dict[str, list[float]] = {}
    for row in folder.rows():
        for answer in row.get("logprobs") or ():
            ordered = sorted(answer, reverse=True)
            if len(ordered) > 1:
                margins.setdefault(row["arm"], []).append(ordered[0] - ordered[1])
    if not margins:
        return None

    def draw(figure: Any) -> None:  # noqa: ANN401
        axes = figure.subplots()
        axes.hist(list(margins.values()), bins=30, label=list(margins))
        axes.set_xlabel("margin: log-probability of the best label less that of the second, nats")
        axes.set_ylabel("branches")
        axes.legend(fontsize=7)

    return Drawing(draw)


def figures(folder: Folder) -> Figures:
    """Draw what a folder has data for: title -> drawing."""
    found = series(folder)
    drawn: dict[str, Drawing | None] = {}
    if found:
        drawn = {
            "Latency of decisions": latency_cdfs(found),
            "Rounds against concurrency": rounds_by_concurrency(found),
            "Throughput and latency": frontier(found),
            "Paired ratios": paired_ratios(found),
        }
    if folder.kind == "attribution":
        drawn["Attribution"] = attribution_bars(folder)
    if folder.kind == "bench":
        drawn["Margins of answers"] = margin_histogram(folder)
    return {title: one for title, one in drawn.items() if one is not None}
