"""Reads a worker's results back and sums them up, a row a family and arm."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from family_bench.plan import STOCK, Plan, ends_past_a_block, least_tokens
from radixflow.bench.cell import CellRun, summarise
from radixflow.bench.client import CallResult
from radixflow.bench.measure import percentile
from radixflow.bench.rounds import RoundTotals
from radixflow.bench.settings import Cell
from radixflow.bench.workloads import LABEL_IDS, Call, Decision

Row = dict[str, Any]
Place = tuple[int, int]
"""Decision and branch."""


@dataclass
class Family:
    """What was measured of one family."""

    name: str
    calls: list[Call] = field(default_factory=list)
    block_size: int = 0
    startup_s: dict[str, float] = field(default_factory=dict)
    schedule_sha256: dict[str, str] = field(default_factory=dict)
    runs: dict[str, list[CellRun]] = field(default_factory=dict)
    failures: dict[str, int] = field(default_factory=dict)
    """RadixFlow's own failures, by arm and kind."""
    uncached: dict[Place, tuple[float, ...]] = field(default_factory=dict)
    """Answers without a prefix cache to prompts that end one token after a block."""
    error: str | None = None


def read_results(plan: Plan, path: Path) -> tuple[dict[str, Family], bool]:
    """Read what a worker has written so far; return the families, and whether it came to its end."""
    families: dict[str, Family] = {}
    finished = False
    for line in path.read_text().splitlines():
        try:
            item = json.loads(line)
        except ValueError:
            continue  # half a line of a worker that was killed
        if item["kind"] == "done":
            finished = True
            continue
        family = families.setdefault(item["family"], Family(item["family"]))
        if item["kind"] == "engine":
            # That of the first arm, which is stock: another arm may run other blocks.
            family.block_size = family.block_size or item["block_size"]
            family.startup_s[item["arm"]] = item["startup_s"]
            family.schedule_sha256[item["arm"]] = item["schedule_sha256"]
            family.calls = family.calls or plan.calls(family.block_size)
        elif item["kind"] == "run":
            _add_run(plan, family, item)
        elif item["kind"] == "uncached":
            for answer in item["answers"]:
                family.uncached[answer["decision"], answer["branch"]] = tuple(answer["logprobs"])
        elif item["kind"] == "failed":
            family.error = item["error"]
    return families, finished


def _add_run(plan: Plan, family: Family, item: dict[str, Any]) -> None:
    arm = item["arm"]
    results = tuple(
        CallResult(**{**result, "logprobs": tuple(map(tuple, result["logprobs"]))}) for result in item["results"]
    )
    totals = {key: tuple(value) if isinstance(value, list) else value for key, value in item["totals"].items()}
    cell = Cell(workload=f"{family.name} long", concurrency=plan.concurrency)
    run = CellRun(cell, arm, item["repeat"], tuple(family.calls), results, RoundTotals(**totals))
    family.runs.setdefault(arm, []).append(run)
    for name, count in item["since_start"].items():
        if name.startswith("failures.") and count:
            family.failures[f"{arm} {name}"] = count


def different_bits(run: CellRun, reference: CellRun) -> list[Place]:
    """Return where two runs' log-probabilities are not the same bits."""
    return [
        (index, branch)
        for index, (one, other) in enumerate(zip(run.results, reference.results, strict=True))
        for branch, (row, expected) in enumerate(zip(one.logprobs, other.logprobs, strict=True))
        if row != expected
    ]


def _answer(run: CellRun, place: Place) -> tuple[float, ...]:
    return run.results[place[0]].logprobs[place[1]]


def rows_of(family: Family) -> list[Row]:
    """Return a summary row an arm: those of `radixflow bench`, and tokens and bits compared with stock's."""
    if not family.runs:
        return []
    reference = family.runs[STOCK][0] if STOCK in family.runs else next(iter(family.runs.values()))[0]
    rows = summarise(reference.cell, family.runs, STOCK)
    least = sum(least_tokens(decision, family.block_size) for call in family.calls for decision in call.decisions)
    for row in rows:
        runs = family.runs[row["arm"]]
        base = {run.repeat: run for run in family.runs.get(STOCK, ())}
        pairs = [(run, base[run.repeat]) for run in runs if run.repeat in base]
        tokens = [run.totals.tokens_computed / other.totals.tokens_computed for run, other in pairs]
        rounds = [run.totals.worker_rounds / other.totals.worker_rounds for run, other in pairs]
        places = [place for run in runs for place in different_bits(run, reference)]
        prompts = [prompt for call in family.calls for prompt in call.prompts]
        explained = [
            place for place in places if ends_past_a_block(family.calls[place[0]].prompts[place[1]], family.block_size)
        ]
        row |= {
            "family": family.name,
            "block_size": family.block_size,
            "least_tokens": least * len(runs),
            "tokens_vs_stock": percentile(tokens, 50),
            "rounds_vs_stock": percentile(rounds, 50),
            "branches": len(prompts) * len(runs),
            "same_bits": len(prompts) * len(runs) - len(places),
            "other_bits_past_a_block": len(explained),
            "as_uncached": _as_uncached(runs, family.uncached),
            "failures": {name: n for name, n in family.failures.items() if name.startswith(f"{row['arm']} ")},
        }
    return rows


def _as_uncached(runs: Sequence[CellRun], uncached: dict[Place, tuple[float, ...]]) -> list[int]:
    """Count the answers to prompts ending one token after a block: those with the bits of no prefix cache, and all."""
    same = sum(_answer(run, place) == answer for run in runs for place, answer in uncached.items())
    return [same, len(runs) * len(uncached)]


def decision_rows(family: Family) -> list[Row]:
    """Return a row a decision for `rows.jsonl`; log-probabilities where they are not stock's first repeat's."""
    rows: list[Row] = []
    runs = [run for by_arm in family.runs.values() for run in by_arm]
    if not runs:
        return rows
    origin = min(result.started for run in runs for result in run.results)
    reference = runs[0]
    for run in runs:
        for result, expected, call in zip(run.results, reference.results, family.calls, strict=True):
            decision: Decision = call.decisions[0]
            is_first = run is reference
            differs = result.logprobs != expected.logprobs
            row: Row = {
                "family": family.name,
                "arm": run.arm,
                "repeat": run.repeat,
                "decision": result.index,
                "started_s": round(result.started - origin, 3),
                "latency_ms": round(result.latency_ms, 1),
            }
            if is_first:
                row |= {"shared_tokens": decision.shared, "prompt_tokens": [len(prompt) for prompt in decision.prompts]}
            if is_first or differs:
                labels = [LABEL_IDS[max(range(len(one)), key=one.__getitem__)] for one in result.logprobs]
                row |= {"labels": labels, "logprobs": result.logprobs}
            rows.append(row)
    return rows
