"""Holds and releases candidates at the start of a round, and tells a learning policy what came of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from radixflow.engine.arrivals import ArrivalWatch, StampClock, Watch
from radixflow.engine.book import Entry, WaitingBook
from radixflow.engine.planner import Planner
from radixflow.engine.recorder import Recorder
from radixflow.policies import AdmissionPolicy, AdmissionSnapshot, Release, RoundCostLearner

MOST_POLLS = 2_000
"""Empty calls one hold may cost, whatever the clock says: far above 100 ms of 1 ms polls."""

_SAVES_NO_ROUND = (Release.READY, Release.TOKENS)

CLOCK_GRAIN_S = 1e-9
"""Differences of a float clock below this are rounding, not time."""


class Admission:
    """Holds of one scheduler."""

    def __init__(
        self,
        scheduler: Any,  # noqa: ANN401
        policy: AdmissionPolicy,
        wait_s: float,
        book: WaitingBook,
        recorder: Recorder,
        planner: Planner | None,
        cost: RoundCostLearner,
    ) -> None:
        """Bind to a vLLM scheduler whose own ``__init__`` has run."""
        self.policy = policy
        self.wait_s = wait_s
        self._scheduler = scheduler
        self._book = book
        self._recorder = recorder
        self._planner = planner
        self._cost = cost
        self._now = 0.0
        self._hold_started: float | None = None
        self._hold_first = 0
        self._polls = 0
        self._dependent_tokens: int | None = None
        self._stamps = StampClock()
        self.watch = (
            ArrivalWatch(
                scheduler.hash_block_size,
                scheduler.block_size if planner is None else planner.unit,
                scheduler.max_num_scheduled_tokens,
                recurrent=planner is not None,
            )
            if policy.learns
            else None
        )

    @property
    def is_timing(self) -> bool:
        """Whether a hold has begun and not ended."""
        return self._hold_started is not None

    def admit(self, now: float) -> bool:
        """Decide for this round; returns whether the candidates are held. There is at least one."""
        self._now = now
        scheduler = self._scheduler
        if scheduler.pause_state.name != "UNPAUSED":
            # vLLM admits nobody then, so nothing is held back; who waits keeps its age.
            if self.is_timing:
                self._stop_timing("paused", len(self._book.candidates))
            return False
        if scheduler.running and self.policy.holds_only_idle:
            self.end_hold(Release.RUNNING.value)
            return False
        oldest = next(iter(self._book.candidates.values()))
        age = now - oldest.added_at
        if self.watch is not None and not self.is_timing and age >= 0.0:
            # It may have waited for a round before the engine saw it: a hold counts from when it came.
            age = max(age, self._stamps.age(oldest.stamp, now))
        can_hold = age < self.wait_s
        reason: Release | None
        # An age below zero is a clock that jumped back: the bound can't be measured, so it has passed.
        if age < 0.0 or age + CLOCK_GRAIN_S >= self.wait_s or self._polls >= MOST_POLLS:
            reason = Release.DEADLINE
        else:
            verdict = self.policy.decide(self._snapshot(age))
            reason = None if verdict is None else Release(verdict)
        if reason is None:
            self._polls += 1
            if self._hold_started is None:
                self._hold_started = now
                self._hold_first = len(self._book.candidates)
            return True
        if can_hold or self.is_timing:
            self._watch_start(reason)
        self.end_hold(reason.value)
        return False

    def arrived(self, request: Any, now: float) -> None:  # noqa: ANN401
        """Note a request that vLLM has just queued."""
        if self.watch is not None:
            self._stamps.observe(request.arrival_time, now)
            self.watch.arrived(request)

    def end_hold(self, reason: str) -> None:
        """Let the candidates go; only a hold that really held someone is counted."""
        self._stop_timing(reason, self._book.release_candidates())

    def _stop_timing(self, reason: str, count: int) -> None:
        if self._hold_started is not None:
            self._recorder.released(reason, count, max(0.0, self._now - self._hold_started))
        self._hold_started = None
        self._dependent_tokens = None
        self._polls = 0

    # Learning

    def _watch_start(self, reason: Release) -> None:
        """Begin to watch the round that the candidates start, if they start one."""
        scheduler, candidates = self._scheduler, self._book.candidates
        if self.watch is None or scheduler.running or self.watch.current is not None:
            return
        requests = [scheduler.requests[name] for name in candidates]
        held = None if self._hold_started is None else max(0.0, self._now - self._hold_started)
        self.watch.begin(
            Watch(
                traffic=requests[0].num_tokens.bit_length(),
                stamp=min(request.arrival_time for request in requests),
                wait_s=self.wait_s,
                held_s=held,
                # Who is ready can't share the round with those that wait for it; who doesn't fit can't either.
                joined=0 if held is None or reason in _SAVES_NO_ROUND else len(candidates) - self._hold_first,
                dependent_tokens=self._dependent_tokens,
                names=tuple(candidates) if held is not None else (),
            )
        )

    def chunk_given(self, request: Any, cached: int) -> None:  # noqa: ANN401
        """Note a request of the watched round."""
        if self.watch is not None and self.watch.current is not None and not self.watch.current.running:
            end, is_optional = 0, False
            if self._planner is not None:
                end = self._planner.first_stored(request, cached)
                is_optional = self._planner.leaves_tail_out(request, cached)
            self.watch.started(request, end, cached, is_optional)

    def round_scheduled(self, scheduled: Mapping[str, int]) -> None:
        """Take note of what became of the watched round: it runs (tokens by request), or it came to nothing."""
        watch = self.watch.current if self.watch is not None else None
        if self.watch is None or watch is None or watch.running:
            return
        watch.running = bool(scheduled)
        if not scheduled:
            self.watch.current = None
        elif watch.joined:
            # Who was released and deferred at once shared nothing.
            passed_over = sum(name not in scheduled for name in watch.names)
            watch.joined = max(0, watch.joined - passed_over)

    def round_answered(self, seconds: float) -> None:
        """Note that the oldest round in flight took ``seconds``; an idle engine's first one is the watched one."""
        watch = self.watch.current if self.watch is not None else None
        if watch is not None and watch.running and watch.seconds is None:
            watch.seconds = seconds

    def learn(self) -> None:
        """Let the policy learn from a watched round that was answered: by now, who came meanwhile is known."""
        watch = self.watch.current if self.watch is not None else None
        if self.watch is None or watch is None or watch.seconds is None:
            return
        # Where junctions are worth a round; see PlannedJunctions.
        balance = min(self._cost.cost.balance_tokens, self._scheduler.max_num_scheduled_tokens)
        observation = self.watch.finish(self._cost.cost, lambda tokens, consumers: tokens * consumers > balance)
        if observation is not None:
            self.policy.observe(observation)

    # Snapshot

    def _snapshot(self, oldest_age_s: float) -> AdmissionSnapshot:
        scheduler, candidates = self._scheduler, self._book.candidates
        taken = len(scheduler.running) + scheduler.num_waiting_for_streaming_input
        blocked = sum(scheduler._is_blocked_waiting_status(request.status) for request in scheduler.skipped_waiting)
        queued = len(scheduler.waiting) + len(scheduler.skipped_waiting) - blocked
        return AdmissionSnapshot(
            now=self._now,
            wait_s=self.wait_s,
            oldest_age_s=oldest_age_s,
            candidates=len(candidates),
            ready=max(0, queued - len(candidates)),
            running=len(scheduler.running),
            free_rows=scheduler.max_num_running_reqs - taken,
            token_budget=scheduler.max_num_scheduled_tokens,
            residual_tokens=self._residual_tokens,
            traffic=scheduler.requests[next(iter(candidates))].num_tokens.bit_length(),
            is_dependent=self._is_dependent,
            is_complete=self._is_complete,
        )

    def _residual_tokens(self) -> int:
        """Sum the candidates' residuals, stopping once they fill a round."""
        scheduler, index = self._scheduler, self._book.index
        enough, total = scheduler.max_num_scheduled_tokens, 0
        for request_id, entry in self._book.candidates.items():
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

    def _is_complete(self) -> bool:
        """Whether every candidate belongs to a group of which nobody is missing."""
        return all(entry.group is not None and entry.group.is_complete for entry in self._book.candidates.values())

    def _is_dependent(self) -> bool:
        """Whether a candidate has to store a state for another one, known or announced, before that can run."""
        if self._planner is None:
            return False
        found = False
        for request_id, entry in self._book.candidates.items():
            if entry.is_dependent is None:
                entry.is_dependent = self._depends(self._scheduler.requests[request_id], entry)
            found = found or entry.is_dependent
        return found

    def _depends(self, request: Any, entry: Entry) -> bool:  # noqa: ANN401
        """Ask about one candidate, once: who arrives later asks for itself."""
        assert self._planner is not None
        planner = self._planner
        cached = self._cached_tokens(request, entry)
        plan = planner.positions(request, entry, cached, 0)
        anyway = planner.stored_anyway(request)
        needed = [position for position in plan if position != anyway]
        if not needed and entry.waiting_for_tail and anyway > cached:
            # Where vLLM ends a chunk anyway, peers that share it wait for it as well; that saves no tokens.
            return True
        if needed:
            self._dependent_tokens = max(self._dependent_tokens or 0, needed[0] - cached)
        return bool(needed)

    def _cached_tokens(self, request: Any, entry: Entry) -> int:  # noqa: ANN401
        """Look the request's prefix up once a hold: nothing runs meanwhile, so the answer holds."""
        if entry.cached_tokens is None:
            manager = self._scheduler.kv_cache_manager
            # With events on, a look-up may publish one; nobody should see a look-up that is only ours.
            silent = not manager.enable_kv_cache_events
            entry.cached_tokens = manager.get_computed_blocks(request)[1] if silent else 0
        return entry.cached_tokens
