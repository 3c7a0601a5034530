"""The parts that stand alone do so, and dependencies point one way."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

WITHOUT_VLLM = """
import sys
sys.modules["vllm"] = None
sys.modules["torch"] = None
import {module}
assert not any(name.split(".")[0] in ("vllm", "torch") for name in sys.modules if sys.modules[name] is not None)
"""


@pytest.mark.parametrize(
    "module",
    [
        "radixflow",
        "radixflow.policies",
        "radixflow.index",
        "radixflow.config",
        "radixflow.telemetry",
        "radixflow.client",
        "radixflow.cli",
    ],
)
def test_it_imports_where_vllm_is_not_installed(module):
    subprocess.run([sys.executable, "-c", WITHOUT_VLLM.format(module=module)], check=True)


def test_the_scheduler_is_resolved_only_when_asked_for():
    code = WITHOUT_VLLM.format(module="radixflow") + (
        "try:\n    radixflow.Scheduler\nexcept ImportError:\n    pass\nelse:\n    raise SystemExit('resolved')\n"
        "try:\n    radixflow.Nothing\nexcept AttributeError as error:\n    assert 'Nothing' in str(error)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_dependencies_point_one_way():
    # In a process of its own: import-linter sets up logging, and switches off the loggers that exist.
    code = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports())"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    assert "2 kept, 0 broken" in done.stdout
