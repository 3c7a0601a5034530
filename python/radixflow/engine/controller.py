"""Runs a policy inside one scheduler: builds snapshots, asks, enforces the bounds, and fails open."""

from __future__ import annotations

import logging
from typing import Any

from radixflow.config import RadixFlowConfig
from radixflow.engine.book import Entry, WaitingBook
from radixflow.engine.readiness import is_pending, recurrent_managers
from radixflow.engine.recorder import Recorder
from radixflow.policies import (
    Action,
    AdmissionSnapshot,
    BarrierKind,
    BarrierSnapshot,
    JunctionSnapshot,
    Policy,
    Release,
)

logger = logging.getLogger("vllm.radixflow")

_MOST_POLLS = 2_000
"""Empty calls one hold may cost, whatever the clock says: far above 100 ms of 1 ms polls."""

_CLOCK_GRAIN_S = 1e-9
"""Differences of a float clock below this are rounding, not time."""


class Controller:
    """State and decisions of one scheduler. Only vLLM's queues hold requests; this holds ids."""

    def __init__(self, scheduler: Any, config: RadixFlowConfig, policy: Policy, recorder: Recorder) -> None:  # noqa: ANN401
        """Bind to a vLLM scheduler whose own ``__init__`` has run."""
        parallel = scheduler.vllm_config.parallel_config
        # There an idle engine's empty step runs a dummy forward on every rank.
        dummy_steps = parallel.data_parallel_size > 1 and scheduler.vllm_config.model_config.is_moe
        self.config = config
        self.policy = policy
        self.recorder = recorder
        self.wait_s = 0.0 if dummy_steps else config.wait_ms / 1e3
        self.admission = policy.admission if self.wait_s > 0 else None
        self.max_wait_s = config.max_wait_ms / 1e3
        reads_residuals = self.admission is not None and self.admission.uses_residuals
        self.book = WaitingBook(reads_residuals or policy.junctions is not None, self.admission is not None)
        self.holding = False
        self._scheduler = scheduler
        self._managers = recurrent_managers(scheduler.kv_cache_manager)
        self._now = 0.0
        self._hold_started: float | None = None
        self._polls = 0
        self._passed: list[Any] = []
        self._deferred = 0
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
            self.book.add(request, now, fresh)
        except Exception as error:  # noqa: BLE001
            self._fail("index", error)

    def left(self, request_id: str) -> None:
        """Note a request that is finished, aborted or failed."""
        try:
            self.book.discard(request_id)
        except Exception as error:  # noqa: BLE001
            self._fail("index", error)
        if self._hold_started is not None and not self.book.candidates:
            # Everybody who was held has left; the next hold is another one.
            self._end_hold("abandoned")

    def cache_was_reset(self) -> None:
        """Forget which prefixes were found in the cache."""
        for entry in self.book.entries.values():
            entry.cached_tokens = None

    # One call of schedule()

    def begin(self) -> bool:
        """Start a call of ``schedule()``. Returns whether the edited function is to run it."""
        self._passed.clear()
        self._deferred = 0
        self.holding = self._native_call = False
        if self._stalled:
            # Nothing was scheduled, nothing runs, and we passed something over: vLLM decides alone.
            self._stalled, self._native_call = False, True
            self.recorder.totals["stalls"] += 1
            return False
        try:
            self._now = self._scheduler.clock()
            if self.book.candidates:
                self._admit()
        except Exception as error:  # noqa: BLE001
            self._fail("admission", error)
        return not self._native_call

    def end(self, output: Any, host_ns: int) -> None:  # noqa: ANN401
        """Finish a call of ``schedule()`` that returned ``output`` after ``host_ns`` nanoseconds."""
        scheduler = self._scheduler
        try:
            if self.book.entries and output.num_scheduled_tokens:
                requests = scheduler.requests
                self.book.scheduled(output.num_scheduled_tokens, lambda name: requests[name].is_prefill_chunk)
        except Exception as error:  # noqa: BLE001
            self._fail("index", error)
        if output.total_num_scheduled_tokens == 0 and self._deferred and not scheduler.running:
            self._stalled = True
        try:
            self._return_passed()
        except Exception as error:  # noqa: BLE001
            self._fail("queues", error)
        try:
            self.recorder.round_ended(scheduler, output, scheduler.clock(), host_ns)
        except Exception as error:  # noqa: BLE001
            self._fail("telemetry", error)

    # Questions of the edited function

    def is_held(self, request: Any) -> bool:  # noqa: ANN401
        """Site ``gate``: say whether this request is kept waiting on purpose in this round."""
        if not self.holding or request.request_id not in self.book.candidates:
            return False
        self._passed.append(request)
        return True

    def passes_allocation(self, request: Any, new_computed_blocks: Any) -> bool:  # noqa: ANN401
        """Site ``allocation``: say whether the scan may pass a request that got no blocks."""
        if self.policy.traversal is None or self._native_call:
            self.recorder.barrier("allocation")
            return False
        try:
            return self._passes(request, BarrierKind.ALLOCATION, is_pending(new_computed_blocks, self._managers))
        except Exception as error:  # noqa: BLE001
            self._fail("traversal", error)
            return False

    def passes_zero(self, request: Any) -> bool:  # noqa: ANN401
        """Site ``zero``: say whether the scan may pass a request of which no token fits."""
        if self.policy.traversal is None or self._native_call:
            self.recorder.barrier("zero")
            return False
        try:
            return self._passes(request, BarrierKind.ZERO, False)
        except Exception as error:  # noqa: BLE001
            self._fail("traversal", error)
            return False

    def junction(self, request: Any, cached_tokens: int, native_junction: int) -> int:  # noqa: ANN401
        """Return where the request's prefill should store a state; at least vLLM's own position.

        Args:
            request: a waiting request that is about to be given its first tokens.
            cached_tokens: prefix tokens it starts from.
            native_junction: vLLM's ``shared_prefix_boundary``, 0 for none.
        """
        policy, index = self.policy.junctions, self.book.index
        entry = self.book.entries.get(request.request_id)
        if policy is None or index is None or entry is None or entry.handle is None or self._native_call:
            return native_junction
        try:
            block = self._scheduler.block_size
            peers = tuple(index.shared_with_peers(entry.handle))
            if not peers:
                return native_junction
            planned = policy.plan(
                JunctionSnapshot(
                    request.request_id,
                    request.num_prompt_tokens,
                    cached_tokens,
                    native_junction,
                    block,
                    peers,
                )
            )
            planned = int(planned) // block * block
            inside = cached_tokens < planned < request.num_prompt_tokens
            return max(native_junction, planned) if inside else native_junction
        except Exception as error:  # noqa: BLE001
            self._fail("junctions", error)
            return native_junction

    # Decisions

    def _admit(self) -> None:
        """Hold or release the candidates of this round."""
        scheduler = self._scheduler
        if self.admission is None:
            return
        if scheduler.pause_state.name != "UNPAUSED":
            # vLLM admits nobody then, so nothing is held back; who waits keeps its age.
            if self._hold_started is not None:
                self._stop_timing("paused", len(self.book.candidates))
            return
        oldest = next(iter(self.book.candidates.values()))
        age = self._now - oldest.added_at
        reason: Release | None
        # An age below zero is a clock that jumped back: the bound can't be measured, so it has passed.
        if age < 0.0 or age + _CLOCK_GRAIN_S >= self.wait_s or self._polls >= _MOST_POLLS:
            reason = Release.DEADLINE
        else:
            verdict = self.admission.decide(self._admission_snapshot(age))
            reason = None if verdict is None else Release(verdict)
        if reason is None:
            self.holding = True
            self._polls += 1
            if self._hold_started is None:
                self._hold_started = self._now
            return
        self._end_hold(reason.value)

    def _end_hold(self, reason: str) -> None:
        """Let the candidates go; only a hold that really held someone is counted."""
        self._stop_timing(reason, self.book.release_candidates())

    def _stop_timing(self, reason: str, count: int) -> None:
        if self._hold_started is not None:
            self.recorder.released(reason, count, max(0.0, self._now - self._hold_started))
        self._hold_started = None
        self._polls = 0

    def _return_passed(self) -> None:
        """Put who was held or deferred back at the head of ``waiting``, in order.

        The loop's skip idiom leaves them in ``skipped_waiting``, which vLLM scans first: a request that is
        preempted later, and goes to the head of ``waiting``, would stand behind all of them. A priority queue
        orders both by itself.
        """
        # Not kept past the call: between calls only vLLM's queues hold requests.
        passed, self._passed = self._passed, []
        if not passed or not self._fcfs:
            return
        self._scheduler.skipped_waiting.remove_requests(passed)
        for request in reversed(passed):
            self._scheduler.waiting.prepend_request(request)

    def _admission_snapshot(self, oldest_age_s: float) -> AdmissionSnapshot:
        scheduler = self._scheduler
        taken = len(scheduler.running) + scheduler.num_waiting_for_streaming_input
        blocked = sum(scheduler._is_blocked_waiting_status(request.status) for request in scheduler.skipped_waiting)
        queued = len(scheduler.waiting) + len(scheduler.skipped_waiting) - blocked
        return AdmissionSnapshot(
            now=self._now,
            wait_s=self.wait_s,
            oldest_age_s=oldest_age_s,
            candidates=len(self.book.candidates),
            ready=max(0, queued - len(self.book.candidates)),
            running=len(scheduler.running),
            free_rows=scheduler.max_num_running_reqs - taken,
            token_budget=scheduler.max_num_scheduled_tokens,
            residual_tokens=self._residual_tokens,
        )

    def _residual_tokens(self) -> int:
        """Sum the candidates' residuals, stopping once they fill a round."""
        scheduler, index = self._scheduler, self.book.index
        enough, total = scheduler.max_num_scheduled_tokens, 0
        for request_id, entry in self.book.candidates.items():
            request = scheduler.requests[request_id]
            tokens = request.num_tokens
            covered = self._cached_tokens(request, entry)
            if index is not None and entry.handle is not None:
                covered = max(covered, tokens - index.residual(entry.handle, scheduler.block_size))
            # A prompt that is covered whole still computes its last token.
            total += max(1, tokens - covered)
            if total >= enough:
                break
        return total

    def _cached_tokens(self, request: Any, entry: Entry) -> int:  # noqa: ANN401
        """Look the request's prefix up once a hold: nothing runs meanwhile, so the answer holds."""
        if entry.cached_tokens is None:
            manager = self._scheduler.kv_cache_manager
            # With events on, a look-up may publish one; nobody should see a look-up that is only ours.
            silent = not manager.enable_kv_cache_events
            entry.cached_tokens = manager.get_computed_blocks(request)[1] if silent else 0
        return entry.cached_tokens

    def _passes(self, request: Any, kind: BarrierKind, pending: bool) -> bool:  # noqa: ANN401
        """Ask the traversal policy, then apply the bounds that no policy can lift."""
        assert self.policy.traversal is not None
        request_id = request.request_id
        entry = self.book.entries.get(request_id)
        if entry is None:
            self.book.add(request, self._now, candidate=False)
            entry = self.book.entries[request_id]
        since = entry.first_deferred_at
        waited = 0.0 if since is None else self._now - since
        snapshot = BarrierSnapshot(
            now=self._now,
            kind=kind,
            pending=pending,
            request_id=request_id,
            deferrals=entry.deferrals,
            deferred_for_s=waited,
            deferred_in_round=self._deferred,
        )
        if Action(self.policy.traversal.on_barrier(snapshot)) is Action.BARRIER:
            self.recorder.barrier(kind.value)
            return False
        # A wait below zero is a clock that jumped back.
        if entry.deferrals >= self.config.max_bypass or not 0.0 <= waited <= self.max_wait_s + _CLOCK_GRAIN_S:
            self.recorder.barrier("bound")
            return False
        if since is None:
            entry.first_deferred_at = self._now
        entry.deferrals += 1
        self._deferred += 1
        self._passed.append(request)
        self.recorder.deferred("pending" if pending else kind.value)
        return True

    def _fail(self, where: str, error: Exception) -> None:
        """Count a failure, log its first occurrence, and let vLLM decide for the rest of this call."""
        self.recorder.failed(where)
        self._native_call = True
        self.holding = False
        if self._hold_started is not None:
            self._end_hold("failure")
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
