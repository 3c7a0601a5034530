"""Write every number, table and figure of the paper from result folders. Nothing is typed by hand.

    .venv/bin/python paper/generate.py [--out paper/generated]

Folders: the latest of each name in ``bench/results``. A test runs this again and fails if a committed file differs.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from folders import latest
from measured import check, engines, families, short_states
from simulated import attribution, laboratory, ranks, reproduced, scale, waiting, workloads

HERE = Path(__file__).parent
TABLES = {
    "laboratory": laboratory,
    "workloads": workloads,
    "attribution": attribution,
    "open-jev-2b": reproduced,
    "simulation-check": check,
    "readme": engines,
    "families": families,
}
NUMBERS = {"ranks": ranks, "scale": scale, "waiting": waiting, "short-states": short_states}
"""Quoted in sentences only."""
NOT_REPORTED = {"short-states", "waiting"}
"""Quoted in the paper, and not on the report's page."""


def generate() -> dict[str, str | bytes]:
    """Return every generated file: name -> content."""
    folders = {name: latest(name) for name in (*TABLES, *NUMBERS)}
    numbers: dict[str, str] = {}
    files: dict[str, str | bytes] = {}
    for name, make in TABLES.items():
        some, made = make(folders[name])
        numbers |= some
        files |= made
    for name, count in NUMBERS.items():
        numbers |= count(folders[name])
    macros = [f"% From bench/results: {', '.join(folder.name for folder in folders.values())}."]
    macros += [rf"\newcommand{{\{name}}}{{{value}}}" for name, value in sorted(numbers.items())]
    files["numbers.tex"] = "\n".join(macros) + "\n"
    return files


def main() -> None:
    """Write the files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=HERE / "generated", help="folder (%(default)s)")
    parser.add_argument("--folders", action="store_true", help="print the folders that are quoted, and stop")
    options = parser.parse_args()
    if options.folders:
        sys.stdout.write(
            "\n".join(str(latest(name).path) for name in (*TABLES, *NUMBERS) if name not in NOT_REPORTED) + "\n"
        )
        return
    out: Path = options.out
    out.mkdir(parents=True, exist_ok=True)
    for name, content in generate().items():
        (out / name).write_bytes(content.encode() if isinstance(content, str) else content)


if __name__ == "__main__":
    main()
