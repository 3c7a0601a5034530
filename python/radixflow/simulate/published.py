"""Figures that others published, and the assumptions that a simulation of them needs.

Open-Jev-2B: Gated-DeltaNet model, one A800, decisions of four branches, closed loop. Requests a second unless said
otherwise. Token lengths, block size and the gap between siblings were not published.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

from radixflow.simulate.geometry import GEOMETRIES, Geometry
from radixflow.simulate.workloads import Workload

Measure = Literal["per_second", "rounds", "mean_ms", "ratio", "rounds_ratio"]
PREDECESSOR = "radixflow"


@dataclass(frozen=True, slots=True)
class Figure:
    """One published number."""

    cell: str
    """``short C1``."""
    arm: str
    measure: Measure
    """``ratio`` and ``rounds_ratio``: over stock's throughput, rounds."""
    value: float
    fitted: bool = False
    """Whether the free parameters are fitted to it; all others are predictions."""


FIGURES: tuple[Figure, ...] = (
    Figure("short C1", "stock", "per_second", 7.53, fitted=True),
    Figure("short C1", "stock", "rounds", 80, fitted=True),
    Figure("short C1", "stock", "mean_ms", 132.5, fitted=True),
    Figure("long C8", "stock", "per_second", 8.39, fitted=True),
    Figure("short C1", PREDECESSOR, "per_second", 11.54),
    Figure("short C1", PREDECESSOR, "rounds", 48),
    Figure("short C1", PREDECESSOR, "mean_ms", 86.4),
    Figure("short C8", "stock", "per_second", 35.57),
    Figure("short C8", PREDECESSOR, "per_second", 38.91),
    Figure("short C32", "stock", "per_second", 50.19),
    Figure("short C32", PREDECESSOR, "per_second", 50.82),
    Figure("long C8", PREDECESSOR, "per_second", 8.77),
    Figure("long C8", PREDECESSOR, "rounds_ratio", 0.74),
    Figure("long C32", "stock", "per_second", 9.36),
    Figure("long C32", PREDECESSOR, "per_second", 9.65),
    Figure("long C32", PREDECESSOR, "rounds_ratio", 0.72),
    Figure("long C1", PREDECESSOR, "ratio", 0.937),
    Figure("attention C8", PREDECESSOR, "ratio", 0.878),
    Figure("attention C32", PREDECESSOR, "ratio", 0.931),
)

NOT_SIMULATED = (
    "author server: 6.45, 6.42, 6.43 (short C1, C8, C32), 0.68 (long): another server, whose scheduler we don't have",
    "host time a round +24 % and +28 % (long C8, C32): host time of a machine we don't have",
    "9 B, long C1: -4.0 %: another model, of which no absolute figure was published to fit a cost to",
    "15 of 288 answers changed (0.6 B, full attention): there are no answers without a model",
)

DECISIONS = {1: 32, 8: 64, 32: 128}
"""Per cell, by clients. 32 were published for C1."""


@dataclass(frozen=True, slots=True)
class Assumptions:
    """What was not published."""

    name: str
    why: str
    short: Workload
    long: Workload
    geometry: Geometry
    form: Literal["additive", "overlap"] = "additive"
    per_row_s: float = 0.0

    def workload(self, cell: str) -> tuple[Workload, Geometry, int]:
        """Return the workload, geometry and clients of a cell."""
        kind, _, clients = cell.rpartition(" C")
        if kind == "attention":
            # Another model, 0.6 B: only ratios were published, and the cost of the 2 B model stands in for its own.
            return self.long, GEOMETRIES["attention-16"], int(clients)
        return (self.short if kind == "short" else self.long), self.geometry, int(clients)


_WIDE = GEOMETRIES["gdn-528"].model_copy(update={"num_blocks": 16_384})
_GEOMETRY = _WIDE.model_copy(update={"name": "gdn-272", "block_size": 272, "num_blocks": 32_768})
_SHORT = Workload("short", "", (80, 80), (20, 240))
_LONG = Workload("long", "", (2_500, 2_500), (100, 300))
BASE = Assumptions(
    "base",
    "blocks of 272 tokens (the state in bfloat16); short: 80 shared, 20 to 240 own tokens, so that the longest of "
    "four branches passes a block in half of the decisions, the only way we found to stock's 80 rounds for 32 "
    "decisions; long: 2,500 shared, 100 to 300 own; siblings 1.2 ms apart; no cost a row. Of the two block sizes that "
    "such a model can have we chose this one after we had seen short C32, so that cell is no blind prediction",
    _SHORT,
    _LONG,
    _GEOMETRY,
)


def _both(one: Assumptions, **changes: object) -> Assumptions:
    return replace(one, short=replace(one.short, **changes), long=replace(one.long, **changes))  # type: ignore[arg-type]


VARIANTS: tuple[Assumptions, ...] = (
    BASE,
    replace(BASE, name="overlap", why="host and device parts overlap: a round takes the longer one", form="overlap"),
    replace(BASE, name="rows", why="1 ms a row", per_row_s=1e-3),
    replace(_both(BASE, gap_s=0.0004), name="gap 0.4 ms", why="siblings 0.4 ms apart"),
    replace(_both(BASE, gap_s=0.0025), name="gap 2.5 ms", why="siblings 2.5 ms apart: four don't fit in a hold of 5"),
    replace(BASE, name="short narrow", why="short: 222 to 270 shared, 20 to 40 own",
            short=replace(_SHORT, shared=(222, 270), own=(20, 40), drawn="evenly")),
    replace(BASE, name="short tiny", why="short: 80 shared, 20 to 40 own: all below a block, 64 rounds",
            short=replace(_SHORT, own=(20, 40))),
    replace(BASE, name="long varied", why="long: 1,500 to 3,500 shared", long=replace(_LONG, shared=(1_500, 3_500))),
    replace(BASE, name="long 3,500", why="long: 3,500 shared", long=replace(_LONG, shared=(3_500, 3_500))),
    replace(BASE, name="block 528", why="blocks of 528: the state in float32; short: 80 shared, 20 to 530 own",
            short=replace(_SHORT, own=(20, 530)), geometry=_WIDE),
)  # fmt: skip
"""What was assumed, varied one at a time; each is fitted anew."""

TARGETS: Mapping[str, float] = MappingProxyType(
    {"short C1": 1.5, "long C1": 1.2, "long C8": 1.25, "long C32": 1.25, "attention C8": 1.0, "attention C32": 1.0}
)
"""Least throughput of ``planned`` over stock in the calibrated model."""
