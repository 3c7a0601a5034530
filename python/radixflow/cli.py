"""The ``radixflow`` command. Errors go to stderr; ``--json`` is one JSON document on stdout."""

from __future__ import annotations

import contextlib
import difflib
import json as json_module
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from radixflow import __version__
from radixflow.config import RadixFlowConfig
from radixflow.errors import RadixFlowError, UnsupportedError
from radixflow.laboratory.cli import app as simulate_app
from radixflow.laboratory.words import limit_ms, names, numbers, pairs, reals
from radixflow.policies import resolve_policy
from radixflow.report.cli import report

EXIT_BAD_INPUT = 2
EXIT_UNSUPPORTED = 3
EXIT_INTERRUPTED = 130

app = typer.Typer(
    help="Scheduling for hybrid-model and decision serving on vLLM 0.29.0.",
    no_args_is_help=True,
    add_completion=False,
    # Square brackets are for people here: defaults, and what may be left out.
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.add_typer(simulate_app, name="simulate")
app.command()(report)


_PASS_ON = {"allow_extra_args": True, "ignore_unknown_options": True}
_PASSED_ON = "[OPTIONS] [MODEL] [FLAGS OF VLLM SERVE]"


@contextlib.contextmanager
def _quiet_stdout() -> Iterator[None]:
    """Send what vLLM prints and logs to stderr, so that stdout holds our answer alone."""
    os.environ.setdefault("VLLM_LOGGING_STREAM", "ext://sys.stderr")
    with contextlib.redirect_stdout(sys.stderr):
        yield


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"radixflow {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="print the version", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Scheduling for hybrid-model and decision serving on vLLM 0.29.0."""


@app.command(context_settings=_PASS_ON, options_metavar=_PASSED_ON)
def doctor(
    context: typer.Context,
    json: Annotated[bool, typer.Option("--json", help="one JSON document on stdout")] = False,
    check_partial_hits: Annotated[
        bool, typer.Option("--check-partial-hits", help="load the model, and measure hits inside blocks")
    ] = False,
    units: Annotated[str, typer.Option(help="for that: --prefix-match-unit values, tokens")] = "16,32,64",
    tolerance: Annotated[float, typer.Option(min=0.0, help="for that: most by which a value may change")] = 0.02,
) -> None:
    """Say whether RadixFlow schedules here, or why not (exit 3).

    With a model and flags as for `vllm serve`, checks that engine's configuration too; loads no model, unless hits
    inside blocks are to be measured. What is measured is kept, and read by every engine of that model.
    """
    if check_partial_hits:
        _check_partial_hits(context.args, numbers("units", units) or [], tolerance, json)
        return
    with _quiet_stdout():
        from radixflow.engine.doctor import examine

        report = examine(context.args)
    if json:
        typer.echo(report.model_dump_json(indent=2))
    else:
        typer.echo("supported" if report.supported else "not supported")
        for name, value in report.model_dump(exclude={"supported", "reasons", "notes"}).items():
            typer.echo(f"  {name:16} {value}")
        for note in report.notes:
            typer.echo(f"  note: {note}")
    if not report.supported:
        for reason in report.reasons:
            typer.echo(f"radixflow: {reason}", err=True)
        raise typer.Exit(EXIT_UNSUPPORTED)


def _check_partial_hits(arguments: list[str], units: list[int], tolerance: float, json: bool) -> None:
    from radixflow.partial_hits.command import check_and_keep, to_text

    if not units or min(units) < 1:
        raise RadixFlowError(f"units: {units} holds no number of tokens above 0; give, say, 16,32,64")
    verdict, path = check_and_keep(arguments, units, tolerance, lambda line: typer.echo(f"radixflow: {line}", err=True))
    typer.echo(verdict.model_dump_json(indent=2) if json else to_text(verdict))
    typer.echo(f"radixflow: kept in {path}", err=True)
    if verdict.unit() is None:
        typer.echo("radixflow: no unit passed: states inside blocks stay off with this model", err=True)
        raise typer.Exit(EXIT_UNSUPPORTED)


@app.command()
def explain() -> None:
    """Show what is changed in vLLM's schedule(), as a unified diff."""
    with _quiet_stdout():
        try:
            from radixflow.engine.scheduler import rewritten
        except ImportError as error:
            raise UnsupportedError(f"vLLM can't be imported ({error}); install vllm==0.29.0") from error
        rewrite = rewritten()
    diff = difflib.unified_diff(
        rewrite.original.splitlines(keepends=True),
        rewrite.edited.splitlines(keepends=True),
        "vllm/v1/core/sched/scheduler.py Scheduler.schedule",
        "radixflow",
    )
    typer.echo("".join(diff), nl=False)


@app.command(context_settings=_PASS_ON, options_metavar=_PASSED_ON)
def serve(
    context: typer.Context,
    near_tie_margin: Annotated[
        float | None, typer.Option(help="answers whose two best options are closer are near-ties [default: 0.02]")
    ] = None,
    max_body_bytes: Annotated[int | None, typer.Option(help="largest request body [default: 1048576]")] = None,
    manifest: Annotated[
        Path | None, typer.Option(help="what the model was trained for [default: the model folder's, or letters]")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="print the command instead")] = False,
) -> None:
    """Serve decisions: `vllm serve [MODEL] [flags]` with our scheduler, prefix caching and /v1/systemone.

    Without a MODEL, the embedded one; all other flags are vLLM's. Exit 3 where RadixFlow can't schedule.
    """
    from radixflow.serving.command import serve as run_server
    from radixflow.serving.settings import check_settings

    given = {"near_tie_margin": near_tie_margin, "max_body_bytes": max_body_bytes, "manifest": manifest}
    settings = check_settings({key: value for key, value in given.items() if value is not None}, "serve")
    command = run_server(context.args, settings, dry_run=dry_run)
    if command is not None:
        typer.echo(command)


