"""What changed: each answer beside the same question's answer in the reference, by how close that one was."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from radixflow.audit.play import Played

BINS = (0.0, 0.004, 0.02, 0.05, 0.1, 0.2, 1.0)
"""Edges of the reference's margin. Published flips sat between 0.004 and 0.02."""


@dataclass(frozen=True, slots=True)
class Change:
    """One answer beside its reference."""

    arm: str
    mode: str
    decision: int
    question: str
    type: str
    repeat: int
    margin: float
    """Of the reference: difference of its two highest probabilities."""
    near_tie: bool
    """The server's mark on the reference."""
    delta: float
    """Largest difference of an option's probability."""
    flipped: bool
    """Another option is the most probable one."""


Reference = Mapping[tuple[int, str], Any]


def reference_of(played: Iterable[Played]) -> Reference:
    """Return the first answer to each question, by decision and question."""
    found: dict[tuple[int, str], Any] = {}
    for one in played:
        if one.response is not None and one.repeat == 0:
            for name, answer in one.response.answers.items():
                found.setdefault((one.decision, name), answer)
    return found


def changes(arm: str, played: Iterable[Played], reference: Reference) -> list[Change]:
    """Compare answers with the reference; a question that the reference lacks is left out."""
    rows = []
    for one in played:
        if one.response is None:
            continue
        for name, answer in one.response.answers.items():
            base = reference.get((one.decision, name))
            if base is None:
                continue
            before, after = list(base.probabilities.values()), list(answer.probabilities.values())
            rows.append(
                Change(
                    arm=arm,
                    mode=one.mode,
                    decision=one.decision,
                    question=name,
                    type=answer.type,
                    repeat=one.repeat,
                    margin=base.margin,
                    near_tie=base.near_tie,
                    delta=max(abs(left - right) for left, right in zip(before, after, strict=True)),
                    flipped=before.index(max(before)) != after.index(max(after)),
                )
            )
    return rows


def summarise(rows: Sequence[Change]) -> dict[str, Any]:
    """Return counts and extremes over rows: answers, flips, max |dp|, and the largest margin that flipped."""
    flips = [row for row in rows if row.flipped]
    return {
        "answers": len(rows),
        "flips": len(flips),
        "flips_at_near_ties": sum(row.near_tie for row in flips),
        "max_delta_p": max((row.delta for row in rows), default=0.0),
        "mean_delta_p": sum(row.delta for row in rows) / len(rows) if rows else 0.0,
        "unequal": sum(row.delta > 0 for row in rows),
        "largest_flipped_margin": max((row.margin for row in flips), default=None),
    }


def by_margin(rows: Sequence[Change]) -> list[dict[str, Any]]:
    """Return answers, flips and max |dp| for each bin of the reference's margin; the last bin holds 1, too."""
    table = []
    for low, high in pairwise(BINS):
        inside = [row for row in rows if low <= row.margin < high or (high == BINS[-1] and row.margin >= high)]
        flips = sum(row.flipped for row in inside)
        table.append(
            {
                "margin_from": low,
                "margin_to": high,
                "answers": len(inside),
                "flips": flips,
                "flip_rate": flips / len(inside) if inside else None,
                "max_delta_p": max((row.delta for row in inside), default=None),
            }
        )
    return table
