"""A file a cell and arm under the names of `vllm bench serve --save-result`, with the scheduler's block beside them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from radixflow.bench.measure import cell_label
from radixflow.bench.results import write_json
from radixflow.bench.settings import BenchSettings

Row = Mapping[str, Any]

VLLM_KEYS = (
    "duration", "completed", "failed", "total_input", "request_throughput", "request_goodput", "total_token_throughput",
    "mean_e2el_ms", "median_e2el_ms", "std_e2el_ms", "percentiles_e2el_ms",
)  # fmt: skip
SCHEDULER_KEYS = (
    "worker_rounds", "rounds_per_decision", "tokens_computed", "tokens_per_round", "prefix_hit_tokens",
    "pending_deferrals", "deferrals", "barrier_breaks", "holds", "hold_ms", "empty_steps", "schedule_host_us",
)  # fmt: skip


def saved_result(row: Row, settings: BenchSettings, model: str) -> dict[str, Any]:
    """Return one cell and arm. A request is a decision; latency is its call's."""
    return {
        "backend": "openai" if settings.api == "completions" else settings.api,
        "label": f"{cell_label(row)} {row['arm']}",
        "model_id": settings.served_model or model,
        "num_prompts": row["completed"] + row["failed"],
        "request_rate": row["request_rate"] if row["request_rate"] is not None else "inf",
        "burstiness": settings.burstiness,
        "max_concurrency": row["concurrency"],
        "seed": settings.seed,
        **settings.metadata,
        **{key: row[key] for key in VLLM_KEYS},
        **{f"p{q}_e2el_ms": value for q, value in row["percentiles_e2el_ms"]},
        "scheduler": {key: row[key] for key in SCHEDULER_KEYS},
    }


def save_results(folder: Path, rows: Sequence[Row], settings: BenchSettings, model: str) -> None:
    """Write ``serve_<cell>_<arm>.json`` for every row."""
    for row in rows:
        stem = re.sub(r"[^A-Za-z0-9.]+", "-", f"{cell_label(row)}_{row['arm']}")
        write_json(folder / f"serve_{stem}.json", saved_result(row, settings, model))
