"""`radixflow doctor MODEL --check-partial-hits`: the check with an engine's own flags, its verdict kept and shown."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from radixflow.errors import RadixFlowError
from radixflow.partial_hits.check import check
from radixflow.partial_hits.records import keep
from radixflow.partial_hits.verdict import Verdict


def check_and_keep(
    arguments: Sequence[str], units: Sequence[int], tolerance: float, say: Callable[[str], None]
) -> tuple[Verdict, Path]:
    """Check a model and write the verdict down; returns it and its file.

    Args:
        arguments: model and flags as for ``vllm serve``.
        units: tokens, each tried as ``--prefix-match-unit``.
        tolerance: most by which a value may differ from the one without a prefix cache.
        say: called with a line of progress.

    Raises:
        RadixFlowError: no model is named, no engine could be built, or the verdict can't be written.
    """
    if not arguments or arguments[0].startswith("-"):
        raise RadixFlowError(
            "--check-partial-hits: no model is named first; give the model and the flags you serve it with, such as "
            "`radixflow doctor MODEL --dtype bfloat16 --check-partial-hits`"
        )
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")
    verdict = check(arguments, units, tolerance, say)
    return verdict, keep(verdict)


def to_text(verdict: Verdict) -> str:
    """Return a verdict as a table for a terminal."""
    about = ", ".join(f"{name} {value}" for name, value in verdict.about.items())
    lines = [
        f"hits inside blocks of {verdict.block_size} tokens: {about}",
        "largest differences: copied state / from no cache / of its chunks alone / all at once / of the batch alone",
    ]
    for one in verdict.units:
        deltas = (one.state_delta, one.plain_delta, one.chunk_delta, one.crowd_delta, one.batch_delta)
        numbers = " / ".join(f"{delta:.4f}" for delta in deltas)
        reasons = one.reasons(verdict.tolerance)
        lines.append(f"  unit {one.unit:4}  {'refused' if reasons else 'passed '}  {numbers}")
        lines.append(f"             {one.hits} of {one.expected_hits} hits, {one.answers_changed} answers changed")
        lines += [f"             {reason}" for reason in reasons]
    unit = verdict.unit()
    lines.append(f"use --prefix-match-unit {unit}" if unit else "leave --prefix-match-unit out")
    return "\n".join(lines)
