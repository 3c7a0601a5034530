"""What to measure: the settings of one benchmark run, checked before anything starts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from annotated_types import Ge, Gt, Le
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from radixflow.bench.workloads import WORKLOADS, Workload
from radixflow.config import parse_config
from radixflow.errors import ConfigError, PolicyError, field_lines
from radixflow.policies import resolve_policy

STOCK = "stock"
REMOTE = "server"
"""The arm of a server that runs already."""

OPEN_LOOP = 1_024
"""Calls in flight at most in an open loop."""

# What `make demo` runs: enough repeats for a median on noisy cores, little enough to end within minutes.
_QUICK = {"concurrency": [1], "decisions": 16, "repeats": 8}


class Cell(BaseModel):
    """One row of the comparison: a workload at a concurrency (calls in flight)."""

    model_config = ConfigDict(frozen=True)

    workload: str
    concurrency: int
    request_rate: float | None = None
    """Calls sent a second, answered or not; None: a closed loop of `concurrency` calls in flight."""

    @property
    def label(self) -> str:
        """The cell's name in tables, for example `long C8` or `long 4/s`."""
        if self.request_rate is not None:
            return f"{self.workload} {self.request_rate:g}/s"
        return f"{self.workload} C{self.concurrency}"


class BenchSettings(BaseModel):
    """Settings of `radixflow bench`.

    Raises:
        pydantic.ValidationError: naming the field, the value and what would be allowed; `checked_settings`
        turns
            it into a `ConfigError` whose message a person can read.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    arms: list[str] = Field(
        default=[STOCK, "planned"],
        min_length=1,
        description="what to compare: `stock` (vLLM's own class), presets, or module:Class of your own",
    )
    workloads: list[str] = Field(default=["short", "long", "burst"], min_length=1)
    concurrency: list[Annotated[int, Ge(1), Le(256)]] = Field(
        default=[1, 8],
        min_length=1,
        description="calls in flight; a workload that fixes its own ignores this",
    )
    request_rate: list[Annotated[float, Gt(0), Le(100_000)]] = Field(
        default=[],
        description="calls sent a second, answered or not, instead of closed loops",
    )
    burstiness: float = Field(
        default=1.0, gt=0.0, le=100.0, description="of request_rate: 1 is Poisson, less is burstier, as in vLLM's"
    )
    goodput_ms: float | None = Field(default=None, gt=0.0, description="latency up to which a decision is good")
    url: str | None = Field(default=None, pattern=r"^https?://", description="a running server instead of our own")
    api: Literal["completions", "systemone"] = Field(default="completions", description="how that server is asked")
    served_model: str | None = Field(default=None, min_length=1, description="that server's model name")
    save_result: bool = Field(default=False, description="also write a file a cell and arm as vllm bench serve does")
    metadata: dict[str, str] = Field(default_factory=dict, description="kept in the saved results")
    resume: Path | None = Field(default=None, description="result folder whose finished cells aren't measured again")
    decisions: int = Field(default=32, ge=1, le=100_000, description="decisions per cell, arm and repeat")
    burst_decisions: int = Field(default=16, ge=1, le=64, description="decisions in one call of `burst`")
    branches: int = Field(default=4, ge=1, le=64, description="prompts of one decision")
    repeats: int = Field(default=4, ge=1, le=1000, description="measured repeats per cell; even ones pair best")
    fresh: bool = Field(default=False, description="new servers for every repeat; else one per arm for the whole run")
    warmup_decisions: int = Field(default=8, ge=1, le=10_000, description="unmeasured decisions per cell and arm")
    name: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")] = Field(
        default="bench", description="end of the result folder's name"
    )
    result_dir: Path = Field(default=Path("bench/results"), description="folder of result folders")
    model: Path | None = Field(default=None, description="model folder; none: the embedded model")
    policy: dict[str, Any] = Field(
        default_factory=dict, description="further RadixFlow settings for every preset arm, such as wait_ms"
    )
    quick: bool = Field(default=False, description="the short profile of `make demo`; sets what was not given")
    seed: int = Field(default=0, ge=0, description="seed of the prompts; the same prompts for every arm")
    startup_timeout_s: float = Field(default=600.0, gt=0.0, le=3600.0, description="seconds until healthy")
    request_timeout_s: float = Field(default=120.0, gt=0.0, le=3600.0, description="seconds for one call")
    json_output: bool = Field(default=False, description="one JSON document on stdout, the rest on stderr")

    @model_validator(mode="before")
    @classmethod
    def _apply_quick(cls, data: object) -> object:
        if isinstance(data, dict) and data.get("quick"):
            data = {**_QUICK, **data}
        if isinstance(data, dict) and data.get("url") is not None:
            # One server, whatever schedules there.
            data = {**data, "arms": [REMOTE]}
        return data

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        if self.api == "systemone" and self.url is None:
            raise ValueError("api: 'systemone' is for a server that runs already; give its url")
        if self.api == "systemone" and "burst" in self.workloads:
            raise ValueError("workloads: 'burst' puts many decisions in one call, which /v1/systemone can't take")
        if self.fresh and self.url is not None:
            raise ValueError("fresh: a server that runs already isn't ours to start anew; leave fresh or url out")
        if (self.url is None) != (self.served_model is None):
            raise ValueError("url and served_model go together: a running server, and the name its model has there")
        for field, values in (("arms", self.arms), ("workloads", self.workloads)):
            if twice := sorted({value for value in values if values.count(value) > 1}):
                raise ValueError(f"{field}: {twice} is given more than once; name each one once")
        for name in self.workloads:
            if name not in WORKLOADS:
                raise ValueError(f"workloads: {name!r} is unknown; known: {', '.join(WORKLOADS)}")
        try:
            parse_config(self.policy, "the options")
        except ConfigError as error:
            raise ValueError(str(error)) from error
        for arm in self.arms:
            if arm == STOCK or self.url is not None:
                continue
            try:
                resolve_policy(parse_config({**self.policy, "policy": arm}, "the options"))
            except PolicyError as error:
                raise ValueError(f"arms: {error}; or {STOCK!r}") from error
        if self.model is not None and not (self.model / "config.json").is_file():
            raise ValueError(f"model: {str(self.model)!r} holds no config.json; give a model folder, or leave it out")
        return self

    @property
    def baseline(self) -> str:
        """The arm that the others are compared with: `stock` if it runs, else the first."""
        return STOCK if STOCK in self.arms else self.arms[0]

    def workload(self, name: str) -> Workload:
        """Return a workload of the registry, sized by these settings."""
        return WORKLOADS[name](self)

    def cells(self) -> list[Cell]:
        """Return the cells in the order they are run and printed."""
        cells: list[Cell] = []
        for name in self.workloads:
            fixed = self.workload(name).fixed_concurrency
            if self.request_rate:
                cells += [Cell(workload=name, concurrency=OPEN_LOOP, request_rate=rate) for rate in self.request_rate]
                continue
            levels = [fixed] if fixed is not None else sorted(set(self.concurrency))
            cells += [Cell(workload=name, concurrency=level) for level in levels]
        return cells


def checked_settings(**values: object) -> BenchSettings:
    """Build settings from a command line.

    Raises:
        ConfigError: one line per bad field, with the field, the value and the reason.
    """
    try:
        return BenchSettings.model_validate(values)
    except ValidationError as error:
        raise ConfigError("bench: " + "\nradixflow: bench: ".join(field_lines(error))) from None
