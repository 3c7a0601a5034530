"""Instructions of every operation, counted by valgrind: the same on a busy machine as on an idle one."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from prefix_index.counted import STRUCTURES, workload
from prefix_index.subjects import OPERATIONS

VALGRIND = ("valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null")
# Strings hash alike in every run, and memory is not copied by the one instruction that counts once a byte.
FIXED = {"PYTHONHASHSEED": "0", "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-ERMS,-FSRM"}

Task = tuple[str, str, int]
"""A subject, an operation, and the length of the keys in tokens."""


def available() -> bool:
    """Whether valgrind is installed."""
    return shutil.which(VALGRIND[0]) is not None


def count(tasks: list[Task]) -> dict[Task, float]:
    """Count the instructions of one call for each task, whose subject must offer the operation."""
    runs = {task: (task[0], OPERATIONS.index(task[1]) + 1, task[2]) for task in tasks}
    # The run before is the one with the steps up to the operation before it, which another task may need too.
    before = {task: (name, steps - 1, length) for task, (name, steps, length) in runs.items()}
    jobs = list({*runs.values(), *before.values()})
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        totals = dict(zip(jobs, pool.map(lambda job: _run(*job), jobs), strict=True))
    calls = {task: STRUCTURES * workload(task[2]).states * workload(task[2]).branches for task in tasks}
    return {task: (totals[runs[task]] - totals[before[task]]) / calls[task] for task in tasks}


def _run(name: str, steps: int, length: int) -> int:
    command = [*VALGRIND, sys.executable, "-m", "prefix_index.counted", name, str(steps), str(length)]
    path = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, **FIXED, "PYTHONPATH": path}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    found = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode != 0 or found is None:
        raise RuntimeError(f"{' '.join(command)} failed (exit {done.returncode}):\n{done.stderr[-2000:]}")
    return int(found.group(1))
