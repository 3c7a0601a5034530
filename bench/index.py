"""Measure the prefix index: against plain Python, a PyPI package and vLLM's own look-up, and against its targets.

`.venv/bin/python bench/index.py` prints tables in Markdown, and each target with what was measured. The exit status is
1 if one was missed. What the tables mean: docs/index.md.
"""

from __future__ import annotations

import argparse
import math
import os
import platform
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from prefix_index import counts, growth, timing
from prefix_index.block_hashes import BlockHashes, blocks_of
from prefix_index.keys import Workload
from prefix_index.report import Report, Target
from prefix_index.subjects import BY_HANDLE, OPERATIONS, PureRadix, RustBuffer, RustList, Subject, Trie
from radixflow.bench import environment, results

LENGTHS = (256, 1024, 4096, 16_384, 65_536)
JUNCTIONS = (1, 4, 16, 64, 256)
MIB = 2**20


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    standard = Workload()
    parser.add_argument("--states", type=int, default=standard.states, help="shared prefixes (%(default)s)")
    parser.add_argument("--branches", type=int, default=standard.branches, help="keys a state (%(default)s)")
    parser.add_argument("--shared", type=int, default=standard.shared, help="tokens they share (%(default)s)")
    parser.add_argument("--own", type=int, default=standard.own, help="tokens of each key alone (%(default)s)")
    parser.add_argument("--repeats", type=int, default=25, help="rounds, of which medians are taken (%(default)s)")
    parser.add_argument("--churn", type=int, default=1_000_000, help="keys that come and go (%(default)s)")
    parser.add_argument("--no-counts", action="store_true", help="leave out instruction counts, which take minutes")
    parser.add_argument("--no-vllm", action="store_true", help="leave out vLLM, which takes seconds to import")
    parser.add_argument("--quick", action="store_true", help="few repeats, 100,000 keys and no counts")
    parser.add_argument("--name", help="also keep everything in the result folder DATE_NAME")
    parser.add_argument("--result-dir", type=Path, default=Path(__file__).parent / "results", help="of result folders")
    options = parser.parse_args()
    if options.quick:
        options.repeats, options.churn, options.no_counts = 3, 100_000, True
    if min(options.states, options.branches - 1, options.shared, options.own - 1, options.repeats) < 1:
        parser.error("states, shared and repeats are at least 1, branches and own at least 2")
    if options.churn < 50_000:
        parser.error("churn is at least 50000")
    return options


def subjects(report: Report, workload: Workload, with_vllm: bool) -> list[Subject]:
    """Make what can be compared here; say what is left out, and why."""
    kinds: list[Callable[[], Subject]] = [RustBuffer, RustList, Trie, PureRadix]
    if with_vllm:
        kinds.append(lambda: BlockHashes(blocks_of(workload)))
    made = []
    for kind in kinds:
        try:
            made.append(kind())
        except ImportError as error:
            report.note(f"Left out: {error}. To compare with it, install pure-radix==2.1.0 or vllm==0.29.0.")
    return made


def compare(report: Report, options: argparse.Namespace) -> list[tuple[str, str]]:
    """Measure every operation of every subject; return which there are."""
    workload = Workload(options.states, options.branches, options.shared, options.own)
    rounds = timing.measure(subjects(report, workload, not options.no_vllm), workload, options.repeats)
    keys = f"{workload.states} x {workload.branches} keys of {workload.length:,} tokens, {workload.shared:,} shared"
    title = f"Microseconds a call: {keys}; medians of {options.repeats} rounds"
    report.table(title, OPERATIONS, timing.medians(rounds))
    for subject, operation, limit in (("buffer", "insert", 15), ("buffer", "match", 5), ("list", "insert", 4)):
        ratio = timing.times_faster(rounds, "Python trie", f"index, {subject}", operation)
        text = f"{operation} from a {subject}, times as fast as the Python trie"
        report.target(Target(text, ratio, limit, at_least=True))
    return [(subject, operation) for subject, times in rounds.items() for operation in times]


