"""What a policy is: three objects that read a snapshot and answer one question each.

A policy is pure Python and imports no vLLM, so that it can be tested, simulated and read alone. The engine
builds each snapshot, asks, and enforces the bounds whatever the answer was:

* a policy is a pure function of the snapshot it is given (and, where it learns, of what it was told before);
  ``snapshot.now`` (seconds on the scheduler's injected clock) is the only time it may read;
* only requests that never ran may be held, and never past ``wait_s`` after the oldest was added;
* a request is deferred at most ``max_bypass`` rounds and ``max_wait_s`` seconds, then vLLM's barrier returns;
* an ``Exception`` never reaches the engine loop: it is logged once, counted, and the rest of that round is
  scheduled as vLLM does. ``SystemExit`` does: vLLM's own signal handler raises it to stop the engine.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from radixflow.policies.round_cost import RoundCost
from radixflow.policies.tail_states import TailPolicy


class Release(StrEnum):
    """Why a hold ended."""

    COMPLETE = "complete"
    ROWS = "rows"
    TOKENS = "tokens"
    RUNNING = "running"
    READY = "ready"
    QUIET = "quiet"
    """Nothing is expected of holding; only ever seen where no hold had begun."""
    DEADLINE = "deadline"


class Action(StrEnum):
    """What to do with a request that can't be scheduled in this round."""

    BARRIER = "barrier"
    """Stop the scan, as vLLM does: nothing behind the request is scheduled in this round."""
    DEFER = "defer"
    """Skip the request for this round and go on with the next one; its place in the queue is kept."""


class BarrierKind(StrEnum):
    """Which of vLLM's barriers was met."""

    ALLOCATION = "allocation"
    """``allocate_slots`` returned None."""
    ZERO = "zero"
    """No token of the request fits in what is left of this round's budget."""


@dataclass(frozen=True, slots=True)
class AdmissionSnapshot:
    """The waiting requests at the start of a round.

    Times are seconds on the scheduler's clock, rows are requests, sizes are tokens.
    """

    now: float
    wait_s: float
    """Bound of a hold, counted from when the oldest candidate was added."""
    oldest_age_s: float
    """Age of the oldest candidate."""
    candidates: int
    """Rows that may be held: they never ran and were not released before. At least 1."""
    ready: int
    """Other waiting rows that could be scheduled: released earlier, deferred, or preempted. They are never held."""
    running: int
    """Rows that run, their round in flight or not."""
    free_rows: int
    """Rows that could still be admitted."""
    token_budget: int
    """Tokens a round may hold."""
    residual_tokens: Callable[[], int] = field(repr=False)
    """Sum over the candidates of the tokens that neither the cache nor a peer ahead of them covers.

    A function because it asks the index once a candidate: call it only if the answer depends on it.
    """
    traffic: int = 0
    """The oldest candidate's class of traffic: the bit length of its number of tokens."""
    is_dependent: Callable[[], bool] = field(default=lambda: False, repr=False)
    """Whether a candidate needs a state that another one has to store first, so that they can't share a round.

    Hints count as known consumers. A function for the same reason as ``residual_tokens``.
    """
    is_complete: Callable[[], bool] = field(default=lambda: False, repr=False)
    """Whether every candidate is of a group whose size the client gave, and every member of it was seen."""


@dataclass(frozen=True, slots=True)
class StartObservation:
    """A round that an idle engine started, and who arrived before it ended. Times are seconds.

    Offsets are differences of front-end stamps (``Request.arrival_time``), never compared with the scheduler's
    clock: a stamp says when a front end saw a prompt, not when the engine could have had it.
    """

    traffic: int
    wait_s: float
    """Bound of a hold."""
    held_s: float | None
    """How long the start was held, or None if it was not."""
    joined: int
    """Requests that arrived during that hold and could share the round; without a hold: those who would have."""
    offsets: tuple[float, ...]
    """Arrivals during the round, after the stamp of the oldest request started, ascending."""
    late: int
    """Those of them that the hold's bound (or its real end) was too early for, and that seem to belong to it."""
    repeated_tokens: int
    """Tokens that an arrival has to compute again, because the round stored no state where it parts from it; for a
    held start: that it would have had to, without the hold."""
    dependent_offset: float | None
    """Offset of the first arrival that those tokens are of; None if there is none."""
    cost: RoundCost
    """What a round takes."""


@dataclass(frozen=True, slots=True)
class RoundSnapshot:
    """A round about to be filled."""

    now: float
    token_budget: int
    """Tokens it may hold."""
    block_size: int
    cost: RoundCost
    """What a round takes."""


@dataclass(frozen=True, slots=True)
class BarrierSnapshot:
    """A request that can't be scheduled now, seen from inside the scan."""

    now: float
    kind: BarrierKind
    pending: bool
    """Its recurrent state is being written in this very round (only ever true for ``allocation``)."""
    request_id: str
    deferrals: int
    """Rounds it was deferred before this one."""
    deferred_for_s: float
    """Seconds since its first deferral; 0.0 if it never was."""
    deferred_in_round: int
    """Requests deferred so far in this round."""


