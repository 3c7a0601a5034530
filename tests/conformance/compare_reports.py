"""Compare two reports of ``swap_plugin.py``: a table per test file, and every test whose outcome differs.

    python compare_reports.py stock.json ours.json

Exit status 0: no test that passes with vLLM's class does otherwise with ours, and the tests are the same; else 1.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any


def file_of(test: str) -> str:
    """Return the file part of a test's id."""
    return test.partition("::")[0]


def by_file(outcomes: dict[str, str]) -> dict[str, Counter[str]]:
    """Count outcomes per test file."""
    counts: dict[str, Counter[str]] = {}
    for test, outcome in outcomes.items():
        counts.setdefault(file_of(test), Counter())[outcome] += 1
    return counts


def describe(counts: Counter[str]) -> str:
    """Write one run's counts of one file."""
    return ", ".join(f"{number} {outcome}" for outcome, number in sorted(counts.items(), reverse=True)) or "-"


def differences(stock: dict[str, Any], ours: dict[str, Any]) -> list[str]:
    """List the tests whose outcomes differ, with the reason ours gave."""
    lines = []
    for test in sorted(stock["outcomes"].keys() | ours["outcomes"].keys()):
        before, after = (report["outcomes"].get(test, "not run") for report in (stock, ours))
        if before != after:
            reason = " ".join(ours["errors"].get(test, "").split())
            lines.append(f"{test}: {before} -> {after} {reason}".rstrip())
    return lines


def main(arguments: list[str]) -> int:
    """Print the comparison."""
    if len(arguments) != 2:
        sys.stderr.write("usage: compare_reports.py STOCK.json OURS.json\n")
        return 2
    stock, ours = (json.loads(Path(name).read_text()) for name in arguments)
    left, right = by_file(stock["outcomes"]), by_file(ours["outcomes"])
    out = sys.stdout.write
    for name in sorted(left.keys() | right.keys()):
        out(f"{name:64} {describe(left.get(name, Counter())):28} {describe(right.get(name, Counter()))}\n")
    for report in (stock, ours):
        outcomes = Counter(report["outcomes"].values())
        out(f"{report['arm']}: {describe(outcomes)}; constructed {report['constructed']}\n")
    for name in ("settings", "instances", "totals", "questions"):
        out(f"{name}: {ours[name]}\n")
    lines = differences(stock, ours)
    out(f"{len(lines)} differences\n" + "".join(f"  {line}\n" for line in lines))
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
