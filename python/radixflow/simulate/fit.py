"""Learn a cost model from a trace of rounds that a real engine wrote."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import nnls

from radixflow.errors import ConfigError, unreadable
from radixflow.simulate.cost import CostModel

FEWEST_ROUNDS = 20
_TERMS = ("fixed_s", "per_token_s", "per_row_s", "per_cached_token_s")
_LONGEST_S = 60.0


@dataclass(frozen=True, slots=True)
class Fit:
    """A cost model, and how far it is from the rounds it was learned from."""

    cost: CostModel
    rounds: int
    """Rounds that were used: back to back, so that the time between two is what the first took."""
    dropped: int
    """Of them, rounds left out as outliers."""
    median_error: float
    """Median of ``|predicted - seen| / seen``."""
    r2: float


def read_records(path: Path) -> list[dict[str, Any]]:
    """Read a trace (``trace_path`` of the settings).

    Raises:
        ConfigError: the file can't be read, or a line is no record.
    """
    records = []
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(unreadable("trace", path, error) + "; give a JSONL trace") from error
    for number, line in enumerate(text.splitlines(), 1):
        try:
            record = json.loads(line)
            record = {**record, **{key: float(record[key]) for key in ("t", "tokens", "rows", "host_us")}}
        except (ValueError, KeyError, TypeError) as error:
            reason = f"no {error}" if isinstance(error, KeyError) else str(error)
            raise ConfigError(
                f"trace {path.name}, line {number}: no round record ({reason}); a record has t, tokens, rows and "
                "host_us, as radixflow writes them to 'trace_path'"
            ) from None
        records.append(record)
    return records


def step_seconds(
    records: Sequence[Mapping[str, Any]], always_busy: bool = False
) -> list[tuple[float, Mapping[str, Any]]]:
    """Return (seconds, record) of the rounds that another one followed at once.

    The trace has the end of each ``schedule()``. Where requests were left running or waiting, the engine calls it again
    as soon as the worker is done, so the time between two, less the host time of the second call and its polls, is what
    the worker and the answers took.

    Args:
        records: of one engine, in order.
        always_busy: every round was followed by another at once, as in a closed loop in the engine's own process.
    """
    found = []
    for one, following in itertools.pairwise(records):
        if (one.get("waiting", 0) == 0 and not always_busy) or following.get("empty_steps", 0):
            continue
        seconds = following["t"] - one["t"] - following["host_us"] / 1e6
        if 0.0 < seconds < _LONGEST_S:
            found.append((seconds, one))
    return found


def fit_cost(steps: Iterable[tuple[float, Mapping[str, Any]]], with_cached: bool = False) -> Fit:
    """Fit the additive form by non-negative least squares on relative errors, twice: the second time without outliers.

    Args:
        steps: (seconds, record) of worker steps; see :func:`step_seconds`.
        with_cached: also learn what cached tokens cost. ``cached_tokens`` counts those of new rows only.

    Raises:
        ConfigError: fewer than 20 rounds, or all of one size.
    """
    pairs = list(steps)
    if len(pairs) < FEWEST_ROUNDS:
        raise ConfigError(
            f"trace: only {len(pairs)} rounds were followed by another one at once, and a fit needs {FEWEST_ROUNDS}; "
            "record traffic that keeps requests waiting, say 8 decisions at once"
        )
    columns = [
        [1.0, float(one["tokens"]), float(one["rows"]), float(one.get("cached_tokens", 0)) if with_cached else 0.0]
        for _, one in pairs
    ]
    design, seen = np.array(columns), np.array([seconds for seconds, _ in pairs])
    if len(set(design[:, 1].tolist())) < 2:
        raise ConfigError(f"trace: every round has {design[0, 1]:.0f} tokens; a fit needs rounds of several sizes")
    kept = np.ones(len(seen), bool)
    for _ in range(2):
        weights = 1.0 / seen[kept]
        scale = np.maximum(design[kept].max(axis=0), 1.0)
        values, _ = nnls(design[kept] / scale * weights[:, None], seen[kept] * weights)
        values = values / scale
        errors = np.abs(design @ values - seen) / seen
        kept = errors <= max(0.5, 4.0 * float(np.median(errors)))
    host = [float(one["host_us"]) / 1e6 for _, one in pairs]
    terms = dict(zip(_TERMS, values.tolist(), strict=True))
    residual = float(np.sum((design[kept] @ values - seen[kept]) ** 2))
    spread = float(np.sum((seen[kept] - seen[kept].mean()) ** 2))
    return Fit(
        cost=CostModel(**terms, schedule_s=float(np.median(host))),
        rounds=len(pairs),
        dropped=int((~kept).sum()),
        median_error=float(np.median(errors[kept])),
        r2=1.0 - residual / spread if spread else float("nan"),
    )
