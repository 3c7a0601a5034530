"""Errors that a person has to act on. Each message names the field, the value and the fix."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from pydantic import ValidationError


class RadixFlowError(Exception):
    """Base of every error that RadixFlow raises on purpose."""


class ConfigError(RadixFlowError, ValueError):
    """A setting is unknown, of the wrong type or out of range."""


class UnsupportedError(RadixFlowError):
    """This vLLM, or this engine's configuration, is not one RadixFlow was shown to be right on."""


class PolicyError(RadixFlowError):
    """A policy can't be found, or isn't one."""


class Finding(NamedTuple):
    """One thing that pydantic refused."""

    field: str
    """Path of the field, joined by dots; empty for the whole object."""
    value: Any
    """What was given."""
    reason: str


def findings(error: ValidationError) -> list[Finding]:
    """Return everything that a validation refused, in the order of the fields."""
    return [
        Finding(".".join(map(str, item["loc"])), item["input"], item["msg"].removeprefix("Value error, "))
        for item in error.errors(include_url=False)
    ]


def field_lines(error: ValidationError) -> list[str]:
    """Write a line for each bad field: the field, its value and why."""
    return [f"{field} is {value!r}: {reason}" if field else reason for field, value, reason in findings(error)]
