"""The policy of the README, as it stands there, in `radixflow bench`: that is a real `vllm serve` with it."""

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_policy_of_the_readme_is_measured_and_decides(tmp_path):
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    (tmp_path / "patient.py").write_text(code)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "radixflow.cli", "bench", "--arms", "patient.py:Patient", "--json"),
            *("--workloads", "short", "--concurrency", "1", "--decisions", "4", "--repeats", "1"),
            *("--result-dir", "results", "--name", "patient"),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    (row,) = json.loads(done.stdout)["cells"]
    assert (row["arm"], row["completed"], row["failed"]) == ("patient.py:Patient", 4, 0)
    # It lets go of three requests or more: the first branches waited for the third.
    assert row["holds"].get("rows", 0) > 0
