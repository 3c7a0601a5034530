"""The simulator against a real CPU engine, stepped in this process on the same arrivals.

    .venv/bin/python bench/simulation_check.py [--family granite-moe-hybrid] [--name check]

A closed loop sends decisions between two steps of the engine, so arrivals are fixed: rounds and tokens have to be
equal, round by round. Then a cost model is fitted to the traces of two streams of decisions, and the latencies of the
one between them are predicted with it, in seconds of processor time: other processes don't count. Exit 1 if a round
differs, or if a mean latency is off by more than 15 %.
"""

from __future__ import annotations

import logging
import os
import statistics
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

LATENCY_WITHIN = 0.15
# As measured for these models on an idle core; pinned, so that nothing that is scheduled depends on this machine.
PINNED = (0.04, 200e-6)
STREAMS = ("warm-up", "fit", "measured", "fit again")
SETTINGS = {"wait_ms": 0, "max_wait_ms": 600_000.0}


def real_engine(family: str, arm: str) -> Any:  # noqa: ANN401
    """Build an engine in this process; the policy believes the pinned cost."""
    from family_bench.worker import Engine

    engine = Engine(family, arm, SETTINGS)
    engine.pin_cost(*PINNED)
    # Engine and client run in this thread, torch on one core: processor time is what an idle core would take.
    engine.clock = engine.scheduler.clock = time.process_time
    return engine


def geometry_of(engine: Any) -> Any:  # noqa: ANN401
    """Return what the simulator needs to know of a real engine."""
    from vllm.v1.kv_cache_interface import MambaSpec

    from radixflow.simulate.geometry import Geometry

    scheduler = engine.scheduler
    groups = scheduler.kv_cache_config.kv_cache_groups
    return Geometry(
        name="engine",
        about="a real engine's",
        block_size=scheduler.block_size,
        state_groups=sum(isinstance(group.kv_cache_spec, MambaSpec) for group in groups),
        match_unit=scheduler.hash_block_size,
        budget=scheduler.max_num_scheduled_tokens,
        rows=scheduler.max_num_running_reqs,
        num_blocks=scheduler.kv_cache_config.num_blocks,
    )


class Rounds:
    """Keeps (rows, tokens) of every round."""

    def __init__(self) -> None:
        """Start empty."""
        self.seen: list[tuple[int, int]] = []

    def on_round(self, one: Any) -> None:  # noqa: ANN401
        """Keep a round."""
        self.seen.append((len(one.tokens), sum(one.tokens.values())))

    def on_decision(self, number: int, start: float, end: float) -> None:
        """Decisions are counted elsewhere."""


def simulated(geometry: Any, arm: str, streams: list[list[Any]], clients: int, cost: Any) -> list[tuple[Any, Rounds]]:  # noqa: ANN401
    """Run the same calls in the simulator, one stream after the other on one scheduler, as the engine did."""
    from radixflow.policies import RoundCost
    from radixflow.simulate.arms import make_arm
    from radixflow.simulate.arrivals import Branch, ClosedLoop
    from radixflow.simulate.loop import EventLoop

    made = make_arm(arm, SETTINGS if arm != "stock" else None)
    scheduler = geometry.scheduler(made.scheduler_class, made.settings)
    if getattr(scheduler, "controller", None) is not None:
        scheduler.controller.cost.cost = RoundCost(*PINNED)
        scheduler.controller.cost.observe = lambda tokens, seconds: None
    found, now = [], 0.0
    for calls in streams:
        rounds = Rounds()
        decisions = ([Branch(list(prompt)) for prompt in call.prompts] for call in calls)
        loop = EventLoop([scheduler], cost, observers=[rounds], start_s=now)
        found.append((loop.run(ClosedLoop(decisions, clients, now)), rounds))
        now = loop.now
    return found


def compare(family: str, arm: str, decisions: int, clients: int) -> dict[str, Any]:
    """Run an arm on the engine twice and in the simulator once a repeat."""
    from family_bench.plan import Plan
    from radixflow.simulate.fit import fit_cost, step_seconds

    engine = real_engine(family, arm)
    try:
        plan = replace(Plan(), decisions=decisions, warmup=decisions, shared=600, own=(40, 120))
        geometry = geometry_of(engine)
        streams = [plan.calls(engine.block_size, stream=stream) for stream in STREAMS]
        runs = []
        for stream, calls in zip(STREAMS, streams, strict=True):
            engine.take_records()
            results = engine.drive(calls, clients, f"check/{arm}/{stream}")
            runs.append((results, engine.take_records()))
        steps = [step for _, records in (runs[1], runs[3]) for step in step_seconds(records, always_busy=True)]
        fitted = fit_cost(steps)
        results, records = runs[2]
        tally, rounds = simulated(geometry, arm, streams, clients, fitted.cost)[2]
        seen = [(record["rows"], record["tokens"]) for record in records]
        by_round = rounds.seen
        measured = [result.latency_ms for result in results]
        return {
            "family": family,
            "arm": arm,
            "clients": clients,
            "decisions": len(measured),
            "rounds": [len(seen), len(by_round)],
            "tokens": [sum(tokens for _, tokens in seen), sum(tokens for _, tokens in by_round)],
            "equal_round_by_round": seen == by_round,
            "cost": fitted.cost.model_dump(),
            "fit_median_error": fitted.median_error,
            "mean_ms": [statistics.fmean(measured), tally.mean_ms],
            "latency_error": tally.mean_ms / statistics.fmean(measured) - 1.0,
            "geometry": geometry.model_dump(),
        }
    finally:
        engine.close()


def main(
    family: Annotated[str, typer.Option(help="of radixflow.models.families")] = "granite-moe-hybrid",
    arms: Annotated[str, typer.Option(help="separated by commas")] = "stock,planned",
    decisions: Annotated[int, typer.Option(help="a repeat")] = 24,
    clients: Annotated[int, typer.Option(help="of the closed loop")] = 8,
    name: Annotated[str | None, typer.Option(help="keep a result folder of that name")] = None,
    result_dir: Annotated[Path, typer.Option(help="folder of result folders")] = HERE / "results",
) -> None:
    """Compare, print and keep."""
    from radixflow.models.families import family_settings

    os.environ.update(family_settings(family).env)
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")
    logging.getLogger("vllm").setLevel(logging.ERROR)
    from radixflow.laboratory.keep import keep
    from radixflow.laboratory.tables import number, percent, table

    rows = [compare(family, arm, decisions, clients) for arm in arms.split(",")]
    head = ["family", "arm", "rounds: engine, simulated", "tokens: engine, simulated", "every round equal"]
    head += ["mean processor ms: engine, simulated", "error"]
    shown = [
        [
            row["family"],
            row["arm"],
            ", ".join(number(value) for value in row["rounds"]),
            ", ".join(number(value) for value in row["tokens"]),
            "yes" if row["equal_round_by_round"] else "NO",
            ", ".join(number(value, 1) for value in row["mean_ms"]),
            percent(row["latency_error"]),
        ]
        for row in rows
    ]
    text = table(head, shown)
    typer.echo(text)
    if name is not None:
        typer.echo(f"Kept in {keep(result_dir, name, 'check', {'rows': rows}, text)}", err=True)
    failed = [row for row in rows if not row["equal_round_by_round"] or abs(row["latency_error"]) > LATENCY_WITHIN]
    raise typer.Exit(1 if failed else 0)


if __name__ == "__main__":
    typer.run(main)
