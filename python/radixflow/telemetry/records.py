"""What is known about one call of ``schedule()``."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(slots=True)
class RoundRecord:
    """One round: a non-empty worker step. Empty calls of ``schedule()`` are counted into the next round's record."""

    t: float
    """Seconds on the scheduler's clock at the end of ``schedule()``; the system's monotonic clock by default."""
    seq: int
    """Rounds before this one."""
    rows: int
    """Requests scheduled."""
    new_rows: int
    """Requests scheduled for the first time."""
    tokens: int
    """Tokens to be computed."""
    cached_tokens: int
    """Prefix tokens of the new rows that need not be computed."""
    waiting: int
    """Requests left waiting."""
    running: int
    """Requests that run, this round's included."""
    preset: str
    schedule_sha256: str
    """Hash of vLLM's ``schedule()`` source."""
    indexed: int = 0
    """Prompts in the index after the call."""
    deferrals: dict[str, int] = field(default_factory=dict)
    """Requests passed over since the last round, by reason: ``pending``, ``promise``, ``zero``, ``allocation``."""
    barriers: dict[str, int] = field(default_factory=dict)
    """Native breaks of the waiting scan, by site: ``allocation``, ``zero``, ``round_tokens``; ``bound``."""
    held: int = 0
    """Candidates that the hold before this round let go."""
    hold_ms: float = 0.0
    """How long that hold lasted, milliseconds; 0.0 without one."""
    release: str | None = None
    """Why it ended."""
    empty_steps: int = 0
    """Calls of ``schedule()`` that scheduled nothing, since the last round."""
    fallbacks: int = 0
    """Calls that ran natively because something of ours failed, since the last round."""
    host_us: float = 0.0
    """Host time of ``schedule()``, microseconds, RadixFlow's part included, this record's not."""
    telemetry_us: float = 0.0
    """Host time spent on the previous round's record, microseconds."""

    def to_json(self) -> dict[str, Any]:
        """Return the record as plain values."""
        return asdict(self)