def count(report: Report, measured: list[tuple[str, str]]) -> None:
    """Count instructions of what was measured, vLLM excepted, whose import alone would take an hour."""
    tasks = [
        (subject, operation, Workload().length)
        for subject, operation in measured
        # By handle it makes no difference what a key was read from.
        if subject != "vLLM blocks" and not (subject == "index, list" and operation in BY_HANDLE)
    ]
    lengths = [("index, buffer", "insert", length) for length in (LENGTHS[0], LENGTHS[2], LENGTHS[4])]
    found = counts.count(tasks + lengths)
    cells: dict[str, dict[str, float]] = {}
    for subject, operation, length in tasks:
        cells.setdefault(subject, {})[operation] = found[subject, operation, length]
    report.table("Instructions a call: the same keys, of 4 states", OPERATIONS, cells, digits=0)
    by_length = {task[2]: found[task] for task in lengths}
    columns = {f"{length:,} tokens": {"insert_buffer": value} for length, value in by_length.items()}
    report.table("Instructions a call, by length of the keys", ["insert_buffer"], columns, digits=0)
    linear(report, "insert_buffer: instructions", by_length)


def linear(report: Report, what: str, by_length: dict[int, float]) -> None:
    """Demand that a cost grows at most as the length does, but for a tenth: with long keys, caches come into it."""
    (short, low), (long, high) = min(by_length.items()), max(by_length.items())
    exponent = math.log(high / low) / math.log(long / short)
    report.target(Target(f"{what} grow from {short:,} to {long:,} tokens with the power", exponent, 1.1))


def lengthen(report: Report, repeats: int) -> None:
    """Measure how time grows with the length of a key and with its junctions."""
    costs = growth.by_length(list(LENGTHS), repeats)
    by_length = {f"{length:,} tokens": cost._asdict() for length, cost in costs.items()}
    report.table("Microseconds a call, by length of the keys", growth.Cost._fields, by_length)
    for field in growth.Cost._fields:
        linear(report, f"{field}: microseconds", {length: getattr(cost, field) for length, cost in costs.items()})
    queries = ("shared_with_peers", "residual")
    found = growth.by_junctions(list(JUNCTIONS), repeats)
    by_junctions = {str(count): dict(zip(queries, pair, strict=True)) for count, pair in found.items()}
    report.table("Microseconds a call, by junctions of the key", queries, by_junctions)
    for count, pair in found.items():
        for name, value in zip(queries, pair, strict=True):
            report.target(Target(f"{name} of a key with junctions: {count}, microseconds", value, 1 + 0.1 * count))


def fill(report: Report, keys: int) -> None:
    """Measure memory: of the costly shapes, and after a long life."""
    held = {name: index.stats() for name, index in growth.shapes().items()}
    beside = "bytes a node beside 4 a token"
    columns: dict[str, dict[str, Any]] = {
        name: {**stats, beside: (stats["memory_bytes"] - 4 * stats["unique_tokens"]) / stats["nodes"]}
        for name, stats in held.items()
    }
    report.table("Memory", ("handles", "nodes", "unique_tokens", "memory_bytes", beside), columns, digits=0)
    for name, stats in held.items():
        report.target(Target(f"bytes held for {name}", stats["memory_bytes"], growth.budget(stats)))
    life = growth.churn(keys)
    report.data["churn"] = life._asdict()
    after = f"{life.keys:,} inserts and removes, 1,000 waiting at a time"
    report.target(Target(f"{after}: empty as it was (1: yes)", life.empty, 1, at_least=True))
    report.target(
        Target(f"{after}: bytes held, later against the first tenth", life.late_bytes / life.early_bytes, 1.1)
    )
    report.target(Target(f"{after}: growth of resident memory since then, MiB", life.rss_growth / MIB, 2))


def keep(report: Report, parent: Path, name: str) -> None:
    """Write a sealed result folder: where it ran, every number, and the tables as printed."""
    folder = results.create_folder(parent, name)
    described = {
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "cpu": environment.cpu_model(),
        "cores": environment.usable_cores(),
        "memory_gib": environment.memory_gib(),
        "packages": environment.package_versions(),
    }
    results.write_json(folder / "environment.json", described)
    results.write_json(folder / "summary.json", report.data)
    (folder / "table.md").write_text(report.text)
    results.seal(folder)


def main() -> int:
    """Measure everything; 1 if a target was missed."""
    options = arguments()
    report = Report()
    where = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    report.note(f"Prefix index on {where}.")
    measured = compare(report, options)
    lengthen(report, options.repeats)
    fill(report, options.churn)
    if options.no_counts or not counts.available():
        report.note(f"No instruction counts: {'not asked for' if options.no_counts else 'valgrind is not installed'}.")
    else:
        try:
            count(report, measured)
        except RuntimeError as error:
            report.note(f"No instruction counts: {error}")
    met = report.finish()
    if options.name:
        keep(report, options.result_dir, options.name)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
