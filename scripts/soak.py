"""Live long in simulation, and watch memory and index: both have to stay flat.

    python scripts/soak.py [--calls 200000] [--preset planned] [--seed 0]

One scheduler lives on (:mod:`life` of ``tests/support``, every check after every step): arrivals, aborts, resets,
sessions. Between epochs everybody is let go, and resident memory, index and Python objects of this package are written
down. Exit status 1: memory or objects grow after the first quarter, or something is left in the index.
"""

from __future__ import annotations

import argparse
import gc
import os
import random
import sys
import time
from pathlib import Path

os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))

import psutil
from life import Life, Shape

_GROWTH_MB = 16.0
"""Resident memory may wander by this much: allocators keep what they had."""


def epoch(life: Life, source: random.Random, calls: int) -> None:
    """Live for about ``calls`` calls of ``schedule()``, then let everybody go."""
    target = life.calls + calls
    while life.calls < target:
        kind = source.random()
        if kind < 0.25:
            life.do("add", source.randrange(1 << 32))
        elif kind < 0.33:
            life.do("crowd", source.randrange(1 << 32), source.randint(2, 6), source.random() < 0.3)
        elif kind < 0.80:
            life.do("schedule", source.randint(1, 6))
        elif kind < 0.86:
            life.do("stream", source.choice([0, 5, 17]))
        elif kind < 0.92:
            life.do("abort", source.randrange(30))
        elif kind < 0.95:
            life.do("reset", source.random() < 0.5)
        else:
            life.do("wait", source.choice([0.0005, 0.006, 0.3]))
    life.finish()
    # What a client remembers is not the scheduler's: let it go with the epoch.
    life.log.clear()
    life.passed.clear()
    life.sent.clear()
    life.worker.namespaces.clear()
    life.worker.answers.clear()
    life.worker.finished.clear()
    life.worker.rounds.clear()
    life.worker.batch.rows.clear()
    life.worker.memory = type(life.worker.memory)()
    life.scheduler.reset_prefix_cache()


def objects() -> int:
    """Count live Python objects of this package."""
    gc.collect()
    return sum(str(type(thing).__module__).startswith("radixflow") for thing in gc.get_objects())


def main() -> int:
    """Live, watch, judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=200_000)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--preset", default="planned")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    source = random.Random(options.seed)
    life = Life(options.preset, Shape(40, 128, 16, 16, "fcfs", False, "hybrid", None, 1, 0))
    process, seen, start = psutil.Process(), [], time.monotonic()
    print("epoch,calls,resident_mb,objects,index_keys,index_bytes,promises,seconds", flush=True)
    for number in range(options.epochs):
        epoch(life, source, options.calls // options.epochs)
        controller = life.controller
        index = controller.book.index if controller is not None else None
        stats = index.stats() if index is not None else None
        keys = len(index) if index is not None else 0
        promises = len(controller.planner.promises) if controller is not None and controller.planner else 0
        row = (
            process.memory_info().rss / 2**20,
            objects(),
            keys,
            stats["memory_bytes"] if stats is not None else 0,
            promises,
        )
        seen.append(row)
        print(
            f"{number},{life.calls},{row[0]:.1f},{row[1]},{row[2]},{row[3]},{row[4]},{time.monotonic() - start:.0f}",
            flush=True,
        )
    settled = seen[len(seen) // 4 :]
    grown_mb, grown = settled[-1][0] - settled[0][0], settled[-1][1] - settled[0][1]
    left = [row for row in seen if row[2] or row[4]]
    print(
        f"resident memory {grown_mb:+.1f} MB, objects {grown:+d} since the first quarter; {len(left)} epochs left keys"
    )
    return 1 if grown_mb > _GROWTH_MB or grown > 200 or left else 0


if __name__ == "__main__":
    sys.exit(main())
