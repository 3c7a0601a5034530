"""Which of vLLM's tests run, from which source distribution, with which packages."""

from __future__ import annotations

from dataclasses import dataclass

PROJECT = "vllm"
VERSION = "0.29.0"
ARCHIVE = f"vllm-{VERSION}.tar.gz"
ARCHIVE_SHA256 = "c03feb07943ecae9e69e7dc424d7c5569ecf8d1292513aef2a4de67af381cd97"

# What vLLM's tests need otherwise than our own environment has it: its test path uses names that newer ones dropped.
PACKAGES = (
    "huggingface_hub==1.33.0",
    "tokenizers==0.22.2",
    "transformers==5.10.4",
    "torchvision==0.28.0",
    "pytest-asyncio==1.5.0",
    "tblib==3.2.2",
)

PRESETS = ("native", "rows", "flex", "radixflow", "radixflow_frag", "planned")
DEFAULT_PRESET = "planned"


@dataclass(frozen=True)
class Group:
    """Test files that run in one process."""

    name: str
    title: str
    files: tuple[str, ...]
    leave_out: tuple[str, ...] = ()
    keyword: str | None = None
    """pytest's ``-k``."""


_LONG = "tests/v1/core/test_priority_scheduler_random.py"
_UNIT = "tests/v1/kv_connector/unit"

CORE = Group(
    "core",
    "scheduler core",
    (
        "tests/v1/core",
        "tests/v1/streaming_input/test_scheduler_streaming.py",
        "tests/v1/spec_decode/test_dynamic_sd.py",
    ),
    leave_out=(_LONG, "tests/v1/core/test_scheduler_e2e.py", "tests/v1/core/test_reset_prefix_cache_e2e.py"),
)
# 20,000 steps a test and more than a minute each: those with a prefix cache, where ours runs its own edit, and two
# arms. The others of the file run vLLM's own function; ``--long`` runs all of them.
LONG = Group("long", "long random runs with priorities", (_LONG,), keyword="True]")
CONNECTORS = Group(
    "connectors",
    "connectors, scheduler side",
    (
        f"{_UNIT}/test_cache_pollution_prevention.py",
        f"{_UNIT}/test_error_propagation.py",
        f"{_UNIT}/test_invalid_blocks_correctness.py",
        f"{_UNIT}/test_kv_connector_lifecycle.py",
        f"{_UNIT}/test_kv_load_failure_recovery.py",
        f"{_UNIT}/test_remote_decode_lifecycle.py",
        f"{_UNIT}/test_remote_prefill_lifecycle.py",
        f"{_UNIT}/test_scheduler_kv_connector_override.py",
        f"{_UNIT}/offloading_connector",
        "tests/v1/simple_kv_offload",
        "tests/v1/ec_connector/unit",
    ),
)
END_TO_END = Group(
    "e2e",
    "end to end, CPU engine",
    (
        "tests/v1/core/test_reset_prefix_cache_e2e.py",
        "tests/v1/core/test_scheduler_e2e.py",
    ),
)
# A process of its own: engines of one process share their groups of experts, and the others have none.
HYBRID = Group(
    "hybrid",
    "end to end, hybrid model on a CPU: chunked, and from the cache",
    ("tests/v1/e2e/test_cpu_linear_attn_chunked_prefix.py",),
)
GROUPS = (CORE, LONG, CONNECTORS, END_TO_END, HYBRID)


@dataclass(frozen=True)
class Arm:
    """One run of a group: a class and its settings."""

    group: Group
    preset: str
    """``stock`` for vLLM's own class."""
    everywhere: bool = True
    """Run the edit and the policy also where users get vLLM's own function, for want of a prefix cache."""

    @property
    def name(self) -> str:
        """A file name."""
        return f"{self.group.name}-{self.preset}" + ("" if self.everywhere or self.preset == "stock" else "-as-shipped")


ARMS = (
    *(Arm(LONG, preset) for preset in ("stock", DEFAULT_PRESET)),
    *(Arm(CORE, preset) for preset in ("stock", *PRESETS)),
    Arm(CORE, DEFAULT_PRESET, everywhere=False),
    *(Arm(CONNECTORS, preset) for preset in ("stock", DEFAULT_PRESET)),
    *(Arm(END_TO_END, preset) for preset in ("stock", DEFAULT_PRESET)),
    *(Arm(HYBRID, preset) for preset in ("stock", DEFAULT_PRESET)),
)
