"""Which vLLM releases RadixFlow is known to be right on. Adding one is one row, after it was shown.

The hash is of the source text, not of its syntax tree: a comment that changes is a reason to look again.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
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
    relied_on: Mapping[str, str] = field(default_factory=dict)
    """SHA-256 of the source of every other function whose behaviour is relied on, by ``module:qualified name``."""
    relied_on_inside: Mapping[str, str] = field(default_factory=dict)
    """The same, of those that only hits inside blocks (``--prefix-match-unit``) rely on."""


_POP_AND_PREPEND = (
    "request_queue.pop_request()",
    "step_skipped_waiting.prepend_request(request)",
    "continue",
)

_SCHEDULER = "vllm.v1.core.sched.scheduler:Scheduler"
_MANAGERS = "vllm.v1.core.single_type_kv_cache_manager"
_CACHE = "vllm.v1.core.kv_cache_manager:KVCacheManager"

_RELIED_ON_0_29_0 = {
    f"{_SCHEDULER}._mamba_block_aligned_split": ("fe3e2f4166e41974b07bbb22807a152fd0a8d193452fadb19ee63139b940f414"),
    f"{_SCHEDULER}._get_local_prefix_cache_hit": ("3495ddb7de463024f5b312c7e122ff554727fcb1dc4e094de43bfd10297c59e3"),
    f"{_SCHEDULER}._preempt_request": ("1be81e04f8ff2c9f51421c738f7526c7ffe9932ac0a6be492fb9c013aa803ad1"),
    f"{_SCHEDULER}.update_from_output": ("616e84edbb35f1b3c4ec1a73bb06adf93c54e40fca1032fbb987d8b3dc2c754b"),
    f"{_MANAGERS}:MambaManager.get_num_blocks_to_allocate": (
        "0072b6bbbece640428a5e4cd5208bd181037ac5e459842e323135f707b093481"
    ),
    f"{_MANAGERS}:MambaManager.allocate_new_blocks": (
        "d985dbd859b01ca16bc9439cfa5866302f5d45ae5469e62de984cd9ca039ec41"
    ),
    f"{_MANAGERS}:MambaManager.cache_blocks": ("d79b375f6d8dc06634aeb1f2c5713bd5e95e28af95802ae86a96f163695e04b7"),
    f"{_MANAGERS}:MambaManager.find_longest_cache_hit": (
        "568297d5bd0830cbab90b2a08fd85623b1af3e26e1f28c825c023aa13623f66f"
    ),
    f"{_MANAGERS}:SingleTypeKVCacheManager.cache_blocks": (
        "21d844c61f349f04c7144edacd15255c1d37cf72103c16a680bc3d8651a189b1"
    ),
    f"{_CACHE}.get_computed_blocks": ("9138a2e949d56bd87764bbeed7cead7611e315729ffb7ab1bb849bf8b6990422"),
    f"{_CACHE}.allocate_slots": ("ad07182657498a47459dc76058251431f88ccede885f649aae447973bb82a090"),
}

_POOL = "vllm.v1.core.block_pool:BlockPool"

_RELIED_ON_INSIDE_0_29_0 = {
    f"{_MANAGERS}:MambaManager._cache_partial_tail_block": (
        "28c1b3f9cdbe65cbc3730ee0e0ed91866a5076e419deabea30d5996d144be82a"
    ),
    f"{_MANAGERS}:FullAttentionManager.cache_blocks": (
        "621b47e9e0738729605024ef1bb0a1c1ba8773210240818f0b840dfeda843eca"
    ),
    f"{_MANAGERS}:FullAttentionManager._cache_partial_tail_block": (
        "d547cd92571462e3056da733fc904ea49a3942903199d88c47aa2e61f6d58931"
    ),
    f"{_MANAGERS}:FullAttentionManager.find_longest_cache_hit": (
        "8aafda11cf9b0256f3a07bdc7c9b64a821e49e4fd936a29d3d2f56cb0fb34ae2"
    ),
    f"{_MANAGERS}:SingleTypeKVCacheManager.get_num_blocks_to_allocate": (
        "59e78a6fa836fc033e3e8240571ca2d049f3f3d873344db8e6b86b28d6d3518a"
    ),
    f"{_MANAGERS}:SingleTypeKVCacheManager.allocate_new_blocks": (
        "c4c1579a6ea6669f88695d28af58ab0f91e253bc873e2fe5827d6448cf761004"
    ),
    f"{_MANAGERS}:SingleTypeKVCacheManager._apply_cow": (
        "4f66971282c151a89c26de694d1d043835da220d01b29eb355dd4d67588263e7"
    ),
    f"{_MANAGERS}:SingleTypeKVCacheManager.take_pending_cow_copies": (
        "fa2d28313d0ca2405e702ce26588631ca60c8e514231c66e0f6a8131bf740513"
    ),
    f"{_CACHE}.take_kv_cache_block_copies": ("807042512478e8f2c74e1ad969954b683e3c61db7dd7255282d549155ca49bf9"),
    f"{_POOL}.get_cached_block": ("e88d062fd58fc5e212235802fe98d46a08c7c088562323059ecb2dd160c92dc8"),
    f"{_POOL}.cache_partial_block": ("1d821bc76e72950424074c5b33b72091090f11027b8f368bb806c3bca557d77c"),
    f"{_POOL}.move_block_hashes": ("4ae4af849b6ee33d4918c25f1f48859ac0bff2d9b08a5c8c5045dd33a5a64912"),
    # Reads every source before it writes: copies of one round may share sources, and none reads another's result.
    "vllm.v1.worker.utils:copy_kv_cache_blocks_inplace": (
        "cf7a8c14bc451c966135277c443fac5df65c98c049e2dedcf207025f4b231bca"
    ),
}

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
                relied_on=MappingProxyType(_RELIED_ON_0_29_0),
                relied_on_inside=MappingProxyType(_RELIED_ON_INSIDE_0_29_0),
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


def find_function(name: str) -> Callable[..., Any]:
    """Import ``module:qualified name``.

    Raises:
        ImportError, AttributeError: there is none.
    """
    module, _, path = name.partition(":")
    found: Any = importlib.import_module(module)
    for part in path.split("."):
        found = inspect.getattr_static(found, part) if inspect.isclass(found) else getattr(found, part)
    function: Callable[..., Any] = getattr(found, "__func__", found)
    return function


def check_relied_on(release: VllmRelease, inside_blocks: bool = False) -> None:
    """See that the functions relied on are the released ones.

    Args:
        release: the row of the running vLLM.
        inside_blocks: check those that only hits inside blocks rely on instead.

    Raises:
        UnsupportedError: one is missing or another; the message names each, with both hashes.
    """
    found = []
    functions = release.relied_on_inside if inside_blocks else release.relied_on
    for name, expected in functions.items():
        try:
            digest = source_sha256(find_function(name))
        except (ImportError, AttributeError, OSError, TypeError) as error:
            found.append(f"{name} can't be read ({error})")
            continue
        if digest != expected:
            found.append(f"{name} has sha256 {digest[:12]}, {expected[:12]} was expected")
    if found:
        raise UnsupportedError(
            f"vLLM {release.version} has functions that are not the released ones: {'; '.join(found)}. Something "
            f"patched or replaced them; reinstall vllm=={release.version} without that change, or set "
            '"on_unsupported": "native" to run as vLLM does'
        )
