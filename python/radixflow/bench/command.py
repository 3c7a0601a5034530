"""`radixflow bench`: start a server per arm, measure, print, and keep the result."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

from pydantic import BaseModel, ConfigDict
from rich.console import Console

from radixflow.bench import environment, plot, report, results
from radixflow.bench.cell import summarise
from radixflow.bench.errors import BenchError
from radixflow.bench.progress import ProgressLine
from radixflow.bench.remote import remote_server
from radixflow.bench.resume import Earlier, plan_text
from radixflow.bench.runner import Runner
from radixflow.bench.saved import save_results
from radixflow.bench.server import Server, ServerSpec, server_spec, stop_all, wait_healthy
from radixflow.bench.settings import REMOTE, BenchSettings
from radixflow.models import ServeSettings, embedded_model, serve_settings

Status = Literal["ok", "failed", "interrupted"]

# A table has nine columns; a log has no width of its own.
_LOG_WIDTH = 120

# Measured for the embedded model: API server, engine core and worker, a gibibyte of it the cache.
_SERVER_GIB = 3.2


class BenchOutcome(BaseModel):
    """What a run came to; `rows` has one summary row per cell and arm."""

    model_config = ConfigDict(frozen=True)

    status: Status
    error: str | None
    folder: Path
    baseline: str
    startup_s: dict[str, float]
    duration_s: float
    rows: list[dict[str, Any]]

    def document(self) -> dict[str, Any]:
        """Return the outcome as plain JSON values, without machine paths."""
        return {
            "status": self.status,
            "error": self.error,
            "folder": self.folder.name,
            "baseline": self.baseline,
            "startup_s": self.startup_s,
            "duration_s": round(self.duration_s, 3),
            "cells": results.plain(self.rows),
        }


def console_for(*, stderr: bool) -> Console:
    """Return a console that is wide enough for the report where nobody set a width."""
    console = Console(stderr=stderr)
    return console if console.is_terminal else Console(stderr=stderr, width=_LOG_WIDTH)


def check_memory(arms: Sequence[str], available_gib: float | None) -> None:
    """Refuse to start more servers than the machine has memory for, before the kernel ends one of them.

    Raises:
        BenchError: naming the arms, the need, what is free, and what to do.
    """
    need = len(arms) * _SERVER_GIB
    if available_gib is not None and available_gib < need:
        raise BenchError(
            f"arms is {list(arms)}: {len(arms)} servers at once need about {need:.0f} GiB of memory and "
            f"{available_gib:.1f} GiB is available; name fewer arms, or end what else runs"
        )


def _start(servers: Sequence[Server], progress: ProgressLine, timeout_s: float) -> None:
    """Start the servers together and wait until all are healthy."""
    states: dict[str, str] = {}

    def tick(server: Server, healthy: bool) -> None:
        elapsed = time.monotonic() - server.started_at
        states[server.spec.arm] = f"ready after {elapsed:.0f} s" if healthy else f"{elapsed:.0f} s"
        progress.describe("starting vllm serve: " + ", ".join(f"{arm} {state}" for arm, state in states.items()))

    progress.stage("starting vllm serve")
    for server in servers:
        server.start()
    wait_healthy(servers, timeout_s, tick)


def _stop(servers: Sequence[Server], progress: ProgressLine) -> None:
    progress.stage("stopping servers")
    stop_all(servers)


def _keep(
    settings: BenchSettings,
    serve: ServeSettings,
    model: Path,
    runner: Runner,
    outcome: BenchOutcome,
    origin: float,
    earlier: Earlier | None = None,
) -> None:
    """Write the result folder and seal it."""
    folder = outcome.folder
    random_weights = settings.model is None and settings.url is None
    results.write_json(folder / "environment.json", environment.describe(serve, model, runner.schedule_hashes()))
    decisions = (
        row
        for by_arm in runner.runs.values()
        for runs in by_arm.values()
        for run in runs
        for row in run.decision_rows(origin)
    )
    before = earlier.decision_rows() if earlier is not None else []
    results.write_rows(folder / "rows.jsonl", itertools.chain(before, decisions))
    if settings.save_result:
        save_results(folder, outcome.rows, settings, model.name)
    summary = {
        **outcome.document(),
        "name": settings.name,
        "settings": settings.model_dump(mode="json", exclude={"result_dir", "model", "json_output", "resume"}),
        "resumed_from": settings.resume.name if settings.resume is not None else None,
        "workloads": {name: settings.workload(name).stresses for name in settings.workloads},
        "notes": report.notes(settings.baseline, outcome.rows, random_weights=random_weights),
    }
    results.write_json(folder / "summary.json", summary)
    if outcome.rows:
        table = report.markdown(settings.baseline, outcome.rows, random_weights=random_weights)
        (folder / "table.md").write_text(table)
        plot.draw(folder / "comparison.png", outcome.rows, f"{settings.name}: {model.name}")
    results.seal(folder)


def _measure(runner: Runner, servers: Sequence[Server], model: Path) -> tuple[Status, str | None, BaseException | None]:
    """Run everything; return how it ended, the error without machine paths, and the error itself."""
    progress, timeout_s = runner.progress, runner.settings.startup_timeout_s

    def restart() -> None:
        _stop(servers, progress)
        _start(servers, progress, timeout_s)

    if runner.settings.fresh:
        runner.restart = restart
    try:
        try:
            _start(servers, progress, timeout_s)
            runner.run()
        finally:
            _stop(servers, progress)
    except BenchError as error:
        return "failed", environment.scrub(str(error), model), error
    except KeyboardInterrupt as error:
        return "interrupted", "interrupted by the user", error
    return "ok", None, None


def model_of(settings: BenchSettings) -> Path:
    """Return the model folder; of a server that runs already, its model's name is all that is known."""
    if settings.served_model is not None:
        return Path(settings.served_model)
    return (embedded_model() if settings.model is None else settings.model).resolve()


