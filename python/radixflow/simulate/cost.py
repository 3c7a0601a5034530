"""What a round takes on the virtual clock: a formula, its presets, and a fit to a trace of a real engine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from radixflow.errors import ConfigError, findings, unreadable

Seconds = Annotated[float, Field(ge=0.0, le=100.0, allow_inf_nan=False)]


class CostModel(BaseModel):
    """Seconds of one worker step, from what was scheduled.

    ``additive``: ``fixed + per_row * rows + per_cached * cached + per_token * tokens``; ``overlap``: the largest of the
    host's part (``fixed + per_row * rows``) and the device's (``per_token * tokens + per_cached * cached``), as where
    launching kernels takes longer than running them. Host time of ``schedule()`` comes on top of both.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    form: Literal["additive", "overlap"] = Field(default="additive", description="how host and device parts add up")
    fixed_s: Seconds = Field(default=0.045, description="seconds of a step, whatever is in it")
    per_token_s: Seconds = Field(default=25e-6, description="seconds a token computed")
    per_row_s: Seconds = Field(default=0.0, description="seconds a request scheduled")
    per_cached_token_s: Seconds = Field(default=0.0, description="seconds a prefix token attended to but not computed")
    schedule_s: Seconds = Field(default=0.0, description="host seconds of a call of schedule()")
    schedule_per_row_s: Seconds = Field(default=0.0, description="of it, a request scheduled")
    schedule_per_waiting_s: Seconds = Field(default=0.0, description="of it, a request left waiting")
    empty_s: float = Field(
        default=0.001, gt=0.0, le=1.0, allow_inf_nan=False, description="seconds of a poll that schedules nothing"
    )

    def seconds(self, tokens: int, rows: int = 0, cached: int = 0) -> float:
        """Return how long a worker step takes; an empty one is a poll.

        Args:
            tokens: tokens computed.
            rows: requests scheduled.
            cached: tokens before those computed, of all rows.
        """
        if not tokens:
            return self.empty_s
        host = self.fixed_s + self.per_row_s * rows
        device = self.per_token_s * tokens + self.per_cached_token_s * cached
        return max(host, device) if self.form == "overlap" else host + device

    def schedule_seconds(self, rows: int, waiting: int) -> float:
        """Return the host time of ``schedule()`` in a round; no worker step runs meanwhile (a sync engine)."""
        return self.schedule_s + self.schedule_per_row_s * rows + self.schedule_per_waiting_s * waiting

    @property
    def counts_waiting(self) -> bool:
        """Whether waiting requests need counting."""
        return self.schedule_per_waiting_s > 0.0


PRESETS: Mapping[str, CostModel] = MappingProxyType(
    {
        "accelerator": CostModel(),
        "free": CostModel(fixed_s=1e-6, per_token_s=0.0, empty_s=1e-3),
    }
)
"""By name. ``accelerator``: the order of a 2 B hybrid model on one A800. ``free``: nothing but order matters."""


def read_cost(spec: str) -> CostModel:
    """Return the cost model that ``spec`` names: a preset, or a JSON file (``radixflow simulate fit`` writes one).

    Raises:
        ConfigError: neither; or a field that is unknown or out of range.
    """
    if spec in PRESETS:
        return PRESETS[spec]
    path = Path(spec)
    if not path.is_file():
        raise ConfigError(f"cost: {spec!r} is neither a preset ({', '.join(PRESETS)}) nor a JSON file of a cost model")
    try:
        return CostModel.model_validate_json(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(unreadable("cost", path, error) + "; give a preset or a JSON file of a cost model") from error
    except ValidationError as error:
        fields = ", ".join(CostModel.model_fields)
        lines = [
            f"cost {spec!r}: field {found.field or '(whole)'!r} {found.is_what:.240}; fields: {fields}"
            for found in findings(error)
        ]
        raise ConfigError("\nradixflow: ".join(lines)) from None
