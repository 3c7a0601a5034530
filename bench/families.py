#!/usr/bin/env python
"""Real engines of the hybrid families: stock vLLM, the preset `radixflow`, and planned junctions.

    .venv/bin/python bench/families.py --quick

Long decisions in a closed loop, on tiny models with random weights and real architectures: what is compared are tokens,
rounds and answers; times too, but a saved token of a model this small says little about a large one. Tables go to
standard output, everything to a result folder.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from family_bench.outcome import Family, decision_rows, read_results, rows_of
from family_bench.plan import ARMS, Plan
from family_bench.report import markdown
from radixflow.bench import environment, results
from radixflow.bench.server import log_tail
from radixflow.models.families import FAMILIES, family_model, family_settings

HERE = Path(__file__).parent


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    usual = Plan()
    parser.add_argument("--families", default=",".join(FAMILIES), help="comma-separated (%(default)s)")
    parser.add_argument("--arms", default=",".join(ARMS), help="stock and presets, comma-separated (%(default)s)")
    parser.add_argument("--quick", action="store_true", help="600 shared tokens, few decisions and repeats")
    parser.add_argument("--decisions", type=int, help=f"of an arm in a repeat ({usual.decisions}; quick: 8)")
    parser.add_argument("--repeats", type=int, help=f"of every arm, arms alternating ({usual.repeats}; quick: 2)")
    parser.add_argument("--concurrency", type=int, help=f"decisions in flight ({usual.concurrency})")
    parser.add_argument("--branches", type=int, help=f"prompts of a decision ({usual.branches})")
    parser.add_argument("--name", default="families", help="end of the result folder's name (%(default)s)")
    parser.add_argument("--result-dir", type=Path, default=HERE / "results", help="folder of result folders")
    options = parser.parse_args()
    options.families = tuple(options.families.split(","))
    options.arms = tuple(options.arms.split(","))
    for family in options.families:
        if family not in FAMILIES:
            parser.error(f"--families: {family!r} is unknown; known: {', '.join(FAMILIES)}")
    if "stock" not in options.arms:
        parser.error("--arms: stock is what the others are compared with; name it too")
    for name in ("decisions", "repeats", "concurrency", "branches"):
        value = getattr(options, name)
        if value is not None and value < 1:
            parser.error(f"--{name}: {value} is too few; give 1 or more")
    return options


def plan_of(options: argparse.Namespace) -> Plan:
    """Return the plan that the command line asks for."""
    plan = Plan().quick() if options.quick else Plan()
    given = {name: getattr(options, name) for name in ("decisions", "repeats", "concurrency", "branches")}
    given = {name: value for name, value in given.items() if value is not None}
    return replace(plan, families=options.families, arms=options.arms, **given)


def run_worker(plan: Plan, folder: Path, tick: Callable[[], None]) -> int:
    """Run the worker until it ends, and return its status; `tick` is called about once a second.

    The worker is on a leash: it ends when this process does, however that ends.
    """
    written = folder / "plan.json"
    written.write_text(json.dumps(plan.document()))
    leash = Path(environment.__file__).with_name("leash.py")
    worker = HERE / "family_bench" / "worker.py"
    command = [sys.executable, "-I", "-S", str(leash), "5", "5", sys.executable, str(worker), str(written)]
    with (folder / "worker.log").open("wb") as log:
        process = subprocess.Popen(
            [*command, str(folder / "results.jsonl")],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=dict(os.environ),
            start_new_session=True,
        )
        try:
            while process.poll() is None:
                time.sleep(1.0)
                tick()
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait()
    return process.returncode


def say(text: str) -> None:
    """Write a line to standard error."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


class Progress:
    """Says on standard error what was measured since the last look."""

    def __init__(self, plan: Plan, path: Path) -> None:
        """Watch a worker's file of results."""
        self._plan, self._path = plan, path
        self._lines = 0
        self._began = time.monotonic()

    def __call__(self) -> None:
        """Look at the file."""
        if not self._path.exists():
            return
        lines = self._path.read_text().split("\n")[:-1]
        for line in lines[self._lines :]:
            item = json.loads(line)
            what = {
                "engine": "is up",
                "run": f"repeat {item.get('repeat', 0) + 1} of {self._plan.repeats}",
                "failed": f"failed: {item.get('error')}",
                "uncached": "answered without a prefix cache",
            }.get(item["kind"])
            if what:
                name = f"{item['family']} {item.get('arm', '')}".strip()
                say(f"[{time.monotonic() - self._began:5.0f} s] {name}: {what}")
        self._lines = len(lines)


def keep(
    plan: Plan, families: Mapping[str, Family], table: str, error: str | None, options: argparse.Namespace
) -> Path:
    """Write the result folder and seal it."""
    folder = results.create_folder(options.result_dir, options.name)
    first = family_settings(plan.families[0])
    hashes = {arm: digest for family in families.values() for arm, digest in family.schedule_sha256.items()}
    described = environment.describe(first, family_model(plan.families[0]), hashes)
    described["clock"] = "monotonic; engines in the process of the clients, one at a time"
    del described["model"], described["serve"]
    described["env"] = first.env
    described["families"] = {
        name: {"model": family_model(name).name, "flags": family_settings(name).flags} for name in plan.families
    }
    results.write_json(folder / "environment.json", described)
    results.write_rows(folder / "rows.jsonl", [row for family in families.values() for row in decision_rows(family)])
    summary = {
        "status": "ok" if error is None else "failed",
        "error": error,
        "plan": plan.document(),
        "startup_s": {name: family.startup_s for name, family in families.items()},
        "cells": [row for family in families.values() for row in rows_of(family)],
    }
    results.write_json(folder / "summary.json", summary)
    (folder / "table.md").write_text(table)
    results.seal(folder)
    return folder


def main() -> int:
    """Measure, print and keep; 1 if anything failed."""
    options = arguments()
    plan = plan_of(options)
    with tempfile.TemporaryDirectory(prefix="radixflow-families-") as name:
        folder = Path(name)
        path = folder / "results.jsonl"
        path.touch()
        progress = Progress(plan, path)
        status = run_worker(plan, folder, progress)
        progress()
        families, finished = read_results(plan, path)
        log = log_tail(folder / "worker.log")
    error = None
    if status or not finished:
        error = f"the worker ended with status {status}"
        say(f"{error}; its last lines:\n{log}")
    rows = [row for family in families.values() for row in rows_of(family)]
    errors = {family.name: family.error for family in families.values() if family.error}
    table = markdown(rows, errors)
    sys.stdout.write(table)
    if rows:
        say(f"Kept in {keep(plan, families, table, error, options)}")
    return 0 if error is None else 1


if __name__ == "__main__":
    sys.exit(main())
