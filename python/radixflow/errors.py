"""Errors that a person has to act on. Each message names the field, the value and the fix."""

from __future__ import annotations


class RadixFlowError(Exception):
    """Base of every error that RadixFlow raises on purpose."""


class ConfigError(RadixFlowError, ValueError):
    """A setting is unknown, of the wrong type or out of range."""


class UnsupportedError(RadixFlowError):
    """This vLLM, or this engine's configuration, is not one RadixFlow was shown to be right on."""


class PolicyError(RadixFlowError):
    """A policy can't be found, or isn't one."""
