"""Settings of `radixflow simulate`, checked before anything runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Self

from annotated_types import Ge, Le
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from radixflow.errors import ConfigError, field_lines

Count = Annotated[int, Ge(1), Le(100_000)]


class SimulateSettings(BaseModel):
    """What to simulate. Lists are run in every combination."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    arms: list[str] = Field(default=["stock", "planned"], min_length=1)
    workloads: list[str] = Field(default=["short", "long", "burst"], min_length=1)
    geometries: list[str] = Field(default=["gdn-528"], min_length=1)
    concurrency: list[Count] | None = Field(default=None, min_length=1, description="clients of closed loops")
    rate: list[Annotated[float, Field(gt=0.0, le=1e6, allow_inf_nan=False)]] | None = Field(
        default=None, min_length=1, description="decisions a second of open loops"
    )
    burstiness: float = Field(default=1.0, gt=0.0, le=100.0, allow_inf_nan=False)
    burst: list[Count] | None = Field(default=None, min_length=1, description="decisions at once")
    every_ms: float = Field(default=1_000.0, gt=0.0, le=1e6, allow_inf_nan=False)
    trace: Path | None = None
    speed: float = Field(default=1.0, gt=0.0, le=1e4, allow_inf_nan=False)
    decisions: Annotated[int, Ge(1), Le(10_000_000)] | None = None
    seeds: list[Annotated[int, Ge(0), Le(2**31)]] = Field(default=[1], min_length=1)
    cost: str = "accelerator"
    hints: bool = False
    goodput_ms: float | None = Field(default=None, gt=0.0, allow_inf_nan=False)
    wait_ms: float | None = Field(default=None, ge=0.0, le=100.0, allow_inf_nan=False)
    name: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")] | None = None
    result_dir: Path = Path("bench/results")

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        given = [name for name in ("concurrency", "rate", "burst", "trace") if getattr(self, name) is not None]
        if len(given) > 1:
            raise ValueError(f"{' and '.join(given)} are both given; name one kind of arrival")
        for field in ("arms", "workloads", "geometries"):
            values = getattr(self, field)
            if twice := sorted({value for value in values if values.count(value) > 1}):
                raise ValueError(f"{field}: {twice} is given more than once; name each once")
        return self


def checked(**values: Any) -> SimulateSettings:  # noqa: ANN401
    """Build settings from a command line; None is left out.

    Raises:
        ConfigError: a field is not usable; the message names it, the value and why.
    """
    try:
        return SimulateSettings.model_validate({key: value for key, value in values.items() if value is not None})
    except ValidationError as error:
        raise ConfigError(explain(error, "simulate")) from None


def explain(error: ValidationError, command: str) -> str:
    """Write a line a bad field."""
    return f"{command}: " + f"\nradixflow: {command}: ".join(field_lines(error))
