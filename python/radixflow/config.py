"""Every knob, its default, unit and range.

Settings come from ``--additional-config '{"radixflow": {...}}'``; where that key is absent, from the
environment variable ``RADIXFLOW_CONFIG`` (the same JSON object), for harnesses that can't pass flags.
"""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

from annotated_types import Ge, Le
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo

from radixflow.errors import ConfigError

ENVIRONMENT_VARIABLE = "RADIXFLOW_CONFIG"
ADDITIONAL_CONFIG_KEY = "radixflow"


class RadixFlowConfig(BaseModel):
    """Validated settings of one scheduler. Unknown keys and wrong types are errors, not guesses."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    policy: str = Field(
        default="planned",
        min_length=1,
        description="a preset's name, or a policy of your own as module:Class or path/to/file.py:Class",
    )
    wait_ms: float = Field(
        default=5.0,
        ge=0.0,
        le=100.0,
        allow_inf_nan=False,
        description="bound of an admission hold, milliseconds since the oldest held request was added; 0: no hold",
    )
    max_bypass: int = Field(
        default=16,
        ge=1,
        le=10_000,
        description="rounds a request may be deferred or bypassed before the native barrier returns for it",
    )
    max_wait_ms: float = Field(
        default=1000.0,
        ge=0.0,
        le=600_000.0,
        allow_inf_nan=False,
        description="milliseconds since its first deferral after which the native barrier returns for a request",
    )
    round_tokens: Annotated[int, Field(ge=1, le=10_000_000)] | Literal["auto", "budget"] = Field(
        default="auto",
        description="tokens at which a round stops growing once a request was deferred in it (policy planned): "
        "auto is learned from what rounds take, budget is the whole of a round's budget, for throughput",
    )
    tail_states: Literal["auto", "keep"] = Field(
        default="auto",
        description="the state at a prompt's last block boundary, which costs a round and serves whoever sends the "
        "prompt again (policy planned): auto leaves it out for prefill-only branches while that pays, keep never",
    )
    partial_states: Literal["auto", "on", "off"] = Field(
        default="auto",
        description="states inside a block, where --prefix-match-unit is below the block size (policy planned): auto "
        "stores them if `radixflow doctor --check-partial-hits` passed on this model, on always, off never",
    )
    on_unsupported: Literal["refuse", "native"] = Field(
        default="refuse",
        description="what to do where RadixFlow isn't known to be right: refuse to start, or run as vLLM does",
    )
    trace_path: str | None = Field(
        default=None,
        min_length=1,
        description="file that receives one JSON object a round; none: no trace",
    )
    ring_size: int = Field(
        default=0,
        ge=0,
        le=1_000_000,
        description="rounds kept in memory; 0: none, and no record is built unless trace_path asks for it",
    )


def _describe_bounds(metadata: Iterable[object]) -> str | None:
    """Write constraints as ``low..high``; None where one is missing."""
    known = list(metadata)
    low = next((m.ge for m in known if isinstance(m, Ge)), None)
    high = next((m.le for m in known if isinstance(m, Le)), None)
    return f"{low}..{high}" if low is not None and high is not None else None


def describe_range(info: FieldInfo) -> str:
    """Say which values a field takes, from its own constraints, for example ``0.0..100.0``."""
    bounds = _describe_bounds(info.metadata)
    if bounds is not None:
        return bounds
    parts = [_describe_part(part) for part in getattr(info.annotation, "__args__", ())]
    if parts and all(parts):
        return " | ".join(part for part in parts if part is not None)
    kind = getattr(info.annotation, "__name__", None)
    return str(info.annotation) if kind in (None, "Union", "UnionType") else str(kind)


def _describe_part(part: object) -> str | None:
    """Describe one alternative of a union: a word, a set of words, or a bounded number; None for anything else."""
    if isinstance(part, str):
        return repr(part)
    bounds = [item for field in getattr(part, "__metadata__", ()) for item in getattr(field, "metadata", ())]
    if bounds:
        return _describe_bounds(bounds)
    words = getattr(part, "__args__", ())
    return " | ".join(map(repr, words)) if words and all(isinstance(word, str) for word in words) else None


def _explain(error: ValidationError, source: str) -> str:
    """Turn pydantic's report into one line a field: the field, the value, what it takes."""
    fields = RadixFlowConfig.model_fields
    lines = []
    told = set()
    for item in error.errors():
        name = str(item["loc"][0]) if item["loc"] else "(whole)"
        if name in told and name in fields:
            # A field of several kinds has one report a kind; the range below names them all.
            continue
        told.add(name)
        if item["type"] == "extra_forbidden":
            known = ", ".join(sorted(fields))
            lines.append(f"field {name!r} is unknown (value {item['input']!r}); the fields are: {known}")
        elif name in fields:
            info = fields[name]
            lines.append(
                f"field {name!r} is {item['input']!r}, which is not allowed ({item['msg']}); "
                f"allowed: {describe_range(info)} - {info.description}"
            )
        else:
            lines.append(f"{item['msg']} (value {item['input']!r}); give a JSON object of settings")
    return "\n".join(f"radixflow settings from {source}: {line}" for line in lines)


def parse_config(settings: object, source: str) -> RadixFlowConfig:
    """Validate settings that came from ``source`` (named in errors).

    Raises:
        ConfigError: an unknown key, a wrong type or a value out of range; the message names the field, the
            value and the allowed range.
    """
    try:
        return RadixFlowConfig.model_validate(settings)
    except ValidationError as error:
        raise ConfigError(_explain(error, source)) from None


def load_config(
    additional_config: Mapping[str, Any] | object | None,
    environ: Mapping[str, str] | None = None,
) -> RadixFlowConfig:
    """Read the settings of an engine: vLLM's ``additional_config``, else ``RADIXFLOW_CONFIG``, else defaults.

    Args:
        additional_config: ``VllmConfig.additional_config``; only its key ``radixflow`` is read. vLLM also
            allows objects of a platform's own there, which are left alone.
        environ: environment to read, default ``os.environ``.

    Raises:
        ConfigError: the settings are not usable; see :func:`parse_config`.
    """
    if isinstance(additional_config, Mapping) and ADDITIONAL_CONFIG_KEY in additional_config:
        source = f"--additional-config key {ADDITIONAL_CONFIG_KEY!r}"
        return parse_config(additional_config[ADDITIONAL_CONFIG_KEY], source)
    if isinstance(additional_config, Mapping):
        # Other keys belong to others; one that is almost ours is a slip, and would run with defaults unnoticed.
        spelt = {str(key).lower(): key for key in additional_config}
        found = difflib.get_close_matches(ADDITIONAL_CONFIG_KEY, spelt, n=1, cutoff=0.8)
        near = [spelt[name] for name in found]
        if near:
            raise ConfigError(
                f"--additional-config has no key {ADDITIONAL_CONFIG_KEY!r} but has {near[0]!r} "
                f"(value {additional_config[near[0]]!r}); spell it {ADDITIONAL_CONFIG_KEY!r}"
            )
    text = (os.environ if environ is None else environ).get(ENVIRONMENT_VARIABLE)
    if not text:
        return RadixFlowConfig()
    try:
        settings = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise ConfigError(
            f"radixflow settings from {ENVIRONMENT_VARIABLE}: not JSON ({error}); value {text[:200]!r}; "
            'give an object, such as {"policy": "radixflow", "wait_ms": 5}'
        ) from None
    return parse_config(settings, ENVIRONMENT_VARIABLE)