@app.command()
def bench(
    arms: Annotated[
        str | None,
        typer.Option(help="stock, presets, module:Class, file.py:Class [default: stock,planned]"),
    ] = None,
    workloads: Annotated[str | None, typer.Option(help="separated by commas [default: short,long,burst]")] = None,
    concurrency: Annotated[
        str | None, typer.Option(help="calls in flight, separated by commas [default: 1,8; quick: 1]")
    ] = None,
    decisions: Annotated[
        int | None, typer.Option(help="decisions per cell, arm and repeat [default: 32; quick: 16]")
    ] = None,
    burst_decisions: Annotated[int | None, typer.Option(help="decisions in one burst [default: 16]")] = None,
    branches: Annotated[int | None, typer.Option(help="prompts of one decision [default: 4]")] = None,
    repeats: Annotated[int | None, typer.Option(help="measured repeats per cell [default: 4; quick: 8]")] = None,
    name: Annotated[str | None, typer.Option(help="end of the result folder's name [default: bench]")] = None,
    result_dir: Annotated[Path | None, typer.Option(help="folder of result folders [default: bench/results]")] = None,
    model: Annotated[Path | None, typer.Option(help="model folder; none: the embedded model")] = None,
    wait_ms: Annotated[float | None, typer.Option(help="bound of a hold in the preset arms, ms [default: 5]")] = None,
    seed: Annotated[int | None, typer.Option(help="seed of the prompts [default: 0]")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="new servers for every repeat")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="the short profile of make demo")] = False,
    request_rate: Annotated[
        str | None, typer.Option(help="calls sent a second, separated by commas, instead of closed loops")
    ] = None,
    burstiness: Annotated[float | None, typer.Option(help="of --request-rate: 1 Poisson, less burstier")] = None,
    goodput: Annotated[str | None, typer.Option(help="e2el:MS, the latency up to which a decision is good")] = None,
    url: Annotated[str | None, typer.Option(help="measure a running server instead of our own")] = None,
    api: Annotated[str | None, typer.Option(help="of --url: completions or systemone [default: completions]")] = None,
    served_model: Annotated[str | None, typer.Option(help="of --url: the model's name there")] = None,
    save_result: Annotated[
        bool, typer.Option("--save-result", help="also a file a cell and arm, as vllm bench serve")
    ] = False,
    metadata: Annotated[list[str] | None, typer.Option(help="key=value, kept in saved results")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="print what would be run, and stop")] = False,
    resume: Annotated[Path | None, typer.Option(help="result folder whose finished cells are kept")] = None,
    json: Annotated[bool, typer.Option("--json", help="one JSON document on stdout")] = False,
) -> None:
    """Compare schedulers on a real engine: a fresh `vllm serve` per arm, decisions over HTTP.

    Or measure any server that runs: --url, with OPENAI_API_KEY where it asks for a key.
    """
    try:
        from radixflow.bench import command
        from radixflow.bench.command import run_bench
        from radixflow.bench.settings import checked_settings
    except ModuleNotFoundError as error:
        raise RadixFlowError(
            f"radixflow bench needs {error.name}, which is not installed; install radixflow[bench]"
        ) from error

    given: dict[str, Any] = {
        "arms": names(arms),
        "workloads": names(workloads),
        "concurrency": numbers("concurrency", concurrency),
        "decisions": decisions,
        "burst_decisions": burst_decisions,
        "branches": branches,
        "repeats": repeats,
        "name": name,
        "result_dir": result_dir,
        "model": model,
        "policy": None if wait_ms is None else {"wait_ms": wait_ms},
        "seed": seed,
        "fresh": fresh or None,
        "quick": quick or None,
        "request_rate": reals("request_rate", request_rate),
        "burstiness": burstiness,
        "goodput_ms": limit_ms("goodput", goodput),
        "url": url,
        "api": api,
        "served_model": served_model,
        "save_result": save_result or None,
        "metadata": pairs("metadata", metadata),
        "resume": resume,
        "json_output": json or None,
    }
    settings = checked_settings(**{key: value for key, value in given.items() if value is not None})
    if dry_run:
        typer.echo(command.dry_run(settings), nl=False)
        return
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        outcome = run_bench(settings)
    except KeyboardInterrupt:
        typer.echo("radixflow: interrupted; the servers are stopped, what was measured is kept", err=True)
        raise typer.Exit(EXIT_INTERRUPTED) from None
    if outcome.status != "ok":
        raise typer.Exit(1)


