"""Sweeps: what would be run, and what need not be run again."""

from __future__ import annotations

import json
import shlex
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from radixflow.bench.errors import BenchError
from radixflow.bench.measure import cell_label
from radixflow.bench.results import verify
from radixflow.bench.server import ServerSpec
from radixflow.bench.settings import BenchSettings

Row = dict[str, Any]
_FREE = {"name", "workloads", "concurrency", "request_rate", "resume", "save_result", "metadata", "quick"}
"""Settings that may differ between a run and the one it goes on from."""


def plan_text(
    settings: BenchSettings, specs: Sequence[ServerSpec], block_size: int, finished: Collection[str] = ()
) -> str:
    """Say what a run would do: the servers' commands, then calls and decisions of every cell that isn't finished."""
    lines = [f"server of arm {spec.arm}: {shlex.join(spec.command) or spec.url}" for spec in specs]
    total = 0
    for cell in settings.cells():
        if cell.label in finished:
            lines.append(f"{cell.label}: finished, kept")
            continue
        workload = settings.workload(cell.workload)
        calls = len(workload.calls(workload.round_up(settings.decisions), block_size))
        runs = settings.repeats * len(settings.arms)
        total += calls * runs
        lines.append(
            f"{cell.label}: {len(settings.arms)} arms x {settings.repeats} repeats x {calls} calls, "
            f"{workload.round_up(settings.decisions)} decisions a repeat"
        )
    return "\n".join([*lines, f"{total} calls in all, warm-up not counted"]) + "\n"


def _comparable(document: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in document.items() if key not in _FREE}


class Earlier:
    """What a result folder holds of a sweep that was not finished."""

    def __init__(self, folder: Path, settings: BenchSettings) -> None:
        """Read it.

        Raises:
            BenchError: it is no sealed result folder, or was measured with other settings; the message names them.
        """
        try:
            summary = json.loads((folder / "summary.json").read_text())
        except (OSError, ValueError) as error:
            raise BenchError(f"resume is {str(folder)!r}, which is no result folder ({error})") from error
        if problems := verify(folder):
            raise BenchError(f"resume is {str(folder)!r}, which is not as it was sealed: {', '.join(problems)}")
        mine = _comparable(settings.model_dump(mode="json", exclude={"result_dir", "model", "json_output"}))
        theirs = _comparable(summary.get("settings", {}))
        if differing := sorted(key for key in mine if mine[key] != theirs.get(key)):
            named = ", ".join(f"{key} ({theirs.get(key)!r}, now {mine[key]!r})" for key in differing)
            raise BenchError(f"resume is {str(folder)!r}, which was measured with other settings: {named}")
        wanted = {cell.label for cell in settings.cells()}
        by_label: dict[str, list[Row]] = {}
        for row in summary.get("cells", []):
            by_label.setdefault(cell_label(row), []).append(row)
        self.rows: dict[str, list[Row]] = {
            label: rows
            for label, rows in by_label.items()
            if label in wanted
            and {row["arm"] for row in rows} == set(settings.arms)
            and all(row["repeats"] == settings.repeats for row in rows)
        }
        self._folder = folder

    @property
    def labels(self) -> frozenset[str]:
        """Cells that were finished: every arm with every repeat."""
        return frozenset(self.rows)

    def decision_rows(self) -> list[Row]:
        """Return the decisions of finished cells."""
        lines = (self._folder / "rows.jsonl").read_text().splitlines()
        return [row for row in map(json.loads, lines) if cell_label(row) in self.rows]
