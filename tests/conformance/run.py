"""Run vLLM's own scheduler tests against each preset, beside vLLM's class, and write what came of it.

    python tests/conformance/run.py [--arm NAME ...] [--jobs 2] [--reports FOLDER] [--check]

Every arm is a pytest run in its own process (see ``suite.ARMS``). The table goes into ``docs/compatibility.md``,
between its markers; with ``--check`` nothing is written. Exit status 1: a test's outcome differs from that with vLLM's
class, or a preset's class was not the one that ran.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from compare_reports import differences
from prepare import ROOT, environment_script, home, prepare
from suite import ARMS, Arm
from table import render, write_between_markers

HERE = Path(__file__).parent
DOCUMENT = ROOT / "docs" / "compatibility.md"
_SECONDS = 3600


def say(text: str) -> None:
    """Tell the person who waits."""
    sys.stdout.write(f"[conformance] {text}\n")
    sys.stdout.flush()


def settings_of(arm: Arm) -> str:
    """Return RadixFlow's settings: no hold, as vLLM's tests expect a step to schedule what is there."""
    return json.dumps({"policy": arm.preset, "wait_ms": 0, "on_unsupported": "native"})


def run_arm(arm: Arm, python: Path, work: Path, reports: Path, everything: bool = False) -> dict[str, Any]:
    """Run one arm; returns its report."""
    report, log = reports / f"{arm.name}.json", reports / f"{arm.name}.log"
    report.unlink(missing_ok=True)
    stock = arm.preset == "stock"
    command = [
        *(str(python), "-m", "pytest", "-q", "-p", "swap_plugin", "-p", "no:cacheprovider", "-p", "no:randomly"),
        f"--scheduler={'stock' if stock else 'radixflow'}",
        f"--scheduler-report={report}",
        *(["--edited-everywhere"] if arm.everywhere and not stock else []),
        *(f"--ignore={name}" for name in arm.group.leave_out),
        *(["-k", arm.group.keyword] if arm.group.keyword and not everything else []),
        *arm.group.files,
    ]
    env = {
        **os.environ,
        "PYTHONPATH": f"{ROOT / 'python'}{os.pathsep}{HERE}",
        "PYTHONHASHSEED": "0",
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "TORCHDYNAMO_DISABLE": "1",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        # In this process: the swapped names don't reach a child that starts afresh.
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "VLLM_NO_USAGE_STATS": "1",
        "RADIXFLOW_CONFIG": settings_of(arm),
    }
    start = time.monotonic()
    with log.open("w") as out:
        done = subprocess.run(command, cwd=work, env=env, stdout=out, stderr=out, timeout=_SECONDS, check=False)
    if not report.exists():
        raise SystemExit(f"{arm.name}: no report (exit {done.returncode}); see {log}")
    result: dict[str, Any] = json.loads(report.read_text())
    result["seconds"] = time.monotonic() - start
    report.write_text(json.dumps(result, indent=1) + "\n")
    outcomes = list(result["outcomes"].values())
    counts = ", ".join(f"{outcomes.count(kind)} {kind}" for kind in sorted(set(outcomes), reverse=True))
    say(f"{arm.name}: {counts}; {result['seconds']:.0f} s")
    return result


def problems(arm: Arm, stock: dict[str, Any], ours: dict[str, Any]) -> list[str]:
    """Say what is wrong with a run of ours: a test that differs, or a class that isn't ours."""
    found = [f"{arm.name}: {line}" for line in differences(stock, ours)]
    foreign = [name for name in ours["constructed"] if not name.startswith("radixflow.")]
    # vLLM's tests subclass vLLM's names, which are ours by then; those subclasses bear the tests' module.
    foreign = [name for name in foreign if name.startswith("vllm.")]
    if foreign:
        found.append(f"{arm.name}: {', '.join(foreign)} ran where ours should have")
    if not ours["constructed"]:
        found.append(f"{arm.name}: no scheduler was built")
    return found


def main() -> int:
    """Run, compare, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arm", action="append", choices=[arm.name for arm in ARMS], help="only these arms")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    parser.add_argument("--reports", type=Path, help="folder of the reports; default: in the cache")
    parser.add_argument("--check", action="store_true", help="leave docs/compatibility.md as it is")
    parser.add_argument("--reuse", action="store_true", help="take reports that are there instead of running again")
    parser.add_argument("--long", action="store_true", help="all long random tests: an hour more")
    options = parser.parse_args()
    start = time.monotonic()
    python, work = prepare()
    reports = options.reports or home(environment_script()) / "reports"
    reports.mkdir(parents=True, exist_ok=True)
    arms = [arm for arm in ARMS if options.arm is None or arm.name in options.arm]

    def result(arm: Arm) -> dict[str, Any]:
        path = reports / f"{arm.name}.json"
        if options.reuse and path.exists():
            report: dict[str, Any] = json.loads(path.read_text())
            return report
        return run_arm(arm, python, work, reports, options.long)

    with ThreadPoolExecutor(options.jobs) as pool:
        results = dict(zip(arms, pool.map(result, arms), strict=True))
    found = []
    stock = {arm.group: report for arm, report in results.items() if arm.preset == "stock"}
    for arm, report in results.items():
        if arm.preset != "stock" and arm.group in stock:
            found += problems(arm, stock[arm.group], report)
    for line in found:
        say(f"DIFFERENCE {line}")
    say(f"{len(found)} differences; {time.monotonic() - start:.0f} s in all; reports in {reports}")
    if not options.check and options.arm is None and not found:
        write_between_markers(DOCUMENT, render(results))
        say(f"wrote {DOCUMENT.relative_to(ROOT)}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
