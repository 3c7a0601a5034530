"""`radixflow simulate` and its subcommands."""

from __future__ import annotations

import contextlib
import json as json_module
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from radixflow.errors import ConfigError
from radixflow.laboratory.words import limit_ms, names, numbers, reals

app = typer.Typer(
    help="Simulate: vLLM's real scheduler and KV-cache manager under a virtual clock. No model, no sleep.",
    invoke_without_command=True,
    rich_markup_mode=None,
)

Json = Annotated[bool, typer.Option("--json", help="one JSON document on stdout")]
Name = Annotated[str | None, typer.Option(help="keep a result folder of that name")]
ResultDir = Annotated[Path, typer.Option(help="folder of result folders")]
Seeds = Annotated[str, typer.Option(help="seeds of the traffic, separated by commas")]
_RESULTS = Path("bench/results")


@contextlib.contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """Send vLLM's output to stderr, and show what was done there."""
    os.environ.setdefault("VLLM_LOGGING_STREAM", "ext://sys.stderr")
    with contextlib.redirect_stdout(sys.stderr):
        from rich.console import Console

        with Console(stderr=True).status("importing vLLM") as status:
            yield lambda what: status.update(what)


def _tell(document: dict[str, Any], table: str, folder: Path | None, json: bool) -> None:
    from radixflow.bench.results import plain

    typer.echo(json_module.dumps(plain(document), indent=2) if json else table, nl=json)
    if folder is not None:
        typer.echo(f"Kept in {folder}", err=True)


@app.callback()
def simulate(
    context: typer.Context,
    arms: Annotated[str, typer.Option(help="stock, gather, presets, module:Class or file.py:Class")] = "stock,planned",
    workloads: Annotated[str, typer.Option(help="see `radixflow simulate workloads`")] = "short,long,burst",
    geometries: Annotated[str, typer.Option(help="see `radixflow simulate workloads`")] = "gdn-528",
    concurrency: Annotated[str | None, typer.Option(help="clients of closed loops [default: 1,8]")] = None,
    rate: Annotated[str | None, typer.Option(help="open loops instead: decisions a second")] = None,
    burstiness: Annotated[float, typer.Option(help="of --rate: 1 is Poisson, less is burstier")] = 1.0,
    burst: Annotated[str | None, typer.Option(help="bursts instead: decisions at once")] = None,
    every_ms: Annotated[float, typer.Option(help="of --burst: ms between two")] = 1_000.0,
    trace: Annotated[Path | None, typer.Option(help="recorded traffic instead, JSONL (docs/laboratory.md)")] = None,
    speed: Annotated[float, typer.Option(help="of --trace: 2 is twice as fast")] = 1.0,
    decisions: Annotated[int | None, typer.Option(help="a run [default: 32 and up]")] = None,
    seeds: Seeds = "1",
    cost: Annotated[str, typer.Option(help="a preset or a JSON file; see `radixflow simulate fit`")] = "accelerator",
    hints: Annotated[bool, typer.Option("--hints", help="clients say what a decision is")] = False,
    goodput: Annotated[str | None, typer.Option(help="e2el:MS, the latency up to which a decision counts")] = None,
    wait_ms: Annotated[float | None, typer.Option(help="bound of a hold in our arms, ms [default: 5]")] = None,
    reproduce: Annotated[str | None, typer.Option(help="a published table: open-jev-2b")] = None,
    base_only: Annotated[bool, typer.Option("--base-only", help="of --reproduce: vary no assumption")] = False,
    name: Name = None,
    result_dir: ResultDir = _RESULTS,
    json: Json = False,
) -> None:
    """Simulate schedulers on workloads or recorded traffic. Same command, same bytes."""
    if context.invoked_subcommand is not None:
        return
    from radixflow.laboratory.settings import checked

    settings = checked(
        arms=names(arms),
        workloads=names(workloads),
        geometries=names(geometries),
        concurrency=numbers("concurrency", concurrency),
        rate=reals("rate", rate),
        burstiness=burstiness,
        burst=numbers("burst", burst),
        every_ms=every_ms,
        trace=trace,
        speed=speed,
        decisions=decisions,
        seeds=numbers("seeds", seeds),
        cost=cost,
        hints=hints,
        goodput_ms=limit_ms("goodput", goodput),
        wait_ms=wait_ms,
        name=name,
        result_dir=result_dir,
    )
    if reproduce not in (None, "open-jev-2b"):
        raise ConfigError(f"reproduce: {reproduce!r} is unknown; known: open-jev-2b")
    with _progress() as tick:
        from radixflow.laboratory import simulate as work

        if reproduce is None:
            told = work.simulate(settings, tick)
        else:
            told = work.reproduce(settings.seeds[0], base_only, settings.name, settings.result_dir, tick)
    _tell(*told, json)