@app.command(context_settings=_PASS_ON, options_metavar=_PASSED_ON)
def audit(
    context: typer.Context,
    decisions: Annotated[
        Path | None, typer.Option(help="JSONL of request bodies [default: made-up tickets, not trained on]")
    ] = None,
    count: Annotated[int | None, typer.Option(help="decisions to ask [default: 100]")] = None,
    requests: Annotated[int | None, typer.Option(help="requests of the crowd [default: 1200]")] = None,
    concurrency: Annotated[int | None, typer.Option(help="requests of the crowd in flight [default: 64]")] = None,
    batch: Annotated[int | None, typer.Option(help="decisions of a fixed batch [default: 8]")] = None,
    seed: Annotated[int | None, typer.Option(help="seed of decisions and order [default: 0]")] = None,
    url: Annotated[str | None, typer.Option(help="audit a running server instead of four of our own")] = None,
    api_key: Annotated[
        str | None, typer.Option(envvar="RADIXFLOW_API_KEY", help="that server's key", show_default=False)
    ] = None,
    name: Annotated[str | None, typer.Option(help="end of the result folder's name [default: audit]")] = None,
    result_dir: Annotated[Path | None, typer.Option(help="folder of result folders [default: bench/results]")] = None,
    json: Annotated[bool, typer.Option("--json", help="one JSON document on stdout")] = False,
) -> None:
    """Ask the same decisions alone, in fixed batches and in a random crowd, and report what changed.

    Starts `radixflow serve [MODEL] [flags]` four times: stock and RadixFlow, without and with prefix reuse.
    """
    try:
        from radixflow.audit.command import run_audit
        from radixflow.audit.settings import audit_settings
    except ModuleNotFoundError as error:
        raise RadixFlowError(
            f"radixflow audit needs {error.name}, which is not installed; install radixflow[bench]"
        ) from error
    given: dict[str, Any] = {
        "decisions": decisions,
        "count": count,
        "requests": requests,
        "concurrency": concurrency,
        "batch": batch,
        "seed": seed,
        "url": url,
        "api_key": api_key,
        "name": name,
        "result_dir": result_dir,
        "serve_arguments": tuple(context.args) or None,
    }
    settings = audit_settings(**{key: value for key, value in given.items() if value is not None})
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        outcome = run_audit(settings, json_output=json)
    except KeyboardInterrupt:
        typer.echo("radixflow: interrupted; the servers are stopped", err=True)
        raise typer.Exit(EXIT_INTERRUPTED) from None
    if outcome.failed:
        raise typer.Exit(1)


