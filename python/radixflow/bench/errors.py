"""Errors of the benchmark that a person has to act on."""

from __future__ import annotations

from radixflow.errors import RadixFlowError


class BenchError(RadixFlowError):
    """A measurement could not be made; the message says what happened and what to do."""


class ServerError(BenchError):
    """A `vllm serve` process did not start, or died; the message ends with its last log lines."""
