"""vLLM's real scheduler without a model, and a small language for step-by-step tables."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from vllm.v1.core.sched.scheduler import Scheduler as VllmScheduler

import radixflow
from radixflow.simulate.rig import build_scheduler, make_request, vllm_config
from radixflow.simulate.stepper import Stepper

PRESETS = ("native", "rows", "flex", "radixflow", "radixflow_frag", "planned")


class FakeClock:
    """Seconds that pass only when told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Bench:
    """One scheduler, its stepper, its clock."""

    scheduler: Any
    stepper: Stepper
    clock: FakeClock
    block_size: int
    added: list[str] = field(default_factory=list)

    def add(self, request_id: str, tokens: list[int], **options: Any) -> None:
        """Queue a request; later ones have later arrival stamps."""
        options.setdefault("arrival_time", float(len(self.added)))
        self.added.append(request_id)
        self.scheduler.add_request(make_request(request_id, tokens, block_size=self.block_size, **options))

    def step(self) -> dict[str, int]:
        """Run one round; tokens by request id."""
        return self.stepper.step()

    @property
    def totals(self) -> dict[str, int]:
        """Counters since the start."""
        return dict(self.scheduler.recorder.totals)

    @property
    def index_size(self) -> int:
        """Keys in the index; 0 for presets that have none."""
        controller = self.scheduler.controller
        return 0 if controller is None or controller.book.index is None else len(controller.book.index)

    def assert_clean(self) -> None:
        """Nothing is left: no request, no held block, no key, no entry."""
        scheduler = self.scheduler
        assert scheduler.get_num_unfinished_requests() == 0
        assert not scheduler.requests
        pool = scheduler.kv_cache_manager.block_pool
        assert pool.get_num_free_blocks() == pool.num_gpu_blocks - 1
        if getattr(scheduler, "controller", None) is not None:
            book = scheduler.controller.book
            assert not book.entries
            assert not book.candidates
            assert len(book.groups) == 0
            if book.index is not None:
                assert len(book.index) == 0
                book.index.check_integrity()
            if scheduler.controller.planner is not None:
                assert len(scheduler.controller.planner.promises) == 0


@pytest.fixture
def make_bench() -> Callable[..., Bench]:
    """Build a bench: a preset's name (or ``stock``), then the rig's options.

    Every state can be hit unless ``retention`` is 0, vLLM's default: tables of rounds are easier to read that way.
    """

    def build(
        preset: str,
        family: str = "hybrid",
        log_stats: bool = False,
        checkpoint_blocks: int = 0,
        retention: int | None = None,
        **options: Any,
    ) -> Bench:
        settings = {"wait_ms": 0, **options.pop("settings", {})}
        if preset == "stock":
            config = vllm_config(**options)
            scheduler = build_scheduler(VllmScheduler, config, family, log_stats, checkpoint_blocks, retention)
        else:
            config = vllm_config(settings={"policy": preset, **settings}, **options)
            scheduler = build_scheduler(radixflow.Scheduler, config, family, log_stats, checkpoint_blocks, retention)
        clock = FakeClock()
        scheduler.clock = clock
        return Bench(scheduler, Stepper(scheduler), clock, scheduler.hash_block_size)

    return build


@pytest.fixture
def tokens() -> Callable[..., list[int]]:
    """Token ids by name and length: the same name gives the same ids, another name others."""

    def make(name: str, length: int) -> list[int]:
        source = random.Random(name)
        return [source.randrange(3, 500) for _ in range(length)]

    return make


class _Collector(logging.Handler):
    """Keeps what RadixFlow logs; vLLM's logger doesn't hand records on to the root, where pytest listens."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@pytest.fixture
def logged() -> Iterator[Callable[[str], list[str]]]:
    """Return the messages of a level that RadixFlow logged so far."""
    logger, collector = logging.getLogger("vllm.radixflow"), _Collector()
    logger.addHandler(collector)
    yield lambda level: [record.getMessage() for record in collector.records if record.levelname == level]
    logger.removeHandler(collector)
