"""From what the engine returned to probabilities over the options. Plain arithmetic, safe at the extremes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from radixflow.decisions.errors import ReadError

DEFAULT_NEAR_TIE_MARGIN = 0.02
"""Published flips between batch compositions sat at margins of 0.004 to 0.02."""
# A logarithm of a probability is at most 0; more than rounding above it is another kind of number.
_ROUNDING = 1e-3


@dataclass(frozen=True, slots=True)
class Reading:
    """One question, read."""

    probabilities: tuple[float, ...]
    """Shares of the options among themselves, in their order; they sum to 1 and are not calibrated."""
    label_mass: float
    """Probability of all labels together, over the whole vocabulary."""
    argmax_is_label: bool
    """Whether the vocabulary's most probable token is a label."""

    @property
    def best(self) -> int:
        """Place of the most probable option; the first one where several are."""
        return self.probabilities.index(max(self.probabilities))

    @property
    def confidence(self) -> float:
        """The best option's probability over the whole vocabulary: low if the model wanted to say something else."""
        return max(self.probabilities) * self.label_mass

    @property
    def margin(self) -> float:
        """Difference of the two highest probabilities; 1 where there is only one option."""
        first, second = sorted((*self.probabilities, 0.0), reverse=True)[:2]
        return first - second

    def is_near_tie(self, near_tie_margin: float = DEFAULT_NEAR_TIE_MARGIN) -> bool:
        """Return whether the margin is below a threshold: another batch might have answered otherwise."""
        return self.margin < near_tie_margin


def read_labels(logprobs: Mapping[int, float], label_ids: Sequence[int], sampled: int) -> Reading:
    """Read one question from the first position of an answer.

    Args:
        logprobs: token id to natural logarithm of its probability over the whole vocabulary; other ids than the
            labels' may be in it.
        label_ids: the label of each option, distinct.
        sampled: the token that greedy decoding took there.

    Raises:
        ReadError: a label is missing, isn't a log-probability, or none of them has any probability.
    """
    missing = [token for token in label_ids if token not in logprobs]
    if missing or not label_ids:
        raise ReadError(f"no log-probability of label tokens {missing}, only of {sorted(logprobs)[:32]}")
    values = [float(logprobs[token]) for token in label_ids]
    wrong = [value for value in values if math.isnan(value) or value > _ROUNDING]
    if wrong:
        raise ReadError(f"label log-probabilities {values} hold {wrong[0]}, which is none; check the logprobs mode")
    return Reading(
        probabilities=_softmax(values, 1.0),
        # Rounding may carry a sum of shares above 1, and a confidence with it.
        label_mass=min(1.0, math.fsum(math.exp(value) for value in values)),
        argmax_is_label=sampled in label_ids,
    )


def read_branches(scores: Sequence[float], temperature: float) -> Reading:
    """Read one question from the scalars of its candidates' branches.

    Args:
        scores: what the model's head gave at each branch's last position, in the order of the options.
        temperature: what the scores are divided by, above 0; from the model's manifest.

    Returns:
        A reading with ``label_mass`` 1: nothing but candidates was scored.

    Raises:
        ReadError: no score, one that is not a number, or none that is finite.
        ValueError: a temperature that is not a positive finite number.
    """
    if not (temperature > 0.0 and math.isfinite(temperature)):
        raise ValueError(f"temperature is {temperature}; give a finite number above 0")
    values = [float(score) for score in scores]
    if any(math.isnan(value) or value == math.inf for value in values):
        raise ReadError(f"branch scores {values} hold one that is not a finite number")
    return Reading(probabilities=_softmax(values, temperature), label_mass=1.0, argmax_is_label=True)


def _softmax(values: Sequence[float], temperature: float) -> tuple[float, ...]:
    """Return shares that sum to 1; minus infinity has none.

    Raises:
        ReadError: nothing has a share.
    """
    top = max(values, default=-math.inf)
    if top == -math.inf:
        raise ReadError(f"none of {len(values)} options has any probability ({list(values)})")
    # The difference first: it is at most 0, so neither the division nor the exponential can overflow.
    weights = [math.exp((value - top) / temperature) for value in values]
    total = math.fsum(weights)
    return tuple(weight / total for weight in weights)
