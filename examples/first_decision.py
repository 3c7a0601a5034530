#!/usr/bin/env python3
"""Start `radixflow serve` with the embedded model, ask one decision, show the answers, stop; part of `make demo`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

from radixflow.bench.progress import ProgressLine
from radixflow.bench.server import HOST, Server, ServerSpec, free_port, wait_healthy
from radixflow.client import DecisionClient, DecisionResponse, choice, noul, score

STATE = "Since this morning every payment fails. We lose money by the minute."
QUESTIONS = {
    "team": choice(
        {"billing": "invoices and payments", "outage": "something is down", "other": None},
        instructions="Who should handle it?",
    ),
    "urgent": noul("Is it urgent?"),
    "mood": score(["calm", "annoyed", "furious"], instructions="How angry is the writer?"),
}


def show(console: Console, response: DecisionResponse) -> None:
    """Print one line a question."""
    table = Table("question", "answer", "probabilities", "confidence", "margin", title=STATE)
    for name, answer in response.answers.items():
        # Each answer's value is in the field that is named like its type.
        said = getattr(answer, answer.type)
        shares = ", ".join(f"{option} {share:.3f}" for option, share in answer.probabilities.items())
        near = " (near-tie)" if answer.near_tie else ""
        table.add_row(
            f"{name} ({answer.type})",
            said if isinstance(said, str) else f"{said:.3f}",
            shares,
            f"{answer.confidence:.3f}",
            f"{answer.margin:.3f}{near}",
        )
    console.print(table)


def main() -> None:
    """Run it."""
    console, errors = Console(), Console(stderr=True)
    with tempfile.TemporaryDirectory(prefix="radixflow-first-") as folder:
        port = free_port()
        command = (sys.executable, "-m", "radixflow.cli", "serve", "--host", HOST, "--port", str(port))
        spec = ServerSpec("demo", command, {}, port, Path(folder) / "server.log", Path(folder) / "unused")
        with ProgressLine(errors) as progress, Server(spec) as server:
            progress.stage("starting radixflow serve (the embedded model)")
            wait_healthy([server], 600.0, lambda *_: progress.advance(0))
            with DecisionClient(spec.url) as client:
                response = client.decide(STATE, QUESTIONS)
    show(console, response)


if __name__ == "__main__":
    main()
