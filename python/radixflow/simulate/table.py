"""The table of all cells: stock vLLM beside presets, on the real scheduler under a virtual clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from vllm.v1.core.sched.scheduler import Scheduler as VllmScheduler

from radixflow.engine.scheduler import Scheduler
from radixflow.simulate.cells import Cell
from radixflow.simulate.virtual import Outcome

THROUGHPUT_FLOOR = 0.995
MEAN_CEILING, MEAN_GRACE_MS = 1.005, 0.2
P99_CEILING, P99_GRACE_MS = 1.01, 0.5


@dataclass(frozen=True, slots=True)
class Row:
    """One arm in one cell."""

    cell: str
    block: int
    arm: str
    rounds: int
    tokens: int
    bound: int
    """Fewest tokens that anybody could compute."""
    mean_ms: float
    p99_ms: float
    per_second: float
    """Decisions a second."""
    ratio: float
    """Throughput over stock's."""
    worse: str
    """In which of throughput, mean and p99 it is worse than stock; empty: in none."""


def worse_than(outcome: Outcome, stock: Outcome) -> list[str]:
    """Name what is worse than stock, beyond a grace: 0.995 of the throughput, 1.005 of the mean, 1.01 of the p99."""
    found = []
    if outcome.per_second < THROUGHPUT_FLOOR * stock.per_second:
        found.append("throughput")
    if outcome.mean_ms > MEAN_CEILING * stock.mean_ms + MEAN_GRACE_MS:
        found.append("mean")
    if outcome.p99_ms > P99_CEILING * stock.p99_ms + P99_GRACE_MS:
        found.append("p99")
    return found


def _row(cell: Cell, arm: str, outcome: Outcome, stock: Outcome, bound: int) -> Row:
    return Row(
        cell=cell.name,
        block=cell.block_size,
        arm=arm,
        rounds=len(outcome.rounds),
        tokens=outcome.tokens,
        bound=bound,
        mean_ms=round(outcome.mean_ms, 2),
        p99_ms=round(outcome.p99_ms, 2),
        per_second=round(outcome.per_second, 3),
        ratio=round(outcome.per_second / stock.per_second, 3),
        worse=" ".join(worse_than(outcome, stock)),
    )


def run_cells(
    cells: Sequence[Cell],
    arms: dict[str, dict[str, Any]],
    hints: bool = False,
    done: Callable[[Cell], None] = lambda cell: None,
    unit: int | None = None,
) -> Iterator[Row]:
    """Run every cell on stock vLLM and with each arm's settings; yields stock's row first.

    Args:
        cells: what to run.
        arms: settings of RadixFlow by a name for the table.
        hints: let clients say how many branches a decision has and what they share.
        done: called after each cell.
        unit: store states inside blocks, at multiples of so many tokens, with each arm; stock shares whole blocks.
    """
    if unit is not None:
        arms = {name: {**settings, "partial_states": "on"} for name, settings in arms.items()}
    for cell in cells:
        bound = cell.lower_bound(cell.make_decisions(), unit)
        stock = cell.run(VllmScheduler)
        cell = replace(cell, match_unit=unit)
        yield _row(cell, "stock", stock, stock, bound)
        for name, settings in arms.items():
            yield _row(cell, name, cell.run(Scheduler, settings, hints), stock, bound)
        done(cell)


def to_markdown(rows: Sequence[Row]) -> str:
    """Write rows as one table: a line a cell and block size, stock first, then every arm."""
    arms = list(dict.fromkeys(row.arm for row in rows if row.arm != "stock"))
    head = ["cell", "block", "stock: rounds", "tokens ÷ bound", "mean, p99 ms", "/s"]
    for arm in arms:
        head += [f"{arm}: rounds", "tokens ÷ bound", "mean, p99 ms", "/s", "of stock", "worse in"]
    lines = ["| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(head) - 1)]
    by_cell: dict[tuple[str, int], dict[str, Row]] = {}
    for row in rows:
        by_cell.setdefault((row.cell, row.block), {})[row.arm] = row
    for (cell, block), found in by_cell.items():
        parts = [cell, str(block)]
        for arm in ("stock", *arms):
            row = found[arm]
            parts += [
                str(row.rounds),
                f"{row.tokens / row.bound:.2f}",
                f"{row.mean_ms:.1f}, {row.p99_ms:.1f}",
                f"{row.per_second:.2f}",
            ]
            if arm != "stock":
                parts += [f"{row.ratio:.2f}", row.worse or "-"]
        lines.append("| " + " | ".join(parts) + " |")
    return "\n".join(lines) + "\n"


def to_json(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return rows as plain values."""
    return [asdict(row) for row in rows]
