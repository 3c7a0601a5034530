"""Which vLLM releases RadixFlow is known to be right on. Adding one is one row, after it was shown.

The hash is of the source text, not of its syntax tree: a comment that changes is a reason to look again.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from radixflow.errors import UnsupportedError


@dataclass(frozen=True, slots=True)
class VllmRelease:
    """What is relied on in one release of vLLM."""

    version: str
    schedule_sha256: str
    """SHA-256 of ``inspect.getsource(Scheduler.schedule)``, UTF-8."""
    skip_idiom: tuple[str, ...]
    """The statements by which the waiting loop skips a request, in order."""
    sites: Mapping[str, int]
    """How often each place of the rewrite occurs in the waiting loop."""
    verified: str
    """How it was shown."""


_POP_AND_PREPEND = (
    "request_queue.pop_request()",
    "step_skipped_waiting.prepend_request(request)",
    "continue",
)

RELEASES: Mapping[str, VllmRelease] = MappingProxyType(
    {
        release.version: release
        for release in (
            VllmRelease(
                version="0.29.0",
                schedule_sha256="6361fde74c842c97b1dfeb31f9c9c3dce0727f5a8bfcd255b90e42725a8fecec",
                skip_idiom=_POP_AND_PREPEND,
                sites=MappingProxyType({"gate": 1, "allocation": 1, "zero": 2}),
                verified="public cases and random traces on the real scheduler, a CPU engine, vLLM's own tests/v1/core",
            ),
        )
    }
)


def public_version(version: str) -> str:
    """Cut a local label off: ``0.29.0+cpu`` is the release 0.29.0."""
    return version.partition("+")[0]


def source_sha256(function: Callable[..., Any]) -> str:
    """Hash a function's source text as it lies in its file; a wrapper's own text, not what it wraps."""
    return hashlib.sha256(inspect.getsource(function.__code__).encode()).hexdigest()


def known_sha256(function: Callable[..., Any]) -> str:
    """Hash like :func:`source_sha256`, or ``unknown`` where the source isn't installed: for reports only."""
    try:
        return source_sha256(function)
    except (OSError, TypeError, AttributeError):
        return "unknown"


def check_release(version: str, schedule_sha256: str) -> VllmRelease:
    """Return the row of the running vLLM.

    Raises:
        UnsupportedError: the version has no row, or its ``schedule()`` is not the one in its row; the message
            says what was found and what to do.
    """
    release = RELEASES.get(public_version(version))
    known = ", ".join(RELEASES)
    if release is None:
        raise UnsupportedError(
            f"vLLM {version} is not supported (its Scheduler.schedule() has sha256 {schedule_sha256[:12]}); "
            f"RadixFlow was shown right on: {known}. Install one of these (pip install vllm=={known}), or set "
            '"on_unsupported": "native" to run as vLLM does'
        )
    if schedule_sha256 != release.schedule_sha256:
        raise UnsupportedError(
            f"vLLM {version} has a Scheduler.schedule() that is not the released one: sha256 is "
            f"{schedule_sha256[:12]}, {release.schedule_sha256[:12]} was expected. Something patched or replaced it; "
            f"reinstall vllm=={release.version} without that change, or set "
            '"on_unsupported": "native" to run as vLLM does'
        )
    return release
