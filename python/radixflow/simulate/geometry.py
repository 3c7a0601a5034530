"""Model geometries: what of a model a scheduler sees."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from radixflow.errors import ConfigError
from radixflow.simulate.rig import build_scheduler, vllm_config


class Geometry(BaseModel):
    """Kinds of layers, block size, and an engine's limits. Sizes are tokens unless said otherwise."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    about: str
    family: Literal["hybrid", "attention", "recurrent"] = "hybrid"
    block_size: int = Field(default=528, ge=1)
    state_groups: int = Field(default=1, ge=1, description="groups of recurrent layers of the KV cache")
    match_unit: int | None = Field(default=None, ge=1, description="vLLM's --prefix-match-unit, none: a block")
    checkpoint_blocks: int = Field(default=0, ge=0, description="states a chunk stores besides the one at its end")
    budget: int = Field(default=16_384, ge=1, description="vLLM's --max-num-batched-tokens")
    rows: int = Field(default=256, ge=1, description="vLLM's --max-num-seqs")
    num_blocks: int = Field(default=65_536, ge=2, description="blocks of the pool")

    @property
    def hash_size(self) -> int:
        """Tokens a block hash covers: what is shared is a multiple of it."""
        return self.match_unit or self.block_size

    def scheduler(self, scheduler_class: type[Any], settings: dict[str, Any] | None) -> Any:  # noqa: ANN401
        """Build a scheduler of a class around this geometry."""
        config = vllm_config(
            block_size=self.block_size,
            num_blocks=self.num_blocks,
            budget=self.budget,
            max_num_seqs=self.rows,
            settings=settings,
            match_unit=self.match_unit,
        )
        return build_scheduler(
            scheduler_class,
            config,
            self.family,
            checkpoint_blocks=self.checkpoint_blocks,
            state_groups=self.state_groups,
        )


def _named(*geometries: Geometry) -> Mapping[str, Geometry]:
    return MappingProxyType({one.name: one for one in geometries})


GEOMETRIES = _named(
    Geometry(
        name="gdn-528",
        about="Gated DeltaNet as a 2 B model has it: three linear layers for each full one, blocks of 528",
        state_groups=3,
    ),
    Geometry(name="gdn-32", about="Gated DeltaNet, the least block a CPU runs", block_size=32, state_groups=3),
    Geometry(name="gdn-64", about="Gated DeltaNet, small blocks", block_size=64, state_groups=3),
    Geometry(name="gdn-1600", about="Gated DeltaNet, a large state: blocks of 1,600", block_size=1_600, state_groups=3),
    Geometry(
        name="mamba2-400",
        about="a Mamba2 hybrid, nine recurrent layers for each full one, blocks of 400",
        block_size=400,
        state_groups=9,
    ),
    Geometry(name="attention-16", about="full attention, vLLM's usual block of 16", family="attention", block_size=16),
    Geometry(
        name="attention-528", about="full attention, blocks as large as a hybrid's", family="attention", block_size=528
    ),
)


def geometry(name: str) -> Geometry:
    """Return a geometry by name.

    Raises:
        ConfigError: there is none; the message lists them.
    """
    if name not in GEOMETRIES:
        raise ConfigError(f"geometry: {name!r} is unknown; known: {', '.join(GEOMETRIES)}")
    return GEOMETRIES[name]