@app.command()
def cells(
    presets: Annotated[str, typer.Option(help="presets or module:Class, separated by commas")] = "planned",
    blocks: Annotated[str, typer.Option(help="block sizes, tokens, separated by commas")] = "32,64,528",
    only: Annotated[str, typer.Option(help="part of the cells' names")] = "",
    hints: Annotated[bool, typer.Option("--hints", help="clients say what a decision is")] = False,
    unit: Annotated[
        int | None, typer.Option(min=1, help="presets store states inside blocks, at multiples of so many tokens")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="one JSON document on stdout")] = False,
) -> None:
    """Print the table of all cells: vLLM's real scheduler under a virtual clock, stock beside presets.

    Counts are exact: a repeat gives the same bytes. Exit 1 if a preset is worse than stock somewhere.
    """
    from rich.console import Console
    from rich.progress import Progress

    sizes = numbers("blocks", blocks) or []
    arms = {name: {"policy": name} for name in names(presets) or []}
    if not sizes or min(sizes) < 1:
        raise RadixFlowError(f"blocks: {blocks!r} names no block size; give, say, 32,64,528")
    unfit = [size for size in sizes if unit is not None and (size % unit or size == unit)]
    if unfit:
        raise RadixFlowError(f"unit: {unit} is no smaller part of a block of {unfit[0]} tokens; give, say, 16 for 528")
    with _quiet_stdout():
        import logging

        from radixflow.simulate.cells import all_cells, short_state_cells
        from radixflow.simulate.table import run_cells, to_json, to_markdown

        logging.getLogger("vllm").setLevel(logging.ERROR)
        known = all_cells(sizes)
        if unit is not None:
            # Without a recurrent state there is nothing to store.
            known = short_state_cells(sizes) + [cell for cell in known if cell.family == "hybrid"]
        chosen = [cell for cell in known if only in cell.name]
        if not chosen:
            listed = ", ".join(dict.fromkeys(cell.name for cell in known))
            raise RadixFlowError(f"only: {only!r} is part of no cell's name; the cells are: {listed}")
        for name in arms:
            resolve_policy(RadixFlowConfig(policy=name))
        with Progress(console=Console(stderr=True), transient=True) as progress:
            task = progress.add_task("cells", total=len(chosen))
            rows = list(run_cells(chosen, arms, hints, lambda cell: progress.advance(task), unit))
    typer.echo(json_module.dumps(to_json(rows), indent=2) if json else to_markdown(rows), nl=json)
    if any(row.worse for row in rows):
        raise typer.Exit(1)


def main() -> None:
    """Run the command; an error that a person can act on is one line on stderr."""
    try:
        app()
    except UnsupportedError as error:
        typer.echo(f"radixflow: {error}", err=True)
        sys.exit(EXIT_UNSUPPORTED)
    except RadixFlowError as error:
        typer.echo(f"radixflow: {error}", err=True)
        sys.exit(EXIT_BAD_INPUT)


if __name__ == "__main__":
    main()
