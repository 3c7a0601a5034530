"""What a run needs, made once and kept in the cache folder: vLLM's tests, an environment, stand-ins for models.

Nothing of it enters the repository. The folder is keyed by the pins, so other pins make another one.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tarfile
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import suite
from stand_ins import MODELS

ROOT = Path(__file__).resolve().parents[2]
_LAYOUT = "3"
"""Changes when this file makes something else of the same pins."""


def environment_script() -> ModuleType:
    """Import ``scripts/environment.py``, which knows where environments lie and how they are filled."""
    found = importlib.util.spec_from_file_location("environment", ROOT / "scripts" / "environment.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.modules["environment"] = module
    found.loader.exec_module(module)
    return module


def home(environment: ModuleType) -> Path:
    """Return the folder of these pins."""
    parts = [suite.ARCHIVE_SHA256, *suite.PACKAGES, environment.key(environment.flavor()), _LAYOUT, json.dumps(MODELS)]
    key = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
    folder: Path = environment.cache_home().parent / "conformance" / key
    return folder


def download(project: str, filename: str, sha256: str, into: Path, index: str | None = None) -> Path:
    """Fetch one file of a project from the package index that pip is set to.

    ``pip download`` would run the project's build to learn its name; here only the bytes are wanted.

    Raises:
        SystemExit: the index doesn't have the file, or its content is another one.
    """
    path = into / filename
    if path.exists() and hashlib.sha256(path.read_bytes()).hexdigest() == sha256:
        return path
    # pip's own default where nothing else is set.
    from pip._internal.models.index import PyPI

    page = f"{(index or PyPI.simple_url).rstrip('/')}/{project}/"
    request = urllib.request.Request(page, headers={"Accept": "application/vnd.pypi.simple.v1+json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        files = json.load(answer)["files"]
    urls = [file["url"] for file in files if file["filename"] == filename]
    if not urls:
        raise SystemExit(f"{page} lists no {filename}; set pip's index-url to an index that has it")
    into.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    with urllib.request.urlopen(urls[0], timeout=300) as answer, partial.open("wb") as out:
        shutil.copyfileobj(answer, out)
    found = hashlib.sha256(partial.read_bytes()).hexdigest()
    if found != sha256:
        raise SystemExit(f"{urls[0]} has sha256 {found}, {sha256} was expected; the index serves another file")
    partial.rename(path)
    return path


def extract_tests(archive: Path, into: Path) -> None:
    """Take ``tests/`` out of a source distribution: not beside ``vllm/``, which would hide the installed one."""
    with tarfile.open(archive) as tar:
        for member in tar:
            top, _, rest = member.name.partition("/")
            if top and rest.startswith("tests/"):
                member.name = rest
                tar.extract(member, into, filter="data")


def make_environment(
    environment: ModuleType, at: Path, what: str = "packages of vLLM's tests", own: Sequence[str] = suite.PACKAGES
) -> Path:
    """Make an environment that sees the base's packages, with a few of its ``own`` before them."""
    base = Path(environment.base())
    subprocess.run([str(base), "-m", "venv", "--clear", "--without-pip", str(at)], check=True)
    python = at / "bin" / "python"
    ask = "import sysconfig; print(sysconfig.get_paths()['purelib'])"
    packages, site = (
        subprocess.run([str(p), "-c", ask], capture_output=True, text=True, check=True).stdout.strip()
        for p in (base, python)
    )
    Path(site, "_radixflow_base.pth").write_text(f"import site; site.addsitedir({packages!r})\n")
    installer = environment.Installer(python, environment.cache_home())
    installer.install(what, "--no-deps", *own)
    return python


def prepare() -> tuple[Path, Path]:
    """Return the interpreter and the working folder, making both where they are missing."""
    environment = environment_script()
    folder = home(environment)
    python, work, marker = folder / "env" / "bin" / "python", folder / "work", folder / ".complete"
    with environment.locked(folder.parent / f"{folder.name}.lock"):
        if not marker.exists():
            shutil.rmtree(folder, ignore_errors=True)
            work.mkdir(parents=True)
            index = environment.pip_setting(Path(sys.executable), "global.index-url")
            environment.say(f"vLLM's tests: {suite.ARCHIVE}")
            archive = download(suite.PROJECT, suite.ARCHIVE, suite.ARCHIVE_SHA256, folder.parent, index)
            extract_tests(archive, work)
            make_environment(environment, folder / "env")
            write = "import pathlib, stand_ins; stand_ins.write_stand_ins(pathlib.Path('.'))"
            env = {
                **os.environ,
                "PYTHONPATH": f"{Path(__file__).parent}{os.pathsep}{ROOT / 'python'}",
                "HF_HUB_OFFLINE": "1",
            }
            subprocess.run([str(python), "-c", write], cwd=work, env=env, check=True, stderr=subprocess.DEVNULL)
            marker.write_text("ok\n")
    return python, work
