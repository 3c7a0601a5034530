"""Hold only while it is known to pay, and learn that without holding."""

from __future__ import annotations

from dataclasses import dataclass

from radixflow.policies.base import AdmissionPolicy, AdmissionSnapshot, Release, StartObservation

_GAIN_STEP = 0.25
_LOSS_STEP = 0.5
_LONGEST_DISTRUST = 256
_MOST_CLASSES = 64


@dataclass(slots=True)
class _Estimate:
    """What a hold of one class of traffic is believed to gain, seconds, and how far predictions are trusted."""

    gain_s: float = 0.0
    repeats: bool = False
    """The last time that it gained, it was by tokens not computed twice, not by sharing a round."""
    seen: int = 0
    failures: int = 0
    """Times that predictions led to holds which then lost, in a row."""
    distrust: int = 0
    """Idle starts for which predictions are still not believed."""


class LearnedAdmission(AdmissionPolicy):
    """Hold an idle engine while the running estimate of a hold's gain is positive.

    After every idle start that was not held, the stamps of those who arrived meanwhile say what a hold would
    have gained; after every hold, its outcome is measured the same way. One estimate a class of traffic (the
    bit length of the prompt's tokens). Losses move it twice as fast as gains. When holds that predictions
    called for turn the estimate negative, predictions are not believed for 1, 2, 4 ... 256 idle starts, and the
    next hold that loses doubles that at once.
    """

    uses_residuals = True
    holds_only_idle = True
    learns = True

    def __init__(self) -> None:
        """Start without any expectation: nothing is held before something was seen."""
        self._estimates: dict[int, _Estimate] = {}

    def expected_gain(self, traffic: int) -> float:
        """Return the estimate of a class, seconds; 0.0 for one never seen."""
        estimate = self._estimates.get(traffic)
        return 0.0 if estimate is None or estimate.distrust else estimate.gain_s

    def decide(self, snapshot: AdmissionSnapshot) -> Release | None:
        """Release on ``running``, ``rows``, ``quiet``, ``complete``, ``ready`` or ``tokens``, cheapest first."""
        if snapshot.running > 0 or snapshot.ready > 0:
            return Release.RUNNING
        if snapshot.candidates >= snapshot.free_rows:
            return Release.ROWS
        if self.expected_gain(snapshot.traffic) <= 0.0:
            return Release.QUIET
        if snapshot.is_complete():
            return Release.COMPLETE
        if snapshot.is_dependent():
            return Release.READY
        # Nobody can join a round that is full; that a state is stored in time may still be worth waiting for.
        if not self._estimates[snapshot.traffic].repeats and snapshot.residual_tokens() >= snapshot.token_budget:
            return Release.TOKENS
        return None

    def observe(self, observation: StartObservation) -> None:
        """Move the estimate of the observation's class."""
        if observation.traffic not in self._estimates and len(self._estimates) >= _MOST_CLASSES:
            self._estimates.clear()
        estimate = self._estimates.setdefault(observation.traffic, _Estimate())
        gain = gain_of(observation)
        measured = observation.held_s is not None
        if estimate.distrust:
            estimate.distrust -= 1
        was_positive = estimate.gain_s > 0.0
        if not estimate.seen and gain <= 0.0:
            estimate.gain_s = gain
        else:
            step = _GAIN_STEP if gain > estimate.gain_s else _LOSS_STEP
            estimate.gain_s += step * (gain - estimate.gain_s)
        estimate.seen += 1
        estimate.repeats = observation.dependent_offset is not None or (estimate.repeats and gain <= 0.0)
        if not measured:
            return
        if gain > 0.0:
            estimate.failures = 0
        elif estimate.failures or (was_positive and estimate.gain_s <= 0.0):
            estimate.distrust = min(_LONGEST_DISTRUST, 1 << estimate.failures)
            estimate.failures = min(estimate.failures + 1, 16)


def gain_of(observation: StartObservation) -> float:
    """Return what a hold gained, or would have, seconds of a decision's latency.

    * Somebody depends on a state that the round stored nowhere: a round and the repeated tokens, less the time
      until the first such arrival (the producer is released then).
    * Else, somebody who could share the round, and everybody who belongs to it, arrived within the bound: a
      round, less the hold.
    * Else nothing, less the hold.
    """
    cost, held = observation.cost, observation.held_s
    if observation.dependent_offset is not None:
        waited = observation.dependent_offset if held is None else held
        return cost.fixed_s + observation.repeated_tokens * cost.per_token_s - waited
    waited = observation.wait_s if held is None else held
    saved = cost.fixed_s if observation.joined and not observation.late else 0.0
    return saved - waited
