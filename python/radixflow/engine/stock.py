"""vLLM's own scheduler with nothing but counters around it: the stock arm of a benchmark."""

from __future__ import annotations

import time
from typing import Any

from vllm.v1.core.sched.async_scheduler import AsyncScheduler as VllmAsyncScheduler
from vllm.v1.core.sched.scheduler import Scheduler as VllmScheduler

from radixflow.config import load_config
from radixflow.engine.compat import known_sha256
from radixflow.engine.recorder import Recorder
from radixflow.engine.scheduler import config_of, data_parallel_rank


class CountingScheduler(VllmScheduler):
    """Records rounds (``trace_path`` of the settings) and decides nothing; the policy setting is ignored."""

    recorder: Recorder | None = None

    def __new__(cls, *arguments: Any, **keywords: Any) -> CountingScheduler:  # noqa: ANN401
        """Return the variant that the engine needs."""
        chosen: type[CountingScheduler] = cls
        if cls is CountingScheduler:
            scheduling = config_of(arguments, keywords).scheduler_config
            chosen = AsyncCounting if scheduling.async_scheduling else SyncCounting
        instance: CountingScheduler = object.__new__(chosen)
        return instance

    def __init__(self, *arguments: Any, **keywords: Any) -> None:  # noqa: ANN401
        """Build vLLM's scheduler and open the trace."""
        vllm_config = config_of(arguments, keywords)
        settings = load_config(vllm_config.additional_config)
        super().__init__(*arguments, **keywords)
        self.clock = time.monotonic
        self.recorder = Recorder(
            settings, "stock", known_sha256(VllmScheduler.schedule), data_parallel_rank(vllm_config)
        )

    def schedule(self, throttle_prefills: bool = False) -> Any:  # noqa: ANN401
        """Schedule as vLLM does and count the round."""
        start = time.perf_counter_ns()
        output = super().schedule(throttle_prefills)
        if self.recorder is not None:
            self.recorder.observe(self, output, time.perf_counter_ns() - start)
        return output

    def shutdown(self) -> None:
        """Stop, and write out what the trace still holds."""
        super().shutdown()
        if self.recorder is not None:
            self.recorder.close()


class SyncCounting(CountingScheduler):
    """The stock arm in a synchronous engine."""


class AsyncCounting(CountingScheduler, VllmAsyncScheduler):
    """The stock arm in an asynchronous engine."""