@app.command()
def fit(
    trace: Annotated[Path, typer.Argument(help="round trace of an engine (setting trace_path), JSONL")],
    cached: Annotated[bool, typer.Option("--cached", help="also learn what cached tokens cost")] = False,
    out: Annotated[Path | None, typer.Option(help="file for --cost of `radixflow simulate`")] = None,
) -> None:
    """Learn a cost model from a real engine's trace."""
    from radixflow.simulate.fit import fit_cost, read_records, step_seconds

    found = fit_cost(step_seconds(read_records(trace)), cached)
    text = found.cost.model_dump_json(indent=2)
    if out is not None:
        try:
            out.write_text(text + "\n")
        except OSError as error:
            raise ConfigError(f"out: {str(out)!r} can't be written ({error.strerror}); give a file that can") from error
    typer.echo(text)
    typer.echo(
        f"{found.rounds} rounds, {found.dropped} left out; median error {100 * found.median_error:.1f} %, "
        f"R2 {found.r2:.3f}",
        err=True,
    )


@app.command()
def workloads() -> None:
    """List workloads and geometries, and what each stresses."""
    with _progress():
        from radixflow.simulate.geometry import GEOMETRIES
        from radixflow.simulate.workloads import WORKLOADS
    for one in WORKLOADS.values():
        typer.echo(f"{one.name:14} {one.stresses}")
    typer.echo("")
    for geometry in GEOMETRIES.values():
        typer.echo(f"{geometry.name:14} {geometry.about}")


@app.command()
def attribution(
    workloads: Annotated[str, typer.Option(help="separated by commas")] = "short,long,burst",
    geometries: Annotated[str, typer.Option(help="separated by commas")] = "gdn-528",
    concurrency: Annotated[str, typer.Option(help="clients, separated by commas")] = "1,8,32",
    seeds: Seeds = "1,2,3,4,5",
    cost: Annotated[str, typer.Option(help="a preset or a JSON file")] = "accelerator",
    decisions: Annotated[int | None, typer.Option(help="a run [default: 32 and up]")] = None,
    name: Name = None,
    result_dir: ResultDir = _RESULTS,
    json: Json = False,
) -> None:
    """Take `planned` apart: what hold, deferral, junctions, tail states and round size gain, one after the other."""
    from radixflow.laboratory.settings import checked

    settings = checked(
        workloads=names(workloads),
        geometries=names(geometries),
        concurrency=numbers("concurrency", concurrency),
        seeds=numbers("seeds", seeds),
        cost=cost,
        decisions=decisions,
        name=name,
        result_dir=result_dir,
    )
    with _progress() as tick:
        from radixflow.laboratory import studies

        told = studies.attribution(settings, tick)
    _tell(*told, json)


@app.command()
def ranks(
    counts: Annotated[str, typer.Option("--ranks", help="engines, separated by commas")] = "1,2,4,8,16,32,64",
    arms: Annotated[str, typer.Option(help="separated by commas")] = "stock,planned",
    workload: Annotated[str, typer.Option(help="one of them")] = "long",
    geometry: Annotated[str, typer.Option(help="one of them")] = "gdn-528",
    cost: Annotated[str, typer.Option(help="a preset or a JSON file")] = "accelerator",
    name: Name = None,
    result_dir: ResultDir = _RESULTS,
    json: Json = False,
) -> None:
    """Data-parallel engines, with and without sending a decision's branches to one rank."""
    from radixflow.laboratory.settings import checked

    settings = checked(
        arms=names(arms), workloads=[workload], geometries=[geometry], cost=cost, name=name, result_dir=result_dir
    )
    engines = numbers("ranks", counts, least=1)
    if not engines:
        raise ConfigError(f"ranks: {counts!r} holds no number of engines; give, say, 1,2,4")
    with _progress() as tick:
        from radixflow.laboratory import studies

        told = studies.ranks(settings, engines, tick)
    _tell(*told, json)


@app.command()
def scale(
    sizes: Annotated[str, typer.Option(help="decisions, separated by commas")] = "1000,10000,100000",
    waiting: Annotated[str, typer.Option(help="waiting requests, separated by commas")] = "100,1000,10000,100000",
    arms: Annotated[str, typer.Option(help="separated by commas")] = "stock,planned",
    workload: Annotated[str, typer.Option(help="one of them")] = "short",
    clients: Annotated[int, typer.Option(help="of the closed loop")] = 32,
    name: Name = None,
    result_dir: ResultDir = _RESULTS,
    json: Json = False,
) -> None:
    """Measure how the simulator's time and memory, and schedule(), grow. Wall-clock time: no two runs are the same."""
    from radixflow.laboratory.settings import checked

    settings = checked(arms=names(arms), workloads=[workload], concurrency=[clients], name=name, result_dir=result_dir)
    many, queued = numbers("sizes", sizes, least=1), numbers("waiting", waiting, least=1)
    with _progress() as tick:
        from radixflow.laboratory import studies

        told = studies.scale(settings, many or [], queued or [], tick)
    _tell(*told, json)