def request_headers() -> dict[str, str]:
    """Return the key for a server that asks for one: ``OPENAI_API_KEY``, as vLLM's own benchmark reads it."""
    key = os.environ.get("OPENAI_API_KEY")
    return {"Authorization": f"Bearer {key}"} if key else {}


def dry_run(settings: BenchSettings, make_spec: SpecFactory = server_spec) -> str:
    """Say what :func:`run_bench` would do; starts nothing.

    Raises:
        BenchError: the folder to resume from can't be.
    """
    earlier = Earlier(settings.resume, settings) if settings.resume is not None else None
    serve, model, nowhere = serve_settings(), model_of(settings), Path("LOGS")
    if settings.url is not None:
        specs: list[ServerSpec] = [remote_server(settings.url, nowhere).spec]
    else:
        specs = [make_spec(arm, model, serve, nowhere, settings.policy) for arm in settings.arms]
    return environment.scrub(
        plan_text(settings, specs, serve.block_size, earlier.labels if earlier is not None else ()), model
    )


class SpecFactory(Protocol):
    """Says how to start the server of an arm; `server_spec` is the real one."""

    def __call__(
        self, arm: str, model: Path, serve: ServeSettings, folder: Path, policy: dict[str, Any] | None = None
    ) -> ServerSpec:
        """Return how to start the server of `arm`."""


def run_bench(settings: BenchSettings, make_spec: SpecFactory = server_spec) -> BenchOutcome:
    """Measure, print the report, and write `<result_dir>/<date>_<name>/`.

    The report goes to standard output; with `json_output` it goes to standard error and standard output gets
    one JSON document.  Progress is always on standard error.

    Raises:
        BenchError: too little memory, a server did not start or died, or the result folder cannot be made.
        What was measured until
            then is kept, with status `failed`.
        KeyboardInterrupt: after stopping the servers and keeping what was measured.
        radixflow.models.ModelStoreError: the embedded model cannot be written.
    """
    if settings.url is None:
        check_memory(settings.arms, environment.available_gib())
    earlier = Earlier(settings.resume, settings) if settings.resume is not None else None
    origin = time.monotonic()
    errors = console_for(stderr=True)
    model = model_of(settings)
    serve = serve_settings()
    folder = results.create_folder(settings.result_dir, settings.name)
    logs = Path(tempfile.mkdtemp(prefix="radixflow-bench-"))
    try:
        servers: dict[str, Server] = (
            {REMOTE: remote_server(settings.url, logs)}
            if settings.url is not None
            else {arm: Server(make_spec(arm, model, serve, logs, settings.policy)) for arm in settings.arms}
        )
        with ProgressLine(errors) as progress:
            skip = earlier.labels if earlier is not None else frozenset()
            runner = Runner(settings, servers, serve.block_size, progress, skip, request_headers())
            status, message, error = _measure(runner, list(servers.values()), model)
        measured = {
            cell.label: summarise(cell, by_arm, settings.baseline, settings.goodput_ms)
            for cell, by_arm in runner.runs.items()
        }
        known = {**(earlier.rows if earlier is not None else {}), **measured}
        finished = [known[cell.label] for cell in settings.cells() if cell.label in known]
        outcome = BenchOutcome(
            status=status,
            error=message,
            folder=folder,
            baseline=settings.baseline,
            startup_s={
                arm: round(server.startup_s, 1) for arm, server in servers.items() if server.startup_s is not None
            },
            duration_s=time.monotonic() - origin,
            rows=[row for rows in finished for row in rows],
        )
        _keep(settings, serve, model, runner, outcome, origin, earlier)
    finally:
        shutil.rmtree(logs, ignore_errors=True)
    console = errors if settings.json_output else console_for(stderr=False)
    if outcome.rows:
        report.print_report(
            console, settings.baseline, outcome.rows, random_weights=settings.model is None and settings.url is None
        )
    console.print(f"Kept in {folder}", highlight=False, markup=False)
    if settings.json_output:
        sys.stdout.write(json.dumps(outcome.document(), indent=2) + "\n")
        sys.stdout.flush()
    if error is not None:
        raise error
    return outcome
