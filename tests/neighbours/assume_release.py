"""pytest plugin: takes the vLLM that is installed for one that was shown right, with the hashes that it has.

Only to try a release. That its tests pass is a part of showing it right; what its changed functions do has to be read.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from types import MappingProxyType

import vllm
from vllm.v1.core.sched.scheduler import Scheduler

from radixflow.engine import compat

OURS = compat.RELEASES["0.29.0"]
VERSION = compat.public_version(vllm.__version__)


def hashes(names: Iterable[str]) -> Mapping[str, str]:
    """Hash the functions that are there; one that is missing is a reason to stop."""
    return MappingProxyType({name: compat.source_sha256(compat.find_function(name)) for name in names})


ROW = dataclasses.replace(
    OURS,
    version=VERSION,
    schedule_sha256=compat.source_sha256(Scheduler.schedule),
    relied_on=hashes(OURS.relied_on),
    relied_on_inside=hashes(OURS.relied_on_inside),
    verified="not at all: it is being tried",
)
compat.RELEASES = MappingProxyType({**compat.RELEASES, VERSION: ROW})  # type: ignore[misc]


def pytest_report_header() -> list[str]:
    """Say which vLLM it is, and which functions are others than those of 0.29.0."""
    changed = [name.partition(":")[2] for name, digest in OURS.relied_on.items() if ROW.relied_on[name] != digest]
    return [f"vLLM {VERSION}, taken for supported; relied on and changed: {', '.join(changed) or 'nothing'}"]
