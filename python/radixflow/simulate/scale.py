"""How the simulator and the schedulers behave as work grows: wall-clock time, memory, host time of ``schedule()``.

The only module here that measures; its numbers differ from run to run.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from radixflow.simulate.arms import Arm
from radixflow.simulate.cost import CostModel
from radixflow.simulate.experiment import Traffic, run
from radixflow.simulate.geometry import Geometry
from radixflow.simulate.rig import make_request
from radixflow.simulate.stepper import Stepper
from radixflow.simulate.workloads import Workload


def memory_mib() -> float:
    """Return this process's resident memory, MiB."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return pages * resource.getpagesize() / 2**20


class MemoryWatch:
    """Notes resident memory every so many decisions."""

    def __init__(self, every: int) -> None:
        """Look after each ``every`` decisions."""
        self.samples: list[tuple[int, float]] = []
        self._every = every
        self._seen = 0

    def on_round(self, one: Any) -> None:  # noqa: ANN401
        """Ignore rounds."""

    def on_decision(self, number: int, start: float, end: float) -> None:
        """Count, and look now and then."""
        self._seen += 1
        if self._seen % self._every == 0:
            self.samples.append((self._seen, memory_mib()))


def exponent(sizes: Sequence[float], seconds: Sequence[float]) -> float:
    """Return the slope of ln(seconds) over ln(size): 1 is linear growth."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def grow(
    workload: Workload,
    geometry: Geometry,
    arm: Arm,
    cost: CostModel,
    sizes: Sequence[int],
    concurrency: int,
    done: Callable[[str], None] = lambda what: None,
) -> dict[str, Any]:
    """Simulate more and more decisions; returns seconds, memory, and the exponent by which processor time grows."""
    rows: list[dict[str, Any]] = []
    # Imports, compiled code and first-time caches are nobody's growth.
    run(Traffic(workload, 200, concurrency=concurrency), geometry, arm, cost, 0)
    for size in sizes:
        watch = MemoryWatch(max(1, size // 20))
        begin, began = time.perf_counter(), time.process_time()
        tally = run(Traffic(workload, size, concurrency=concurrency), geometry, arm, cost, 1, observers=[watch]).tally
        seconds, processor = time.perf_counter() - begin, time.process_time() - began
        rows.append(
            {
                "decisions": tally.decisions,
                "branches": tally.branches,
                "rounds": tally.rounds,
                "wall_s": seconds,
                "processor_s": processor,
                "branches_per_processor_s": tally.branches / processor,
                "memory_mib": [round(value, 1) for _, value in watch.samples],
                "memory_growth_mib": watch.samples[-1][1] - watch.samples[len(watch.samples) // 4][1],
            }
        )
        done(f"{size} decisions: {seconds:.1f} s, of them {processor:.1f} s of processor time")
    fitted = (
        exponent([row["decisions"] for row in rows], [row["processor_s"] for row in rows]) if len(rows) > 1 else None
    )
    return {"arm": arm.name, "workload": workload.name, "rows": rows, "exponent": fitted}


def waiting_cost(
    workload: Workload,
    geometry: Geometry,
    arm: Arm,
    sizes: Sequence[int],
    *,
    rounds: int = 8,
    done: Callable[[str], None] = lambda what: None,
) -> dict[str, Any]:
    """Measure processor time of ``schedule()`` in the first rounds, with so many requests waiting.

    The exponent is fitted to the sizes of which somebody still waits after these rounds.
    """
    rows = []
    for size in sizes:
        scheduler = geometry.scheduler(arm.scheduler_class, arm.settings)
        added = 0
        begin = time.thread_time()
        for number, decision in enumerate(workload.decisions(1)):
            for place, branch in enumerate(decision):
                scheduler.add_request(
                    make_request(f"{number}-{place}", branch.tokens, block_size=geometry.hash_size, salt=branch.salt)
                )
                added += 1
            if added >= size:
                break
        adding = time.thread_time() - begin
        stepper = Stepper(scheduler)
        spent, scheduled = [], 0
        for _ in range(rounds):
            begin = time.thread_time()
            output = scheduler.schedule()
            spent.append(time.thread_time() - begin)
            scheduled += len(output.num_scheduled_tokens)
            stepper.complete(output)
        rows.append(
            {
                "waiting": added,
                "schedule_ms_first": 1e3 * spent[0],
                "schedule_ms_median": 1e3 * float(np.median(spent[1:])),
                "rows": scheduled,
                "schedule_us_per_row": 1e6 * sum(spent) / max(1, scheduled),
                "build_and_add_us": 1e6 * adding / added,
            }
        )
        scheduler.shutdown()
        del scheduler, stepper
        done(f"{added} waiting")
    # Where the last of them started within these rounds, later ones had nobody to look at.
    full = [row for row in rows if row["rows"] < row["waiting"]]
    grown = [(row["waiting"], row["schedule_ms_median"]) for row in full]
    slope = exponent(*zip(*grown, strict=True)) if len(grown) > 1 else None
    return {"arm": arm.name, "rows": rows, "exponent": slope}
