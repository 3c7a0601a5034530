"""Answers the questions that the edited scan asks: who is passed over in this round, and where it stops."""

from __future__ import annotations

from typing import Any

from vllm.v1.request import RequestStatus

from radixflow.config import RadixFlowConfig
from radixflow.engine.admission import CLOCK_GRAIN_S
from radixflow.engine.book import Entry, WaitingBook
from radixflow.engine.planner import Planner
from radixflow.engine.promises import Promise
from radixflow.engine.recorder import Recorder
from radixflow.policies import Action, BarrierKind, BarrierSnapshot, RoundCostLearner, RoundSnapshot, TraversalPolicy


class Traversal:
    """Deferrals of one scheduler, and the bounds that no policy can lift."""

    def __init__(
        self,
        scheduler: Any,  # noqa: ANN401
        policy: TraversalPolicy,
        config: RadixFlowConfig,
        book: WaitingBook,
        recorder: Recorder,
        planner: Planner | None,
        cost: RoundCostLearner,
        passed: list[Any],
    ) -> None:
        """Bind to a vLLM scheduler whose own ``__init__`` has run; who is passed over is put into ``passed``."""
        self.policy = policy
        self.keeps_promises = policy.keeps_promises and planner is not None
        self.deferred = 0
        """Requests passed over in this call."""
        self._scheduler = scheduler
        self._config = config
        self._book = book
        self._recorder = recorder
        self._planner = planner
        self._cost = cost
        self._passed = passed
        self._now = 0.0
        self._due: dict[str, int] = {}
        """Who was passed over in this call for want of a state, and where that lies, tokens."""
        self._open: dict[Promise, bool] = {}
        self._promised = 0
        """Requests passed over in this call for a promise."""
        self._due_before: dict[str, int] = {}
        """The same, of the call before; emptied when it is asked for."""
        self._reserved = self._room = 0
        self.least_left = -1
        """Budget left at which the scan stops once somebody was passed over; below 0: never."""

    def begin(self, now: float) -> None:
        """Start a call of ``schedule()``."""
        self._now = now
        # Once: who still can't run, for want of blocks say, gets no second round kept free.
        self._due_before, self._due = self._due, {}
        self._reserved = self._promised = 0
        self._open.clear()
        self.least_left = -1
        limit = self.policy.round_tokens(
            RoundSnapshot(now, self._scheduler.max_num_scheduled_tokens, self._scheduler.block_size, self._cost.cost)
        )
        if limit is not None:
            self.least_left = self._scheduler.max_num_scheduled_tokens - max(1, int(limit))

    def stops(self, budget_left: int) -> bool:
        """Whether the round is large enough, having passed somebody over already."""
        if not self.deferred or budget_left > self.least_left:
            return False
        self._recorder.barrier("round_tokens")
        return True

    @property
    def overtakes(self) -> bool:
        """Whether who starts now overtakes somebody who waits for a state."""
        return bool(self._due)

    def leave_room(self, request: Any, entry: Entry, start: int, tokens: int) -> int:  # noqa: ANN401
        """Return the tokens of a chunk that leave room for those whom the request overtook and who can run now.

        vLLM serves who runs first: what is left of a long prompt would go before all who wait, for rounds on end.
        Nor may those go before it for ever: it gives way in ``max_bypass`` rounds at most.
        """
        if not entry.overtook or request.status is not RequestStatus.RUNNING:
            return tokens
        if request.lora_request is not None:
            # vLLM counts a round's adapters by who has tokens in it. One that runs without any is forgotten, another
            # adapter is admitted, and the next round has one too many: an assertion that ends the engine.
            return tokens
        if self._due_before:
            due, self._due_before = self._due_before, {}
            requests = self._scheduler.requests
            ready = [(requests[name], position) for name, position in due.items() if self._is_ready(name)]
            self._reserved = sum(request.num_tokens - position for request, position in ready)
            self._room = max(0, self._scheduler.max_num_scheduled_tokens - self._reserved)
        if not self._reserved:
            return tokens
        if tokens > self._room and entry.gave_way < self._config.max_bypass:
            entry.gave_way += 1
            block = int(self._scheduler.block_size)
            tokens = max(0, (start + self._room) // block * block - start)
        self._room -= tokens
        return tokens

    def awaits_promise(self, request: Any) -> bool:  # noqa: ANN401
        """Whether a running producer is to store a state that this request needs; it is passed then."""
        assert self._planner is not None
        promises = self._planner.promises
        request_id = request.request_id
        entry = self._book.entries.get(request_id)
        if entry is None or not entry.waits or request.skip_reading_prefix_cache:
            return False
        promise = entry.promise
        if promise is None or not self._is_open(promise):
            if promise is None and entry.promises_seen == promises.version:
                return False
            waiting = request.status is RequestStatus.WAITING
            promise = entry.promise = self._planner.find_promise(request, self._is_open) if waiting else None
            if promise is None:
                if waiting:
                    entry.promises_seen = promises.version
                return False
        if entry.deferrals and self._is_bounded(entry):
            self._recorder.barrier("bound")
            return False
        if entry.first_deferred_at is None:
            entry.first_deferred_at = self._now
        entry.deferrals += 1
        self._promised += 1
        self.deferred += 1
        self._due[request_id] = promise[1]
        # Last: who is on this list goes back to the queue, so nothing may fail behind it.
        self._passed.append(request)
        return True

    def _is_open(self, promise: Promise) -> bool:
        """Whether a promise is still to be kept; asked once a call, for all who wait for it."""
        found = self._open.get(promise)
        if found is None:
            assert self._planner is not None
            found = self._open[promise] = self._planner.is_open(promise)
        return found

    def end(self) -> None:
        """Finish a call of ``schedule()``."""
        if self._promised:
            self._recorder.deferred("promise", self._promised)
            self._promised = 0

    def passes(self, request: Any, kind: BarrierKind, pending: bool) -> bool:  # noqa: ANN401
        """Ask the policy about a request that can't be scheduled, then apply the bounds."""
        request_id = request.request_id
        entry = self._book.entries.get(request_id)
        if entry is None:
            self._book.add(request, self._now, candidate=False)
            entry = self._book.entries[request_id]
        snapshot = BarrierSnapshot(
            now=self._now,
            kind=kind,
            pending=pending,
            request_id=request_id,
            deferrals=entry.deferrals,
            deferred_for_s=self._waited(entry),
            deferred_in_round=self.deferred,
        )
        if Action(self.policy.on_barrier(snapshot)) is Action.BARRIER:
            self._recorder.barrier(kind.value)
            return False
        if self._is_bounded(entry):
            self._recorder.barrier("bound")
            return False
        if pending:
            self._due[request_id] = entry.hit
        self._defer(request, entry, "pending" if pending else kind.value)
        return True

    def _is_ready(self, request_id: str) -> bool:
        """Whether a request that waited for a state waits for it no longer, and still waits."""
        entry = self._book.entries.get(request_id)
        if entry is None or not entry.waits or request_id not in self._scheduler.requests:
            return False
        return entry.promise is None or self._planner is None or not self._planner.promises.is_open(entry.promise)

    def _waited(self, entry: Entry) -> float:
        return 0.0 if entry.first_deferred_at is None else self._now - entry.first_deferred_at

    def _is_bounded(self, entry: Entry) -> bool:
        """Whether a request was passed over often or long enough. A wait below zero is a clock that jumped back."""
        if entry.deferrals >= self._config.max_bypass:
            return True
        return not 0.0 <= self._waited(entry) <= self._config.max_wait_ms / 1e3 + CLOCK_GRAIN_S

    def _defer(self, request: Any, entry: Entry, reason: str) -> None:  # noqa: ANN401
        if entry.first_deferred_at is None:
            entry.first_deferred_at = self._now
        entry.deferrals += 1
        self.deferred += 1
        self._recorder.deferred(reason)
        self._passed.append(request)
