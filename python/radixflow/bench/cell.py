"""From the raw results of a cell to the row that is printed and kept."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from radixflow.bench.client import CallResult
from radixflow.bench.measure import (
    Agreement,
    Answer,
    compare,
    latency_summary,
    merge_agreement,
    paired_ratios,
    percentile,
)
from radixflow.bench.rounds import RoundTotals, merge_totals
from radixflow.bench.settings import Cell
from radixflow.bench.workloads import LABEL_IDS, Call

Row = dict[str, Any]


@dataclass(frozen=True)
class CellRun:
    """One repeat of one cell on one arm."""

    cell: Cell
    arm: str
    repeat: int
    calls: tuple[Call, ...]
    results: tuple[CallResult, ...]
    totals: RoundTotals

    @property
    def duration_s(self) -> float:
        """Seconds from the first request to the last answer."""
        return max(result.ended for result in self.results) - min(result.started for result in self.results)

    @property
    def completed(self) -> int:
        """Decisions that were answered."""
        pairs = zip(self.calls, self.results, strict=True)
        return sum(len(call.decisions) for call, result in pairs if result.error is None)

    @property
    def decisions(self) -> int:
        """Decisions that were sent."""
        return sum(len(call.decisions) for call in self.calls)

    @property
    def throughput(self) -> float:
        """Decisions answered per second."""
        return self.completed / self.duration_s if self.duration_s > 0 else float("nan")

    @property
    def latencies_ms(self) -> list[float]:
        """Milliseconds per answered call; every decision of a call has the call's latency."""
        return [result.latency_ms for result in self.results if result.error is None]

    def answers(self) -> list[list[Answer] | None]:
        """Return the answers decision by decision; None for a decision whose call failed."""
        rows: list[list[Answer] | None] = []
        for call, result in zip(self.calls, self.results, strict=True):
            prompt = 0
            for decision in call.decisions:
                size = len(decision.prompts)
                part = result.logprobs[prompt : prompt + size]
                # /v1/systemone gives answers and no log-probabilities: nothing to compare.
                rows.append([Answer(logprobs) for logprobs in part] if result.error is None and part else None)
                prompt += size
        return rows

    def decision_rows(self, origin: float) -> list[dict[str, object]]:
        """Return one row a decision for `rows.jsonl`; times in seconds since `origin`."""
        rows: list[dict[str, object]] = []
        answers = iter(self.answers())
        for call, result in zip(self.calls, self.results, strict=True):
            for decision in call.decisions:
                branches = next(answers)
                rows.append(
                    {
                        "workload": self.cell.workload,
                        "concurrency": self.cell.concurrency,
                        "request_rate": self.cell.request_rate,
                        "arm": self.arm,
                        "repeat": self.repeat,
                        "decision": len(rows),
                        "call": result.index,
                        "started_s": result.started - origin,
                        "latency_ms": result.latency_ms,
                        "shared_tokens": decision.shared,
                        "prompt_tokens": [len(prompt) for prompt in decision.prompts],
                        "labels": None if branches is None else [LABEL_IDS[one.label] for one in branches],
                        "logprobs": None if branches is None else [one.logprobs for one in branches],
                        "error": result.error,
                    }
                )
        return rows


def agreement_with(runs: Sequence[CellRun], reference: CellRun) -> Agreement:
    """Compare every run with the reference run, which is left out itself."""
    expected = reference.answers()
    return merge_agreement([compare(expected, run.answers()) for run in runs if run is not reference])


def _paired(runs: Sequence[CellRun], baseline: Sequence[CellRun]) -> Row:
    base = {run.repeat: run for run in baseline}
    pairs = [(run, base[run.repeat]) for run in runs if run.repeat in base]
    speed = paired_ratios([run.throughput for run, _ in pairs], [other.throughput for _, other in pairs])
    latency = paired_ratios(
        [statistics.fmean(run.latencies_ms) if run.latencies_ms else 0.0 for run, _ in pairs],
        [statistics.fmean(other.latencies_ms) if other.latencies_ms else 0.0 for _, other in pairs],
    )
    return {
        "request_throughput": speed,
        "request_throughput_median": percentile(speed, 50),
        "request_throughput_quartiles": [percentile(speed, 25), percentile(speed, 75)],
        "mean_e2el": latency,
        "mean_e2el_median": percentile(latency, 50),
    }


def _goodput(runs: Sequence[CellRun], limit_ms: float | None, duration_s: float) -> float | None:
    """Return decisions answered within a latency per second; None without a limit."""
    if limit_ms is None or duration_s <= 0:
        return None
    good = sum(
        len(call.decisions)
        for run in runs
        for call, result in zip(run.calls, run.results, strict=True)
        if result.error is None and result.latency_ms <= limit_ms
    )
    return good / duration_s


def summarise(
    cell: Cell, runs: Mapping[str, Sequence[CellRun]], baseline: str, goodput_ms: float | None = None
) -> list[Row]:
    """Return one row per arm of a finished cell, in the arms' order; arms without a run have none.

    `request_throughput` counts decisions, not prompts, per second.  Latency is that of a call, which is a
    decision's too, since all decisions of a call are answered together.
    """
    reference = next(iter(runs.get(baseline, ())), None)
    rows: list[Row] = []
    for arm, repeats in runs.items():
        if not repeats:
            continue
        totals = merge_totals([run.totals for run in repeats])
        completed = sum(run.completed for run in repeats)
        sent = sum(run.decisions for run in repeats)
        duration = sum(run.duration_s for run in repeats)
        latencies = [value for run in repeats for value in run.latencies_ms]
        tokens = sum(result.prompt_tokens for run in repeats for result in run.results)
        calls = sum(len(run.calls) for run in repeats)
        rows.append(
            {
                "workload": cell.workload,
                "concurrency": cell.concurrency,
                "request_rate": cell.request_rate,
                "arm": arm,
                "repeats": len(repeats),
                "decisions_per_repeat": repeats[0].decisions,
                "calls": calls,
                "completed": completed,
                "failed": sent - completed,
                "errors": sorted({result.error for run in repeats for result in run.results if result.error})[:5],
                "total_input": tokens,
                "duration": duration,
                "request_throughput": completed / duration if duration > 0 else float("nan"),
                "request_goodput": _goodput(repeats, goodput_ms, duration),
                "total_token_throughput": tokens / duration if duration > 0 else float("nan"),
                **latency_summary(latencies),
                "worker_rounds": totals.worker_rounds,
                "rounds_per_decision": totals.worker_rounds / sent,
                "rounds_per_call": totals.worker_rounds / calls,
                "tokens_computed": totals.tokens_computed,
                "tokens_per_round": totals.tokens_computed / max(1, totals.worker_rounds),
                "prefix_hit_tokens": totals.prefix_hit_tokens,
                "pending_deferrals": totals.pending_deferrals,
                "deferrals": totals.deferrals,
                "barrier_breaks": totals.barrier_breaks,
                "holds": totals.holds,
                "hold_ms": totals.hold_ms,
                "empty_steps": totals.empty_steps,
                "schedule_host_us": {
                    "p50": totals.schedule_host_us_p50,
                    "p99": percentile(totals.host_us, 99),
                },
                "telemetry_us": {"p50": totals.telemetry_us_p50},
                "by_repeat": {
                    "request_throughput": [run.throughput for run in repeats],
                    "worker_rounds": [run.totals.worker_rounds for run in repeats],
                },
                "versus_baseline": _paired(repeats, runs.get(baseline, ())),
                "agreement": agreement_with(repeats, reference).as_dict() if reference is not None else None,
            }
        )
    return rows
