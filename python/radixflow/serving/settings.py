"""Settings of the endpoint. vLLM gives plugins no flags of their own, so they come in one environment variable."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from radixflow.decisions import DEFAULT_NEAR_TIE_MARGIN
from radixflow.errors import ConfigError, findings

ENVIRONMENT_VARIABLE = "RADIXFLOW_ENDPOINT"
"""A JSON object of :class:`EndpointSettings`' fields; `radixflow serve` writes it from its flags."""


class EndpointSettings(BaseModel):
    """What the endpoint can be told."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    near_tie_margin: float = Field(
        default=DEFAULT_NEAR_TIE_MARGIN,
        ge=0.0,
        le=1.0,
        allow_inf_nan=False,
        description="difference of the two highest probabilities below which an answer is a near-tie, 0 to 1",
    )
    max_body_bytes: int = Field(
        default=1 << 20, ge=1_024, le=1 << 30, description="bytes of the largest request body, 1,024 to 1 GiB"
    )
    manifest: Path | None = Field(
        default=None, description="a model's manifest; null: radixflow_manifest.json in the model's folder, if any"
    )


def load_settings(environ: Mapping[str, str] | None = None) -> EndpointSettings:
    """Read the settings from the environment; without the variable, the defaults.

    Raises:
        ConfigError: not a JSON object, or a field that is unknown or out of range.
    """
    text = (os.environ if environ is None else environ).get(ENVIRONMENT_VARIABLE)
    if not text:
        return EndpointSettings()
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"{ENVIRONMENT_VARIABLE} is {text!r}, which is not JSON ({error}); give an object") from None
    return check_settings(value, ENVIRONMENT_VARIABLE)


def check_settings(value: object, source: str) -> EndpointSettings:
    """Check settings.

    Args:
        value: a JSON value.
        source: where it is from, for errors.

    Raises:
        ConfigError: each field that is wrong, its value and what it takes, a line each.
    """
    try:
        return EndpointSettings.model_validate(value)
    except ValidationError as error:
        lines = []
        for name, value, reason, _ in findings(error):
            info = EndpointSettings.model_fields.get(name)
            known = ", ".join(EndpointSettings.model_fields)
            fix = f"give {info.description}" if info else f"the fields are {known}"
            lines.append(f"{source}: field {name or '(whole)'!r} is {value!r} ({reason}); {fix}")
        raise ConfigError("\n".join(lines)) from None
