"""Runs a policy inside one scheduler: what happens when, what is asked of whom, and how it fails open."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Container
from typing import Any

from radixflow.config import RadixFlowConfig
from radixflow.engine.admission import Admission
from radixflow.engine.book import WaitingBook
from radixflow.engine.hints import read_hints
from radixflow.engine.partial_states import PartialStates
from radixflow.engine.planner import Planner
from radixflow.engine.readiness import is_pending, recurrent_managers
from radixflow.engine.recorder import Recorder
from radixflow.engine.traversal import Traversal
from radixflow.policies import BarrierKind, Policy, RoundCostLearner

logger = logging.getLogger("vllm.radixflow")

_MOST_ROUNDS_IN_FLIGHT = 16


class Controller:
    """State and decisions of one scheduler. Only vLLM's queues hold requests; this holds ids."""

    def __init__(
        self,
        scheduler: Any,  # noqa: ANN401
        config: RadixFlowConfig,
        policy: Policy,
        recorder: Recorder,
        stores_inside: bool = False,
    ) -> None:
        """Bind to a vLLM scheduler whose own ``__init__`` has run.

        Args:
            scheduler: vLLM's.
            config: the settings.
            policy: what decides.
            recorder: counts.
            stores_inside: store states inside blocks too, where the engine can start requests from them.
        """
        parallel = scheduler.vllm_config.parallel_config
        # There an idle engine's empty step runs a dummy forward on every rank.
        dummy_steps = parallel.data_parallel_size > 1 and scheduler.vllm_config.model_config.is_moe
        wait_s = 0.0 if dummy_steps else config.wait_ms / 1e3
        self.config = config
        self.policy = policy
        self.recorder = recorder
        self.cost = RoundCostLearner()
        self.holding = False
        self._scheduler = scheduler
        self._managers = recurrent_managers(scheduler.kv_cache_manager)
        # Without recurrent states every sibling can share its producer's round: nothing to plan.
        plans = policy.junctions is not None and scheduler.need_mamba_block_aligned_split
        self.partial = PartialStates(scheduler) if scheduler.mamba_partial_cache_hit else None
        inside = self.partial if plans and stores_inside and not scheduler.use_eagle else None
        unit = scheduler.block_size if inside is None else inside.unit
        self.stores_inside = inside is not None
        """Whether chunks may be ended inside a block."""
        reads_residuals = policy.admission is not None and wait_s > 0 and policy.admission.uses_residuals
        self.book = WaitingBook(
            use_index=plans or (reads_residuals and policy.junctions is None),
            track_candidates=policy.admission is not None and wait_s > 0,
            block_size=unit if policy.junctions is not None else 0,
        )
        # Only beside attention does vLLM tell where a state is missed, and without that nobody would pay for it.
        tells_missed = len(self._managers) < len(scheduler.kv_cache_manager.coordinator.single_type_managers)
        tails = policy.tails if tells_missed else None
        self.planner = (
            Planner(scheduler, self.book, policy.junctions, tails, self.cost, recorder, inside)
            if plans and policy.junctions is not None
            else None
        )
        self.admission = (
            Admission(scheduler, policy.admission, wait_s, self.book, recorder, self.planner, self.cost)
            if policy.admission is not None and wait_s > 0
            else None
        )
        self._passed: list[Any] = []
        self.traversal = (
            Traversal(scheduler, policy.traversal, config, self.book, recorder, self.planner, self.cost, self._passed)
            if policy.traversal is not None
            else None
        )
        self.promised: Container[Any] = ()
        """Hashes of promised prefixes; without any, nobody is asked at the gate."""
        if self.planner is not None and self.traversal is not None and self.traversal.keeps_promises:
            self.promised = self.planner.promises.by_hash
        self._reads_hints = policy.junctions is not None
        self.sees_chunks = self.planner is not None or (self.admission is not None and self.admission.watch is not None)
        self._now = 0.0
        self._in_flight: deque[tuple[int, float]] = deque(maxlen=_MOST_ROUNDS_IN_FLIGHT)
        self._last_answer = 0.0
        self._fcfs = scheduler.policy.name == "FCFS"
        self._native_call = False
        self._stalled = False
        self._logged: set[str] = set()

    # Life of a request

    def added(self, request: Any) -> None:  # noqa: ANN401
        """Note a request that entered vLLM's queues, or came back to them by preemption."""
        try:
            now = self._scheduler.clock()
        except Exception as error:  # noqa: BLE001
            self._fail("clock", error)
            now = self._now
        try:
            fresh = request.status.name == "WAITING" and request.num_computed_tokens == 0
            hints = None
            if self._reads_hints and (fresh or request.status.name == "WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR"):
                hints = read_hints(request)
                if hints is not None and hints.ignored:
                    self.recorder.totals["hints.ignored"] += hints.ignored
            if not fresh:
                # Preempted: what it promised is void, and promised anew when it plans anew.
                self._prefill_ended(request.request_id)
            self.book.add(request, now, fresh, hints)
        except Exception as error:  # noqa: BLE001
            self._fail("index", error)
        try:
            if self.admission is not None and fresh:
                self.admission.arrived(request, now)
        except Exception as error:  # noqa: BLE001
            self._fail("admission", error)

    def left(self, request_id: str) -> None:
        """Note a request that is finished, aborted or failed."""
        if self.partial is not None:
            self.partial.forget(request_id)
        try:
            self.book.discard(request_id)
        except Exception as error:  # noqa: BLE001
            self._fail("index", error)
        # Whatever the index says: nobody may wait for somebody who is gone.
        self._prefill_ended(request_id)
        if self.admission is not None and self.admission.is_timing and not self.book.candidates:
            # Everybody who was held has left; the next hold is another one.
            self.admission.end_hold("abandoned")

    def _prefill_ended(self, request_id: str) -> None:
        if self.planner is not None and self.planner.promises.by_producer:
            self.planner.promises.drop(request_id)

    def cache_was_reset(self) -> None:
        """Forget which prefixes were found in the cache."""
        for entry in self.book.entries.values():
            entry.cached_tokens = entry.is_dependent = None

    # One call of schedule()

    def begin(self) -> bool:
        """Start a call of ``schedule()``. Returns whether the edited function is to run it."""
        self._passed.clear()
        self.holding = self._native_call = False
        if self.partial is not None:
            self.partial.begin()
        if self.traversal is not None:
            self.traversal.deferred = 0
        if self._stalled:
            # Nothing was scheduled, nothing runs, and we passed something over: vLLM decides alone.
            self._stalled, self._native_call = False, True
            self.recorder.totals["stalls"] += 1
            return False
        try:
            self._now = self._scheduler.clock()
            if self.admission is not None:
                self.admission.learn()
                if self.book.candidates:
                    self.holding = self.admission.admit(self._now)
        except Exception as error:  # noqa: BLE001
            self._fail("admission", error)
        try:
            if self.traversal is not None:
                self.traversal.begin(self._now)
        except Exception as error:  # noqa: BLE001
            self._fail("traversal", error)
        return not self._native_call

    def end(self, output: Any, host_ns: int) -> None:  # noqa: ANN401
        """Finish a call of ``schedule()`` that returned ``output`` after ``host_ns`` nanoseconds."""
        scheduler = self._scheduler
        tokens = output.total_num_scheduled_tokens
        try:
            if self.book.entries and output.num_scheduled_tokens:
                requests = scheduler.requests
                self.book.scheduled(
                    output.num_scheduled_tokens, lambda name: requests[name].is_prefill_chunk, self._prefill_ended
                )
        except Exception as error:  # noqa: BLE001
            self._fail("index", error)
        try:
            if self.admission is not None:
                self.admission.round_scheduled(output.num_scheduled_tokens)
        except Exception as error:  # noqa: BLE001
            self._fail("admission", error)
        if tokens == 0 and self.traversal is not None and self.traversal.deferred and not scheduler.running:
            self._stalled = True
        try:
            if self.traversal is not None:
                self.traversal.end()
            self._return_passed()
        except Exception as error:  # noqa: BLE001
            self._fail("queues", error)
        try:
            now = scheduler.clock()
            self._in_flight.append((tokens, now))
            self.recorder.round_ended(scheduler, output, now, host_ns)
        except Exception as error:  # noqa: BLE001
            self._fail("telemetry", error)

    def answered(self) -> None:
        """Take note that the oldest round in flight is about to be answered: what it took, who came meanwhile."""
        try:
            now = self._scheduler.clock()
            if self._in_flight:
                tokens, scheduled_at = self._in_flight.popleft()
                if tokens:
                    # Rounds in flight together run one after the other.
                    took = now - max(scheduled_at, self._last_answer)
                    self.cost.observe(tokens, took)
                    if self.admission is not None:
                        self.admission.round_answered(took)
            self._last_answer = now
        except Exception as error:  # noqa: BLE001
            self._fail("learning", error)

    # Questions of the edited function

    def stops(self, budget_left: int) -> bool:
        """Before the gate: say whether the scan ends here, as the round is large enough."""
        traversal = self.traversal
        if traversal is None or not traversal.deferred or budget_left > traversal.least_left:
            return False
        return not self._native_call and traversal.stops(budget_left)

    def is_passed(self, request: Any) -> bool:  # noqa: ANN401
        """Site ``gate``: say whether this request is kept waiting in this round, before any look-up."""
        if self.holding and request.request_id in self.book.candidates:
            self._passed.append(request)
            return True
        traversal = self.traversal
        if traversal is None or not self.promised or self._native_call:
            return False
        try:
            return traversal.awaits_promise(request)
        except Exception as error:  # noqa: BLE001
            self._fail("traversal", error)
            return False

    def passes_allocation(self, request: Any, new_computed_blocks: Any) -> bool:  # noqa: ANN401
        """Site ``allocation``: say whether the scan may pass a request that got no blocks."""
        if self.traversal is None or self._native_call:
            self.recorder.barrier("allocation")
            return False
        try:
            pending = is_pending(new_computed_blocks, self._managers)
            if self.partial is not None:
                pending = pending or self.partial.is_refused(request.request_id)
            return self.traversal.passes(request, BarrierKind.ALLOCATION, pending)
        except Exception as error:  # noqa: BLE001
            self._fail("traversal", error)
            return False

    def passes_zero(self, request: Any) -> bool:  # noqa: ANN401
        """Site ``zero``: say whether the scan may pass a request of which no token fits."""
        if self.traversal is None or self._native_call:
            self.recorder.barrier("zero")
            return False
        try:
            return self.traversal.passes(request, BarrierKind.ZERO, False)
        except Exception as error:  # noqa: BLE001
            self._fail("traversal", error)
            return False

    # Chunks

    def first_chunk(self, request: Any, cached_tokens: int, native_junction: int) -> int:  # noqa: ANN401
        """Return where a request's prefill should store a state first, 0 for nowhere.

        Args:
            request: a waiting request that is about to be given its first tokens.
            cached_tokens: prefix tokens it starts from.
            native_junction: vLLM's ``shared_prefix_boundary``, 0 for none.
        """
        if self._native_call:
            return native_junction
        try:
            if cached_tokens or native_junction:
                self.book.wake()
            if self.admission is not None:
                self.admission.chunk_given(request, cached_tokens)
            entry = self.book.entries.get(request.request_id)
            if self.planner is None or entry is None:
                return native_junction
            entry.hit = cached_tokens
            entry.overtook = self.traversal is not None and self.traversal.overtakes
            return self.planner.first_chunk(request, entry, cached_tokens, native_junction)
        except Exception as error:  # noqa: BLE001
            self._fail("junctions", error)
            return native_junction

    def next_chunk(self, request: Any) -> None:  # noqa: ANN401
        """Plan again before a later chunk of a prefill."""
        if self.planner is None or self._native_call:
            return
        entry = self.book.entries.get(request.request_id)
        if entry is None or entry.waits:
            return
        try:
            self.planner.next_chunk(request, entry)
        except Exception as error:  # noqa: BLE001
            self._fail("junctions", error)

    def chunk_tokens(self, request: Any, start: int, offered: int, tokens: int) -> int:  # noqa: ANN401
        """Return the tokens of a chunk to which vLLM would give ``tokens`` of ``offered``, from ``start`` on."""
        entry = self.book.entries.get(request.request_id)
        if self.planner is None or self._native_call or entry is None or tokens <= 0:
            return tokens
        try:
            tokens = self.planner.chunk_end(request, entry, start, offered, start + tokens) - start
            return tokens if self.traversal is None else self.traversal.leave_room(request, entry, start, tokens)
        except Exception as error:  # noqa: BLE001
            self._fail("junctions", error)
            return tokens

    # Order and failures

    def _return_passed(self) -> None:
        """Put who was held or deferred back at the head of ``waiting``, in order.

        The loop's skip idiom leaves them in ``skipped_waiting``, which vLLM scans first: a request that is
        preempted later, and goes to the head of ``waiting``, would stand behind all of them. A priority queue
        orders both by itself.
        """
        # Not kept past the call: between calls only vLLM's queues hold requests.
        passed = self._passed[:]
        self._passed.clear()
        if not passed or not self._fcfs:
            return
        waiting, skipped = self._scheduler.waiting, self._scheduler.skipped_waiting
        if len(skipped) == len(passed):
            # Nobody else was skipped.
            skipped.clear()
        else:
            skipped.remove_requests(passed)
        waiting.extendleft(reversed(passed))

    def _fail(self, where: str, error: Exception) -> None:
        """Count a failure, log its first occurrence, and let vLLM decide for the rest of this call."""
        self.recorder.failed(where)
        self._native_call = True
        self.holding = False
        if self.admission is not None and self.admission.is_timing:
            self.admission.end_hold("failure")
        if where == "index" and self.book.index is not None:
            self.book.replace_index()
        if where not in self._logged:
            self._logged.add(where)
            logger.error(
                "radixflow: %s failed, this round is scheduled as vLLM does (further failures of this kind are "
                "counted, not logged): %r",
                where,
                error,
                exc_info=error,
            )
