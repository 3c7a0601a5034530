"""What a round takes, learned from the rounds that were seen: a fixed part and a part per token."""

from __future__ import annotations

from dataclasses import dataclass

PRIOR_FIXED_S = 0.04
PRIOR_PER_TOKEN_S = 20e-6
"""Believed before the first round: compute equals the fixed part at 2,000 tokens, an accelerator's usual order."""

_PRIOR_TOKENS = 2_000.0
_PRIOR_WEIGHT = 0.05
_FORGET = 0.98
_OUTLIER = 4.0


@dataclass(frozen=True, slots=True)
class RoundCost:
    """``fixed_s + per_token_s * tokens`` seconds for a round of ``tokens`` tokens."""

    fixed_s: float = PRIOR_FIXED_S
    per_token_s: float = PRIOR_PER_TOKEN_S

    @property
    def balance_tokens(self) -> float:
        """Tokens whose compute takes as long as the fixed part."""
        return self.fixed_s / self.per_token_s


class RoundCostLearner:
    """Least squares over observed rounds, older ones fading: the last 50 or so count.

    Two faint observations stand for the prior, scaled to what was seen, so that rounds of one size only leave the
    split between fixed and per token as it was believed, and move their sum.
    """

    def __init__(self) -> None:
        """Start from the prior."""
        self.cost = RoundCost()
        self.rounds = 0
        self._weight = self._x = self._xx = self._y = self._xy = 0.0

    def observe(self, tokens: int, seconds: float) -> None:
        """Take a round of ``tokens`` tokens into account; nonsense (a clock that jumped) is left out."""
        if tokens <= 0 or not 0.0 < seconds < 60.0:
            return
        expected = self.cost.fixed_s + self.cost.per_token_s * tokens
        # A compilation or a stalled machine says little about the next round.
        weight = 1.0 if seconds < _OUTLIER * expected or self.rounds < 1 else 0.1
        self.rounds += 1
        self._weight = _FORGET * self._weight + weight
        self._x = _FORGET * self._x + weight * tokens
        self._xx = _FORGET * self._xx + weight * tokens * tokens
        self._y = _FORGET * self._y + weight * seconds
        self._xy = _FORGET * self._xy + weight * tokens * seconds
        self.cost = self._fit()

    def _fit(self) -> RoundCost:
        w = _PRIOR_WEIGHT
        # On a machine ten times as fast, an unscaled prior would make all of a round fixed cost.
        scale = self._y / (PRIOR_FIXED_S * self._weight + PRIOR_PER_TOKEN_S * self._x)
        near = scale * PRIOR_FIXED_S
        far = near + scale * PRIOR_PER_TOKEN_S * _PRIOR_TOKENS
        n = self._weight + 2 * w
        x = self._x + w * _PRIOR_TOKENS
        xx = self._xx + w * _PRIOR_TOKENS**2
        y = self._y + w * (near + far)
        xy = self._xy + w * _PRIOR_TOKENS * far
        spread = n * xx - x * x
        slope = (n * xy - x * y) / spread if spread > 0 else PRIOR_PER_TOKEN_S
        slope = max(slope, 1e-8)
        return RoundCost(max((y - slope * x) / n, 1e-5), slope)
