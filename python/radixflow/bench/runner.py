"""Runs the cells of a benchmark against servers that are already healthy."""

from __future__ import annotations

import asyncio
import random
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from radixflow.bench.cell import CellRun
from radixflow.bench.client import PROTOCOLS, CallResult, drive
from radixflow.bench.progress import ProgressLine
from radixflow.bench.rounds import RoundTotals, TraceReader, total_rounds
from radixflow.bench.server import MODEL_NAME, Server
from radixflow.bench.settings import BenchSettings, Cell
from radixflow.bench.workloads import Call


def repeat_order(arms: Sequence[str], repeat: int) -> list[str]:
    """Return the arms' order in a repeat: forwards in even ones, backwards in odd ones (A B B A A B B A)."""
    return list(arms) if repeat % 2 == 0 else list(reversed(arms))


def start_times(count: int, rate: float, burstiness: float, seed: int) -> list[float]:
    """Return when each call is sent, seconds: gamma gaps of mean 1 / rate, Poisson at burstiness 1.

    The same seed gives the same times on every arm.
    """
    draw = random.Random(f"starts/{seed}")
    now, starts = 0.0, []
    for _ in range(count):
        starts.append(now)
        now += draw.gammavariate(burstiness, 1.0 / (rate * burstiness))
    return starts


@dataclass
class Runner:
    """Measures cell after cell; `runs` holds what was finished, whatever happens later."""

    settings: BenchSettings
    servers: Mapping[str, Server]
    block_size: int
    progress: ProgressLine
    skip: frozenset[str] = frozenset()
    """Labels of cells that were measured before."""
    headers: Mapping[str, str] = field(default_factory=dict)
    restart: Callable[[], None] | None = None
    """Starts every server anew; called before each repeat but the first, so that no repeat sees another's process."""
    runs: dict[Cell, dict[str, list[CellRun]]] = field(default_factory=dict)
    readers: dict[str, TraceReader] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Open every server's trace."""
        self.readers = {arm: TraceReader(server.spec.trace_path) for arm, server in self.servers.items()}

    def run(self) -> None:
        """Measure every cell.

        Cell after cell; with ``restart`` repeat after repeat, every cell in each.

        Raises:
            ServerError: a server died; the message holds its last log lines.
        """
        cells = [cell for cell in self.settings.cells() if cell.label not in self.skip]
        repeats = range(self.settings.repeats)
        if self.restart is None:
            for cell in cells:
                self._measure(cell, repeats)
            return
        for repeat in repeats:
            if repeat:
                self.restart()
            for cell in cells:
                self._measure(cell, range(repeat, repeat + 1))

    def _measure(self, cell: Cell, repeats: range) -> None:
        """Warm every server up for a cell, then measure it on each in every one of ``repeats``."""
        settings = self.settings
        workload = settings.workload(cell.workload)
        calls = workload.calls(workload.round_up(settings.decisions), self.block_size)
        warmup = workload.calls(workload.round_up(settings.warmup_decisions), self.block_size, stream="warm-up")
        arms = list(self.servers)
        self.progress.stage(cell.label, len(arms) * (len(warmup) + len(repeats) * len(calls)))
        for arm in arms:
            self._drive(arm, cell, warmup)
        finished = self.runs.setdefault(cell, {arm: [] for arm in arms})
        for repeat in repeats:
            for arm in repeat_order(arms, repeat):
                results = self._drive(arm, cell, calls)
                totals = self._totals(arm, calls, results)
                finished[arm].append(CellRun(cell, arm, repeat, tuple(calls), tuple(results), totals))

    def _drive(self, arm: str, cell: Cell, calls: Sequence[Call]) -> list[CallResult]:
        server = self.servers[arm]
        settings = self.settings
        starts = None
        if cell.request_rate is not None:
            starts = start_times(len(calls), cell.request_rate, settings.burstiness, settings.seed)
        results = asyncio.run(
            drive(
                server.spec.url,
                calls,
                cell.concurrency,
                model=settings.served_model or MODEL_NAME,
                salt=f"{cell.workload}-{secrets.token_hex(12)}",
                timeout_s=self.settings.request_timeout_s,
                advance=lambda _: self.progress.advance(),
                starts=starts,
                protocol=PROTOCOLS[settings.api],
                headers=self.headers,
            )
        )
        if any(result.error is not None for result in results):
            server.check_alive()
        return results

    def _totals(self, arm: str, calls: Sequence[Call], results: Sequence[CallResult]) -> RoundTotals:
        if self.settings.url is not None:
            # Its scheduler's rounds are not ours to see.
            return RoundTotals()
        # A refused call never reaches the scheduler, so no round of it is waited for.
        answered = zip(calls, results, strict=True)
        prompts = sum(len(call.prompts) for call, result in answered if result.error is None)
        start = min(result.started for result in results)
        end = max(result.ended for result in results)
        return total_rounds(self.readers[arm].window(start, end, prompts))

    def schedule_hashes(self) -> dict[str, str]:
        """Return arm -> sha256 of the source of the `schedule()` that ran, from the traces."""
        found: dict[str, str] = {}
        for arm, reader in self.readers.items():
            reader.poll()
            for record in reader.records[-1:]:
                if isinstance(digest := record.get("schedule_sha256"), str):
                    found[arm] = digest
        return found
