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
    missing: bool = False
    """Nothing was given; the value is what the field is missing from."""

    @property
    def is_what(self) -> str:
        """What there is to say of the field."""
        return "is missing" if self.missing else f"is {self.value!r}: {self.reason}"


def findings(error: ValidationError) -> list[Finding]:
    """Return everything that a validation refused, in the order of the fields."""
    return [
        Finding(
            ".".join(map(str, item["loc"])),
            item["input"],
            item["msg"].removeprefix("Value error, "),
            item["type"] == "missing",
        )
        for item in error.errors(include_url=False)
    ]


def field_lines(error: ValidationError) -> list[str]:
    """Write a line for each bad field: the field, its value and why."""
    return [f"{found.field} {found.is_what}" if found.field else found.reason for found in findings(error)]


def unreadable(field: str, path: object, error: OSError | UnicodeDecodeError) -> str:
    """Say why a file can't be read; what to give instead follows."""
    reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
    return f"{field}: {str(path)!r} can't be read ({reason})"
