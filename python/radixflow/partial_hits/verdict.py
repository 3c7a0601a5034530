"""What was measured of hits inside blocks, per unit, and what follows from it."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

STATE_TOLERANCE = 1e-3
"""Most by which a copied state may move a value; a device that computes alike twice moves it by 0."""

DEFAULT_TOLERANCE = 0.02
"""Most by which a value may differ from the one without a prefix cache (log-probability, or pooled value)."""


class UnitMeasures(BaseModel):
    """Largest differences of one unit, over all values read (log-probabilities, or pooled values)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    unit: int = Field(description="tokens, --prefix-match-unit")
    expected_hits: int = Field(description="requests that should have started inside a block")
    hits: int = Field(description="those that did, exactly at the junction")
    state_delta: float = Field(
        description="a request from a copied state against itself, computed with the same chunks"
    )
    plain_delta: float = Field(description="the same request against itself without a prefix cache")
    chunk_delta: float = Field(description="computed with the same chunks, against without a prefix cache")
    crowd_delta: float = Field(description="all requests at once, against each without a prefix cache")
    batch_delta: float = Field(description="without a prefix cache: all requests at once, against each alone")
    answers_changed: int = Field(description="requests whose largest value is another one than without a prefix cache")

    def reasons(self, tolerance: float) -> list[str]:
        """Say why hits inside blocks may not be used with this unit; empty: they may.

        Args:
            tolerance: most by which a value may differ from the one without a prefix cache.
        """
        found = []
        if self.hits < self.expected_hits:
            found.append(f"{self.expected_hits - self.hits} of {self.expected_hits} requests did not start there")
        if self.state_delta > STATE_TOLERANCE:
            found.append(
                f"a copied state moves a value by {self.state_delta:.4f}, where the same chunks without a copy don't: "
                "the state or the attention copied is not the one computed"
            )
        worst = max(self.plain_delta, self.crowd_delta - self.batch_delta)
        if worst > tolerance:
            cause = (
                "chunks that end there without any cache do as much" if self.chunk_delta >= worst else "not explained"
            )
            found.append(f"values differ from those without a cache by {worst:.4f}, more than {tolerance:g} ({cause})")
        return found


class Verdict(BaseModel):
    """What `radixflow doctor --check-partial-hits` found out about one model on one kind of device."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    fingerprint: str = Field(description="what the measures hold for; see fingerprint.py")
    about: dict[str, str] = Field(description="the parts of the fingerprint that a person can read")
    block_size: int = Field(description="tokens")
    tolerance: float = DEFAULT_TOLERANCE
    units: tuple[UnitMeasures, ...]

    def unit(self) -> int | None:
        """Return the finest unit that passed, None for none."""
        passed = [one.unit for one in self.units if not one.reasons(self.tolerance)]
        return min(passed, default=None)

    def reasons(self, unit: int, block_size: int) -> list[str]:
        """Say why an engine with this unit and block size may not store states inside blocks; empty: it may."""
        if block_size != self.block_size:
            return [f"it was checked with blocks of {self.block_size} tokens, this engine has {block_size}"]
        for one in self.units:
            if one.unit == unit:
                return one.reasons(self.tolerance)
        checked = ", ".join(str(one.unit) for one in self.units)
        return [f"units of {checked} tokens were checked, this engine has {unit}"]
