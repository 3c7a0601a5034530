"""Counts rounds and writes their records. The stock arm of a benchmark runs with this and nothing else."""

from __future__ import annotations

import logging
import operator
import time
from collections import Counter
from typing import Any

from radixflow.config import RadixFlowConfig
from radixflow.telemetry import JsonLinesSink, RingSink, RoundRecord, Sink
from radixflow.telemetry.prometheus import HOLD_SECONDS, SCHEDULE_SECONDS, close_series, open_series
from radixflow.telemetry.series import Tally

logger = logging.getLogger("vllm.radixflow")

_COMPUTED = operator.attrgetter("num_computed_tokens")


def _indexed(scheduler: Any) -> int:  # noqa: ANN401
    """Count the prompts in a scheduler's index; the stock arm has neither a controller nor an index."""
    controller = getattr(scheduler, "controller", None)
    index = controller.book.index if controller is not None else None
    return 0 if index is None else len(index)


class Recorder:
    """Collects what happens between two rounds, and makes a record of it when somebody asked for records."""

    def __init__(self, config: RadixFlowConfig, preset: str, schedule_sha256: str, engine: int = 0) -> None:
        """Open the sinks that the settings ask for, and the Prometheus series.

        Args:
            config: the settings.
            preset: name of the policy.
            schedule_sha256: hash of vLLM's ``schedule()`` source.
            engine: data-parallel rank.

        Raises:
            ConfigError: ``trace_path`` can't be opened.
        """
        self.preset = preset
        self.schedule_sha256 = schedule_sha256
        self.ring = RingSink(config.ring_size) if config.ring_size else None
        self.sinks: list[Sink] = [self.ring] if self.ring else []
        if config.trace_path is not None:
            self.sinks.append(JsonLinesSink(config.trace_path))
        self.totals: Counter[str] = Counter()
        """Counts since the start: ``rounds``, ``empty_steps``, ``deferrals.*``, ``barriers.*``, ``holds.*`` ..."""
        self.holds = Tally(HOLD_SECONDS.bounds)
        self.calls = Tally(SCHEDULE_SECONDS.bounds)
        self._series = open_series(str(engine), self.totals, {HOLD_SECONDS: self.holds, SCHEDULE_SECONDS: self.calls})
        self._telemetry_us = 0.0
        self._reset()

    def _reset(self) -> None:
        self.deferrals: dict[str, int] = {}
        self.barriers: dict[str, int] = {}
        self._empty_steps = 0
        self._fallbacks = 0
        self._held = 0
        self._hold_ms = 0.0
        self._release: str | None = None

    def deferred(self, reason: str, count: int = 1) -> None:
        """Count requests passed over."""
        self.totals[f"deferrals.{reason}"] += count
        self.deferrals[reason] = self.deferrals.get(reason, 0) + count

    def barrier(self, reason: str) -> None:
        """Count a native break of the scan."""
        self.totals[f"barriers.{reason}"] += 1
        self.barriers[reason] = self.barriers.get(reason, 0) + 1

    def released(self, reason: str, candidates: int, hold_s: float) -> None:
        """Count the end of a hold that lasted ``hold_s`` seconds."""
        self.totals[f"holds.{reason}"] += 1
        self.holds.add(hold_s)
        self._held, self._hold_ms, self._release = candidates, hold_s * 1e3, reason

    def failed(self, where: str) -> None:
        """Count a failure of ours; the call it happened in is scheduled natively."""
        self.totals[f"failures.{where}"] += 1
        self.totals["fallbacks"] += 1
        self._fallbacks += 1

    def round_ended(self, scheduler: Any, output: Any, now: float, host_ns: int) -> None:  # noqa: ANN401
        """Take note of one ``schedule()`` call.

        Args:
            scheduler: the vLLM scheduler.
            output: its ``SchedulerOutput``.
            now: seconds on the scheduler's clock.
            host_ns: nanoseconds the call took.
        """
        if output.total_num_scheduled_tokens == 0:
            self.totals["empty_steps"] += 1
            self._empty_steps += 1
            return
        seq = self.totals["rounds"]
        self.totals["rounds"] += 1
        self.calls.add(host_ns / 1e9)
        new = output.scheduled_new_reqs
        cached = sum(map(_COMPUTED, new)) if new else 0
        if cached:
            self.totals["saved_tokens"] += cached
        if self.sinks:
            start = time.perf_counter_ns()
            self._write(self._record(scheduler, output, now, host_ns, seq, cached))
            self._telemetry_us = (time.perf_counter_ns() - start) / 1e3
        self._reset()

    def observe(self, scheduler: Any, output: Any, host_ns: int) -> None:  # noqa: ANN401
        """Take note of a call that vLLM decided alone; a failure of ours is counted and logged once."""
        try:
            self.round_ended(scheduler, output, scheduler.clock(), host_ns)
        except Exception:
            if not self.totals["failures.telemetry"]:
                logger.exception("radixflow: counting a round failed; serving goes on, further failures are counted")
            self.failed("telemetry")

    def _record(
        self,
        scheduler: Any,  # noqa: ANN401
        output: Any,  # noqa: ANN401
        now: float,
        host_ns: int,
        seq: int,
        cached: int,
    ) -> RoundRecord:
        return RoundRecord(
            t=now,
            seq=seq,
            rows=len(output.num_scheduled_tokens),
            new_rows=len(output.scheduled_new_reqs),
            tokens=output.total_num_scheduled_tokens,
            cached_tokens=cached,
            waiting=len(scheduler.waiting) + len(scheduler.skipped_waiting),
            running=len(scheduler.running),
            indexed=_indexed(scheduler),
            preset=self.preset,
            schedule_sha256=self.schedule_sha256,
            deferrals=self.deferrals,
            barriers=self.barriers,
            held=self._held,
            hold_ms=self._hold_ms,
            release=self._release,
            empty_steps=self._empty_steps,
            fallbacks=self._fallbacks,
            host_us=host_ns / 1e3,
            telemetry_us=self._telemetry_us,
        )

    def _write(self, record: RoundRecord) -> None:
        for sink in list(self.sinks):
            try:
                sink.write(record)
            except Exception:
                self.sinks.remove(sink)
                self.totals["failures.telemetry"] += 1
                logger.exception("radixflow: a telemetry sink failed and is dropped; serving goes on")

    def close(self) -> None:
        """Close the sinks and publish what is left; may be called twice."""
        close_series(self._series)
        for sink in self.sinks:
            sink.close()
        self.sinks = []
