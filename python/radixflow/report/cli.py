"""`radixflow report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from radixflow.errors import RadixFlowError


def report(
    results: Annotated[list[Path], typer.Argument(help="result folders of bench and simulate --name")],
    out: Annotated[Path, typer.Option(help="folder for the report")] = Path("report"),
) -> None:
    """Write report.md, report.html (one page, nothing beside it) and trace.json (for ui.perfetto.dev)."""
    try:
        from radixflow.report.load import load
        from radixflow.report.page import write_report
    except ModuleNotFoundError as error:
        raise RadixFlowError(
            f"radixflow report needs {error.name}, which is not installed; install radixflow[bench]"
        ) from error
    for path in write_report(load(results), out):
        typer.echo(str(path))
