"""Round records and where they go."""

from radixflow.telemetry.records import RoundRecord
from radixflow.telemetry.sinks import JsonLinesSink, RingSink, Sink

__all__ = ["JsonLinesSink", "RingSink", "RoundRecord", "Sink"]
