"""A trace for Perfetto (Chrome trace JSON): rounds as slices, deferrals and holds as events, a track a decision."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

Row = Mapping[str, Any]
_MOST_TRACKS = 512
_US = 1e6


def _named(process: int, thread: int, kind: str, name: str) -> dict[str, Any]:
    return {"ph": "M", "pid": process, "tid": thread, "name": kind, "args": {"name": name}}


def trace_events(rounds: Iterable[Row], decisions: Iterable[Row], process: int, label: str) -> list[dict[str, Any]]:
    """Return the events of one run.

    Args:
        rounds: rows of ``rounds.jsonl``: ``start_s``, ``end_s``, ``tokens`` by request, and what the scheduler says.
        decisions: rows of ``rows.jsonl``: ``decision``, ``started_s``, ``latency_ms``. The first 512 get a track.
        process: number of the run in the trace.
        label: its name.
    """
    events = [_named(process, 0, "process_name", label), _named(process, 1, "thread_name", "rounds")]
    events.append(_named(process, 2, "thread_name", "holds"))
    tracks: dict[int, int] = {}
    for row in decisions:
        number = int(row["decision"])
        if len(tracks) >= _MOST_TRACKS or row.get("latency_ms") is None:
            continue
        tracks[number] = 10 + number
        events.append(_named(process, 10 + number, "thread_name", f"decision {number}"))
        events.append(
            {"ph": "X", "pid": process, "tid": 10 + number, "name": f"decision {number}", "cat": "decision",
             "ts": _US * row["started_s"], "dur": 1e3 * row["latency_ms"]}
        )  # fmt: skip
    for row in rounds:
        events += _round(row, process, tracks)
    return events


def _round(row: Row, process: int, tracks: Mapping[int, int]) -> Iterable[dict[str, Any]]:
    start, end = _US * row["start_s"], _US * row["end_s"]
    by_request = row["tokens"]
    total = sum(by_request.values())
    shown = {"tokens": total, "rows": len(by_request), "waiting": row.get("waiting")}
    yield {"ph": "X", "pid": process, "tid": 1, "name": f"round {row['round']}", "cat": "round", "ts": start,
           "dur": end - start, "args": shown}  # fmt: skip
    for reason, count in (row.get("deferrals") or {}).items():
        yield {"ph": "i", "pid": process, "tid": 1, "name": f"deferred: {reason}", "cat": "deferral", "ts": start,
               "s": "t", "args": {"requests": count}}  # fmt: skip
    if row.get("hold_ms"):
        yield {"ph": "X", "pid": process, "tid": 2, "name": f"hold: {row.get('release')}", "cat": "hold",
               "ts": start - 1e3 * row["hold_ms"], "dur": 1e3 * row["hold_ms"],
               "args": {"requests": row.get("held")}}  # fmt: skip
    for request, tokens in by_request.items():
        track = tracks.get(int(request.partition("-")[0]))
        if track is not None:
            yield {"ph": "X", "pid": process, "tid": track, "name": f"{request}: {tokens} tokens", "cat": "branch",
                   "ts": start, "dur": end - start, "args": {"tokens": tokens}}  # fmt: skip


def write_trace(runs: Mapping[str, tuple[Iterable[Row], Iterable[Row]]]) -> str:
    """Return the JSON of several runs: label -> (rounds, decisions)."""
    events: list[dict[str, Any]] = []
    for process, (label, (rounds, decisions)) in enumerate(runs.items(), 1):
        events += trace_events(rounds, decisions, process, label)
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}, separators=(",", ":")) + "\n"
