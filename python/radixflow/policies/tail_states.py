"""Whether a branch stops at its prompt's last block boundary to store a state that nobody asked for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from radixflow.policies.round_cost import RoundCost

_MOST_CREDIT_ROUNDS = 16.0
_RECOVERY = 1 / 256


@dataclass(frozen=True, slots=True)
class TailSnapshot:
    """A request whose whole prompt that is left could be computed in one chunk, but for that stop."""

    request_id: str
    is_prefill_only: bool
    """One token or one pooled value is all that is asked: nothing will continue the prompt from its end."""
    is_branch: bool
    """It shares a prefix with others: it starts from a stored state, or has peers, or its client said so."""
    waiting_for_it: int
    """Waiting peers that share the prompt up to that boundary."""
    unfinished: int
    """Requests that wait or run."""
    cost: RoundCost


class TailPolicy(ABC):
    """Decides about the last state of a prompt, which costs a round of its own and serves whoever sends it again."""

    @abstractmethod
    def skips(self, snapshot: TailSnapshot) -> bool:
        """Return whether the stop is left out and the prompt computed to its end."""

    def is_optional(self, snapshot: TailSnapshot) -> bool:
        """Whether the stop would be left out if nobody waited for its state; asking changes nothing."""
        return False

    def missed(self, tokens: int) -> None:  # noqa: B027
        """Take note that a request had to compute ``tokens`` tokens again for want of such a state."""


class AccountedTails(TailPolicy):
    """Leave the stop out for prefill-only branches while that has paid.

    An account, in tokens: each stop left out adds what the round would have cost (split among the requests at
    work), each request that later misses the state takes away what it computes again. At zero and above, stops
    are left out; the credit is bounded, so that a change of traffic is noticed soon, and a debt is forgotten at
    1/256 of a round a branch.
    """

    def __init__(self) -> None:
        """Start balanced."""
        self.account_tokens = 0.0

    def is_optional(self, snapshot: TailSnapshot) -> bool:
        """Return whether it is a prefill-only branch and the account isn't overdrawn."""
        return snapshot.is_prefill_only and snapshot.is_branch and self.account_tokens >= 0.0

    def skips(self, snapshot: TailSnapshot) -> bool:
        """Leave the stop out if nobody waits for the state and the account isn't overdrawn."""
        if not snapshot.is_prefill_only or not snapshot.is_branch or snapshot.waiting_for_it:
            return False
        price = snapshot.cost.balance_tokens
        if self.account_tokens < 0.0:
            self.account_tokens += price * _RECOVERY
            return False
        earned = price / max(1, snapshot.unfinished)
        self.account_tokens = min(self.account_tokens + earned, _MOST_CREDIT_ROUNDS * price)
        return True

    def missed(self, tokens: int) -> None:
        """Charge a repetition."""
        self.account_tokens -= tokens
