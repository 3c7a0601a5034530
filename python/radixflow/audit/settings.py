"""What an audit asks, of whom, and how."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from radixflow.errors import ConfigError, findings

ARMS = {
    "stock, no reuse": ("--scheduler-cls", "radixflow.engine.stock.CountingScheduler", "--no-enable-prefix-caching"),
    "stock": ("--scheduler-cls", "radixflow.engine.stock.CountingScheduler"),
    "radixflow, no reuse": ("--no-enable-prefix-caching",),
    "radixflow": (),
}
"""Arm to the flags that `radixflow serve` gets for it. The first one is what the others are compared with."""
SERVED = "served"
"""Name of the only arm where a running server is audited."""


class AuditSettings(BaseModel):
    """Settings of `radixflow audit`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    decisions: Path | None = Field(
        default=None,
        description="a JSONL file of request bodies; null: made-up tickets that the model wasn't trained on",
    )
    count: int = Field(default=100, ge=1, le=100_000, description="decisions to ask, 1 to 100,000")
    requests: int = Field(default=1_200, ge=1, le=1_000_000, description="requests of the crowd, 1 to 1,000,000")
    concurrency: int = Field(default=64, ge=1, le=4_096, description="requests of the crowd in flight, 1 to 4,096")
    batch: int = Field(default=8, ge=2, le=1_024, description="decisions of a fixed batch, 2 to 1,024")
    seed: int = Field(default=0, ge=0, description="seed of the decisions and of the crowd's order")
    url: str | None = Field(default=None, description="a running server; null: servers are started, one an arm")
    api_key: str | None = Field(default=None, exclude=True, description="of that server")
    name: str = Field(default="audit", pattern=r"^[\w-]+$", description="end of the result folder's name")
    result_dir: Path = Field(default=Path("bench/results"), description="folder of result folders")
    serve_arguments: tuple[str, ...] = Field(default=(), description="model and flags as for `radixflow serve`")
    startup_timeout_s: float = Field(default=600.0, gt=0, description="seconds a server may take to start")

    @model_validator(mode="after")
    def _check_url(self) -> Self:
        """Refuse flags that nobody would read."""
        if self.url is not None and self.serve_arguments:
            raise ValueError("url names a running server, so a model and its flags have no use; leave one of them out")
        return self

    @property
    def arms(self) -> tuple[str, ...]:
        """Names of the arms, the one to compare with first."""
        return tuple(ARMS) if self.url is None else (SERVED,)


def audit_settings(**given: object) -> AuditSettings:
    """Check settings.

    Raises:
        ConfigError: each field that is wrong, its value and what it takes, a line each.
    """
    try:
        return AuditSettings.model_validate(given)
    except ValidationError as error:
        lines = []
        for name, value, reason, _ in findings(error):
            info = AuditSettings.model_fields.get(name)
            fix = f"; give {info.description}" if info else ""
            shown = f"field {name!r} is {value!r} ({reason})" if name else reason
            lines.append(f"audit: {shown}{fix}")
        raise ConfigError("\n".join(lines)) from None