@dataclass(frozen=True, slots=True)
class JunctionSnapshot:
    """A request about to be given a chunk of its prefill, and where its waiting peers part from it."""

    request_id: str
    prompt_tokens: int
    cached_tokens: int
    """Tokens of its prefix that are computed already; the chunk starts there."""
    native_junction: int
    """Where vLLM itself would store a state, because the prefix was seen before; 0 for none."""
    block_size: int
    peers: tuple[tuple[int, int], ...]
    """``(position, fan_out)``, ascending: ``fan_out`` waiting peers share at least ``position`` tokens with it."""
    unit: int = 0
    """Positions are multiples of it, tokens; 0: of the block size. Below that, a stop lies inside a block."""
    is_announced: bool = False
    """Whether a client said where the branches part, so that no peer need be seen first."""
    stored_anyway: int = 0
    """The last multiple of the block size in its prompt, where vLLM stores a state; 0 for none."""
    stored_tokens: int | None = None
    """Where the last state that peers can start from lies; less than ``cached_tokens`` where chunks ended early.

    None: there."""
    is_tail_optional: bool = False
    """Whether that stop is left out if the answer doesn't name it, so that it costs a round as any other does."""
    repeated_tokens: int = 0
    """Tokens computed again so far because ``native_junction``'s state was not stored when it was asked for."""
    owed_tokens: float = 0.0
    """What leaving such junctions out has cost more than it saved, over all prefixes; below 0: it has paid."""
    unfinished: int = 1
    """Requests that wait or run, this one included: rounds that are run for them are no longer this one's alone."""
    token_budget: int = 1 << 30
    """Tokens a round may hold."""
    cost: RoundCost = field(default_factory=RoundCost)
    """What a round takes."""


class AdmissionPolicy(ABC):
    """Decides, once a round, whether waiting requests that never ran are held back.

    Contract: a pure function of the snapshot. The engine asks only while there is a candidate, the scheduler
    is not paused and the bound has not passed; it ends every hold at the bound by itself.
    """

    uses_residuals = False
    """Whether :meth:`decide` may call ``snapshot.residual_tokens``; if so the index is kept up to date."""
    holds_only_idle = False
    """Whether it releases at once where anything runs; the engine then doesn't even ask."""
    learns = False
    """Whether it wants :meth:`observe` to be called."""

    @abstractmethod
    def decide(self, snapshot: AdmissionSnapshot) -> Release | None:
        """Return why the candidates go now, or None to hold all of them for this round."""

    def observe(self, observation: StartObservation) -> None:  # noqa: B027
        """Learn from a round that an idle engine started; called once for each, when the round has ended."""


class TraversalPolicy(ABC):
    """Decides what happens when the scan meets a request that can't be scheduled.

    Contract: a pure function of the snapshot. Deferring where nothing is pending lets later requests take
    what the request waits for; the engine's bounds end that, but a policy should not count on them.
    """

    keeps_promises = False
    """Whether a request is passed, without a look-up, while a running one is to store a state it needs further on."""

    @abstractmethod
    def on_barrier(self, snapshot: BarrierSnapshot) -> Action:
        """Return whether the scan stops at this request or passes it."""

    def round_tokens(self, snapshot: RoundSnapshot) -> int | None:
        """Return where a round that has passed somebody over stops growing, tokens; None for the whole budget."""
        return None


class JunctionPolicy(ABC):
    """Decides where a producer stores recurrent states for the peers that wait behind it.

    Contract: a pure function of the snapshot. The engine asks before every chunk of a prefill that has waiting
    peers or a native junction, floors the answers to multiples of ``unit``, and ignores those outside the
    prompt that is left. What it answers replaces vLLM's own junction: to keep that one, return it too.
    """

    @abstractmethod
    def plan(self, snapshot: JunctionSnapshot) -> Sequence[int]:
        """Return the token positions to store a state at, ascending; each ends a chunk. Empty: none."""


@dataclass(frozen=True)
class Policy:
    """What the engine runs: admission, traversal, junctions. None means vLLM's own behaviour for that part.

    ``tails`` refines the junctions: without them it has no effect.

    A policy of your own is a subclass (or any class that returns one when called with the configuration)::

        class Patient(Policy):
            def __init__(self, config):
                super().__init__("patient", MyAdmission(), DeferPending())
    """

    name: str
    admission: AdmissionPolicy | None = None
    traversal: TraversalPolicy | None = None
    junctions: JunctionPolicy | None = None
    tails: TailPolicy | None = None

    @property
    def is_native(self) -> bool:
        """Whether nothing differs from vLLM, so that its own ``schedule()`` runs unedited."""
        return self.admission is None and self.traversal is None and self.junctions is None

    @property
    def needs_index(self) -> bool:
        """Whether a part of the policy asks the index about waiting peers."""
        return self.junctions is not None or (self.admission is not None and self.admission.uses_residuals)
