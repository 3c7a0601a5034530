"""Plant known faults in copies of the package and see that the tests catch every one: a mutation check.

    python tests/mutants/run.py [--only TEXT] [--list]

Each fault of ``faults.py`` goes into a copy of ``python/radixflow`` of its own; the tests named for it run against that
copy and have to fail. They run against an unchanged copy first, and have to pass. Exit status 1: a fault survives.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from faults import FAULTS, Fault

ROOT = Path(__file__).resolve().parents[2]
_SECONDS = 900


def say(text: str) -> None:
    """Tell the person who waits."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def copy_package(into: Path) -> Path:
    """Copy the package, built extension included, the tests and what they read; returns the copy's root."""
    shutil.copytree(ROOT / "python", into / "python", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "tests", into / "tests", ignore=shutil.ignore_patterns("__pycache__"))
    # Tests compare messages with the documents that quote them.
    shutil.copytree(ROOT / "docs", into / "docs")
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, into)
    return into


def plant(fault: Fault, root: Path) -> None:
    """Make the edit.

    Raises:
        SystemExit: its place isn't there exactly once, so the fault has to be brought up to date.
    """
    path = root / "python" / "radixflow" / fault.file
    text = path.read_text()
    if text.count(fault.before) != 1:
        raise SystemExit(
            f"{fault.name!r}: its place occurs {text.count(fault.before)} times in {fault.file}; "
            "bring tests/mutants/faults.py up to date"
        )
    path.write_text(text.replace(fault.before, fault.after))


def run_tests(root: Path, tests: tuple[str, ...]) -> tuple[int, str]:
    """Run tests of a copy against it; returns pytest's exit status and its last words."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--no-header", *tests]
    # Before everything else: the overlay knows the package of the clone by a path file.
    env = {**os.environ, "PYTHONPATH": str(root / "python"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=root, env=env, capture_output=True, text=True, timeout=_SECONDS, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "E  "))]
    words = [line for line in lines if line.startswith("E  ") and "Error" in line] or lines or [done.stdout[-300:]]
    return done.returncode, " ".join(words[-1].split())[:110]


def main() -> int:
    """Check the tests themselves, then every fault."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="faults whose name contains this")
    parser.add_argument("--list", action="store_true", help="print the faults and check that their places are there")
    parser.add_argument("--no-control", action="store_true", help="don't run the tests on an unchanged copy first")
    options = parser.parse_args()
    chosen = [fault for fault in FAULTS if options.only in fault.name]
    survivors = []
    with tempfile.TemporaryDirectory(prefix="radixflow-mutants-") as folder:
        clean = copy_package(Path(folder, "clean"))
        if options.list:
            for fault in chosen:
                plant(fault, copy_package(Path(folder, str(FAULTS.index(fault)))))
                say(f"{fault.name}: {', '.join(fault.tests)}")
            return 0
        if not options.no_control:
            start = time.monotonic()
            tests = tuple(sorted({test for fault in chosen for test in fault.tests}))
            status, words = run_tests(clean, tests)
            if status != 0:
                say(f"the tests fail without any fault: {words}")
                return 1
            say(f"no fault: every test passes ({time.monotonic() - start:.0f} s)")
        for number, fault in enumerate(chosen):
            root = copy_package(Path(folder, str(number)))
            plant(fault, root)
            start = time.monotonic()
            status, words = run_tests(root, fault.tests)
            # 1: tests failed. Anything else is a broken run, and shows nothing.
            verdict = "caught" if status == 1 else "SURVIVES" if status == 0 else f"BROKEN (exit {status})"
            say(f"{verdict:9} {fault.name} ({time.monotonic() - start:.0f} s): {words if status else ''}")
            if status != 1:
                survivors.append(fault.name)
            shutil.rmtree(root)
    say(f"{len(chosen) - len(survivors)} of {len(chosen)} faults caught")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
