"""The check: engines of several units beside one without a prefix cache, and what their answers say."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from radixflow.errors import RadixFlowError
from radixflow.partial_hits.cases import PromptFamily
from radixflow.partial_hits.verdict import DEFAULT_TOLERANCE, UnitMeasures, Verdict
from radixflow.partial_hits.worker import Result, Spec, Values

DEFAULT_UNITS = (16, 32, 64)
"""Tokens. Kernels of recurrent layers work on grids of 16 to 64 tokens, and round alike where a chunk starts on it."""

_LOG_LINES = 25


def check(
    arguments: Sequence[str],
    units: Sequence[int] = DEFAULT_UNITS,
    tolerance: float = DEFAULT_TOLERANCE,
    say: Callable[[str], None] = lambda line: None,
) -> Verdict:
    """Measure hits inside blocks on real engines; each is built in a process of its own.

    Args:
        arguments: model and flags as for ``vllm serve``.
        units: tokens, each tried as ``--prefix-match-unit``; those that vLLM can't use here are left out.
        tolerance: most by which a value may differ from the one without a prefix cache.
        say: called with a line of progress.

    Raises:
        RadixFlowError: no unit can be used with this model, or an engine failed; the message ends with its log.
    """
    found: list[tuple[int, Result]] = []
    trouble = []
    for unit in sorted(set(units)):
        say(f"an engine with units of {unit} tokens")
        try:
            result = run_engine(Spec(arguments=tuple(arguments), unit=unit))
        except RadixFlowError as error:
            # vLLM refuses a unit that doesn't divide the block, for one; another may do.
            trouble.append(f"{unit}: {error}")
            continue
        if result.partial and result.families:
            found.append((unit, result))
        else:
            trouble.append(f"{unit}: with blocks of {result.block_size} tokens no hit can end inside a block")
    if not found:
        raise RadixFlowError("none of these units can be checked with this model: " + "; ".join(trouble))
    say("an engine without a prefix cache")
    families = [family for _, result in found for family in result.families]
    plain = run_engine(Spec(arguments=tuple(arguments), unit=None, families=tuple(families))).values
    assert plain is not None
    measures, place = [], 0
    for unit, result in found:
        count = sum(len(family.prompts) for family in result.families)
        part = Values(alone=plain.alone[place : place + count], crowd=plain.crowd[place : place + count])
        place += count
        assert result.values is not None
        measures.append(measure(unit, result.families, result.values, part))
    first = found[0][1]
    return Verdict(
        fingerprint=first.fingerprint,
        about=first.about,
        block_size=first.block_size,
        tolerance=tolerance,
        units=tuple(measures),
    )


def measure(unit: int, families: Sequence[PromptFamily], cached: Values, plain: Values) -> UnitMeasures:
    """Compare what an engine with a unit answered with what one without a prefix cache did.

    Args:
        unit: tokens.
        families: what both were asked.
        cached: values with the unit.
        plain: values without a cache, of the same prompts.
    """
    junctions = [family.junction if sibling else 0 for family in families for sibling in range(len(family.prompts))]
    hits = [number for number, junction in enumerate(junctions) if junction]
    alone, cold, crowd = (np.array(values) for values in (cached.alone, cached.cold, cached.crowd))
    base, together = np.array(plain.alone), np.array(plain.crowd)
    return UnitMeasures(
        unit=unit,
        expected_hits=len(hits),
        hits=sum(cached.starts[number] == junctions[number] for number in hits),
        state_delta=_furthest(alone[hits], cold[hits]),
        plain_delta=_furthest(alone[hits], base[hits]),
        chunk_delta=_furthest(cold, base),
        crowd_delta=_furthest(crowd, base),
        batch_delta=_furthest(together, base),
        answers_changed=int((alone[hits].argmax(axis=1) != base[hits].argmax(axis=1)).sum()),
    )


def _furthest(one: np.ndarray, other: np.ndarray) -> float:
    """Return the largest difference; values that are no numbers in one of them only are infinitely far apart."""
    with np.errstate(invalid="ignore"):
        apart = np.abs(one - other)
    apart[(one == other) | (np.isnan(one) & np.isnan(other))] = 0.0
    return float(np.nan_to_num(apart, nan=np.inf).max(initial=0.0))


def run_engine(spec: Spec) -> Result:
    """Run one engine in a process of its own.

    Raises:
        RadixFlowError: it failed; the message ends with the last lines of its log.
    """
    with tempfile.TemporaryDirectory(prefix="radixflow-check-") as folder:
        spec_path, result_path, log_path = (Path(folder) / name for name in ("spec.json", "result.json", "log"))
        spec_path.write_text(spec.model_dump_json())
        with log_path.open("wb") as log:
            command = [sys.executable, "-m", "radixflow.partial_hits.worker", str(spec_path), str(result_path)]
            status = subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, check=False).returncode
        if status or not result_path.exists():
            lines = log_path.read_text(errors="replace").splitlines()[-_LOG_LINES:]
            raise RadixFlowError(f"the engine's process ended with status {status}:\n" + "\n".join(lines))
        return Result.model_validate_json(result_path.read_bytes())
