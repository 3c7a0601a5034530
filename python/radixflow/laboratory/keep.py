"""Result folders of simulated experiments: the same sealed form as those of `radixflow bench`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from radixflow.bench import environment, results

SIMULATED = "simulated: vLLM's real scheduler and KV-cache manager under a virtual clock; no model ran"


def keep(
    result_dir: Path,
    name: str,
    kind: str,
    summary: Mapping[str, Any],
    table: str,
    rows: Iterable[Mapping[str, Any]] = (),
    extra: Mapping[str, str] | None = None,
) -> Path:
    """Write a result folder and seal it.

    Args:
        result_dir: folder of result folders.
        name: end of the folder's name.
        kind: what experiment it is: ``simulate``, ``reproduce``, ``attribution``, ``ranks``, ``scale``, ``check``.
        summary: results; the same command gives the same bytes.
        table: the same as Markdown.
        rows: one a decision, or a run.
        extra: further text files by name.

    Raises:
        BenchError: the folder can't be made.
    """
    folder = results.create_folder(result_dir, name)
    described = {**environment.machine(), "clock": SIMULATED if kind not in ("scale", "check") else "monotonic"}
    results.write_json(folder / "environment.json", described)
    results.write_rows(folder / "rows.jsonl", rows)
    results.write_json(folder / "summary.json", {"kind": kind, "status": "ok", **summary})
    (folder / "table.md").write_text(table)
    for file, text in (extra or {}).items():
        (folder / file).write_text(text)
    results.seal(folder)
    return folder
