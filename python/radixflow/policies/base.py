"""What a policy is: three objects that read a snapshot and answer one question each.

A policy is pure Python and imports no vLLM, so that it can be tested, simulated and read alone. The engine
builds each snapshot, asks, and enforces the bounds whatever the answer was:

* a policy is a pure function of the snapshot it is given; ``snapshot.now`` (seconds on the scheduler's
  injected clock) is the only time it may read;
* only requests that never ran may be held, and never past ``wait_s`` after the oldest was added;
* a request is deferred at most ``max_bypass`` rounds and ``max_wait_s`` seconds, then vLLM's barrier returns;
* an ``Exception`` never reaches the engine loop: it is logged once, counted, and the rest of that round is
  scheduled as vLLM does. ``SystemExit`` does: vLLM's own signal handler raises it to stop the engine.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum


class Release(StrEnum):
    """Why a hold ended."""

    COMPLETE = "complete"
    ROWS = "rows"
    TOKENS = "tokens"
    RUNNING = "running"
    READY = "ready"
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
    """A request about to start its prefill, and where its waiting peers part from it."""

    request_id: str
    prompt_tokens: int
    cached_tokens: int
    """Tokens of its prefix whose state is stored already."""
    native_junction: int
    """Where vLLM itself would store a state, or 0."""
    block_size: int
    peers: tuple[tuple[int, int], ...]
    """``(position, fan_out)``, ascending: ``fan_out`` waiting peers share at least ``position`` tokens with it."""


class AdmissionPolicy(ABC):
    """Decides, once a round, whether waiting requests that never ran are held back.

    Contract: a pure function of the snapshot. The engine asks only while there is a candidate, the scheduler
    is not paused and the bound has not passed; it ends every hold at the bound by itself.
    """

    uses_residuals = False
    """Whether :meth:`decide` may call ``snapshot.residual_tokens``; if so the index is kept up to date."""

    @abstractmethod
    def decide(self, snapshot: AdmissionSnapshot) -> Release | None:
        """Return why the candidates go now, or None to hold all of them for this round."""


class TraversalPolicy(ABC):
    """Decides what happens when the scan meets a request that can't be scheduled.

    Contract: a pure function of the snapshot. Deferring where nothing is pending lets later requests take
    what the request waits for; the engine's bounds end that, but a policy should not count on them.
    """

    @abstractmethod
    def on_barrier(self, snapshot: BarrierSnapshot) -> Action:
        """Return whether the scan stops at this request or passes it."""


class JunctionPolicy(ABC):
    """Decides where a producer stores a recurrent state for the peers that wait behind it.

    Contract: a pure function of the snapshot. The engine floors the answer to a multiple of the block size,
    ignores one that lies outside the uncached prompt, and never moves vLLM's own junction nearer.
    """

    @abstractmethod
    def plan(self, snapshot: JunctionSnapshot) -> int:
        """Return the token position to store a state at, or 0 for none beyond vLLM's own."""


@dataclass(frozen=True)
class Policy:
    """The triple the engine runs. None means vLLM's own behaviour for that part.

    A policy of your own is a subclass (or any class that returns one when called with the configuration)::

        class Patient(Policy):
            def __init__(self, config):
                super().__init__("patient", MyAdmission(), DeferPending())
    """

    name: str
    admission: AdmissionPolicy | None = None
    traversal: TraversalPolicy | None = None
    junctions: JunctionPolicy | None = None

    @property
    def is_native(self) -> bool:
        """Whether nothing differs from vLLM, so that its own ``schedule()`` runs unedited."""
        return self.admission is None and self.traversal is None and self.junctions is None

    @property
    def needs_index(self) -> bool:
        """Whether a part of the policy asks the index about waiting peers."""
        return self.junctions is not None or (self.admission is not None and self.admission.uses_residuals)
