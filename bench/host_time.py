"""Host time of ``schedule()`` per scheduled request: presets against stock, on the real scheduler, interleaved.

    .venv/bin/python bench/host_time.py [--presets planned,native] [--siblings 256] [--repeats 40] [--json PATH]

Each repeat builds a scheduler per arm, gives all the same arrivals, runs them to the end, and divides this
thread's processor time spent in ``schedule()`` by the requests scheduled. Arms alternate within a repeat; the
ratio is the median over repeats of arm over stock. Cells: siblings that share one state (vLLM meets one barrier),
decisions of four (it meets one at each), strangers on a hybrid model (nothing to share), and a full-attention
model (nothing to plan).
"""

from __future__ import annotations

import functools
import gc
import json
import logging
import random
import statistics
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import track
from vllm.v1.core.sched.scheduler import Scheduler as VllmScheduler

import radixflow
from radixflow.simulate.rig import build_scheduler, make_request, vllm_config
from radixflow.simulate.stepper import Stepper

CELLS = {
    "siblings": {"family": "hybrid", "shared": 1_024, "own": 64, "block_size": 64},
    "fours": {"family": "hybrid", "shared": 1_024, "own": 64, "block_size": 64, "branches": 4},
    "strangers": {"family": "hybrid", "shared": 0, "own": 1_088, "block_size": 64},
    "attention": {"family": "attention", "shared": 1_024, "own": 64, "block_size": 64},
}


@functools.cache
def prompts(count: int, shared: int, own: int, branches: int) -> list[list[int]]:
    """Draw token ids: ``shared`` common to each ``branches`` prompts in a row, ``own`` of each prompt's own."""
    source = random.Random(1)
    made: list[list[int]] = []
    for number in range(count):
        if number % branches == 0:
            state = [source.randrange(3, 500) for _ in range(shared)]
        made.append([*state, 3 + number % 400, *(source.randrange(3, 500) for _ in range(own - 1))])
    return made


def run_once(arm: str, cell: dict[str, Any], count: int) -> tuple[float, float, int]:
    """Run one arm; returns microseconds in ``schedule()`` and in ``add_request()`` per request, and rounds."""
    settings = None if arm == "stock" else {"policy": arm, "wait_ms": 0}
    config = vllm_config(block_size=cell["block_size"], num_blocks=10_000, budget=16_384, settings=settings)
    scheduler = build_scheduler(
        VllmScheduler if arm == "stock" else radixflow.Scheduler, config, cell["family"], log_stats=False
    )
    requests = [
        make_request(str(number), tokens, block_size=cell["block_size"])
        for number, tokens in enumerate(prompts(count, cell["shared"], cell["own"], cell.get("branches", count)))
    ]
    stepper = Stepper(scheduler)
    gc.collect()
    gc.disable()
    try:
        start = time.thread_time()
        for request in requests:
            scheduler.add_request(request)
        adding = time.thread_time() - start
        spent, rounds = 0.0, 0
        while scheduler.has_unfinished_requests():
            start = time.thread_time()
            output = scheduler.schedule()
            spent += time.thread_time() - start
            rounds += output.total_num_scheduled_tokens > 0
            stepper.complete(output)
    finally:
        gc.enable()
    return 1e6 * spent / count, 1e6 * adding / count, rounds


def main(
    presets: Annotated[str, typer.Option(help="separated by commas")] = "planned,radixflow,native",
    siblings: Annotated[int, typer.Option(help="requests that wait")] = 256,
    repeats: Annotated[int, typer.Option(help="interleaved repeats")] = 40,
    json_path: Annotated[Path | None, typer.Option("--json", help="write the rows there")] = None,
) -> None:
    """Measure and print one row a cell and arm."""
    logging.getLogger("vllm").setLevel(logging.ERROR)
    arms = ["stock", *presets.split(",")]
    rows = []
    for name, cell in CELLS.items():
        seen: dict[str, list[tuple[float, float, int]]] = {arm: [] for arm in arms}
        for repeat in track(range(repeats + 1), description=name, console=Console(stderr=True), transient=True):
            for arm in arms if repeat % 2 else reversed(arms):
                measured = run_once(arm, cell, siblings)
                if repeat:
                    seen[arm].append(measured)
        for arm in arms:
            ratios = [mine[0] / base[0] for mine, base in zip(seen[arm], seen["stock"], strict=True)]
            both = [(a[0] + a[1]) / (b[0] + b[1]) for a, b in zip(seen[arm], seen["stock"], strict=True)]
            rows.append(
                {
                    "cell": name,
                    "arm": arm,
                    "schedule_us": round(statistics.median(one[0] for one in seen[arm]), 2),
                    "add_us": round(statistics.median(one[1] for one in seen[arm]), 2),
                    "rounds": seen[arm][0][2],
                    "schedule_of_stock": round(statistics.median(ratios), 3),
                    "schedule_and_add_of_stock": round(statistics.median(both), 3),
                }
            )
    typer.echo(
        "| cell | arm | schedule() us a request | add_request() us | rounds | schedule of stock | both of stock |"
    )
    typer.echo("|---|---|---:|---:|---:|---:|---:|")
    for row in rows:
        typer.echo("| " + " | ".join(str(value) for value in row.values()) + " |")
    if json_path is not None:
        json_path.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    typer.run(main)
