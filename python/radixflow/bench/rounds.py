"""The scheduler's side of a cell: rounds read from a server's JSONL trace and cut by time."""

from __future__ import annotations

import json
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from radixflow.bench.measure import percentile

Record = dict[str, Any]


class TraceReader:
    """Reads a growing trace; keeps what it has read, and never a half-written last line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.records: list[Record] = []
        self._offset = 0

    def poll(self) -> int:
        """Read what was appended since; return how many records came.

        Lines that are not JSON objects with a number `t` are skipped: a trace may carry a header.
        """
        if not self.path.exists():
            return 0
        with self.path.open("rb") as stream:
            stream.seek(self._offset)
            data = stream.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        before = len(self.records)
        for line in whole.splitlines():
            try:
                record = json.loads(line)
            except ValueError:
                continue
            if isinstance(record, dict) and isinstance(record.get("t"), int | float):
                self.records.append(record)
        return len(self.records) - before

    def window(
        self,
        start: float,
        end: float,
        prompts: int,
        *,
        patience_s: float = 2.0,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> list[Record]:
        """Return the rounds whose `t` lies in [start, end] (monotonic seconds).

        Waits, up to `patience_s`, until rounds that bring `prompts` new requests are there: the server's
        writer is a thread of its own and may be behind.
        """
        deadline = clock() + patience_s
        while True:
            came = self.poll()
            cut = [record for record in self.records if start <= record["t"] <= end]
            complete = sum(_number(record, "new_rows") for record in cut) >= prompts
            if (complete and not came) or clock() >= deadline:
                return cut
            sleep(0.05)


def _number(record: Record, key: str) -> float:
    value = record.get(key)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0.0


def _reasons(records: Iterable[Record], key: str) -> dict[str, int]:
    total: Counter[str] = Counter()
    for record in records:
        value = record.get(key)
        if isinstance(value, dict):
            total.update({str(reason): int(count) for reason, count in value.items()})
    return dict(sorted(total.items()))


@dataclass(frozen=True)
class RoundTotals:
    """Sums over the rounds of a cell; times in the unit that the name ends with."""

    worker_rounds: int = 0
    tokens_computed: int = 0
    prefix_hit_tokens: int = 0
    empty_steps: int = 0
    hold_ms: float = 0.0
    deferrals: dict[str, int] = field(default_factory=dict)
    barrier_breaks: dict[str, int] = field(default_factory=dict)
    holds: dict[str, int] = field(default_factory=dict)
    host_us: tuple[float, ...] = ()
    telemetry_us: tuple[float, ...] = ()

    @property
    def pending_deferrals(self) -> int:
        """Deferrals of any reason."""
        return sum(self.deferrals.values())

    @property
    def schedule_host_us_p50(self) -> float:
        """Median host microseconds of one round in `schedule()`; NaN without rounds."""
        return percentile(self.host_us, 50)

    @property
    def telemetry_us_p50(self) -> float:
        """Median microseconds of one round spent in the counters themselves; NaN if not recorded."""
        return percentile(self.telemetry_us, 50)


def total_rounds(records: Sequence[Record]) -> RoundTotals:
    """Sum the records of a cell.  A record with no scheduled request is an empty step, not a round."""
    rounds = [record for record in records if _number(record, "rows") > 0]
    releases = Counter(str(record["release"]) for record in rounds if record.get("release"))
    return RoundTotals(
        worker_rounds=len(rounds),
        tokens_computed=int(sum(_number(record, "tokens") for record in rounds)),
        prefix_hit_tokens=int(sum(_number(record, "cached_tokens") for record in rounds)),
        empty_steps=int(sum(_number(record, "empty_steps") for record in rounds)),
        hold_ms=sum(_number(record, "hold_ms") for record in rounds),
        deferrals=_reasons(rounds, "deferrals"),
        barrier_breaks=_reasons(rounds, "barriers"),
        holds=dict(sorted(releases.items())),
        host_us=tuple(_number(record, "host_us") for record in rounds),
        telemetry_us=tuple(
            value for record in rounds if not math.isnan(value := _number_or_nan(record, "telemetry_us"))
        ),
    )


def _number_or_nan(record: Record, key: str) -> float:
    return _number(record, key) if isinstance(record.get(key), int | float) else math.nan


def merge_totals(parts: Sequence[RoundTotals]) -> RoundTotals:
    """Add up the totals of a cell's repeats."""

    def add(name: str) -> dict[str, int]:
        total: Counter[str] = Counter()
        for part in parts:
            total.update(getattr(part, name))
        return dict(sorted(total.items()))

    return RoundTotals(
        worker_rounds=sum(part.worker_rounds for part in parts),
        tokens_computed=sum(part.tokens_computed for part in parts),
        prefix_hit_tokens=sum(part.prefix_hit_tokens for part in parts),
        empty_steps=sum(part.empty_steps for part in parts),
        hold_ms=sum(part.hold_ms for part in parts),
        deferrals=add("deferrals"),
        barrier_breaks=add("barrier_breaks"),
        holds=add("holds"),
        host_us=tuple(value for part in parts for value in part.host_us),
        telemetry_us=tuple(value for part in parts for value in part.telemetry_us),
    )
