"""Where producers store states: asks the junction policy, applies its answer, and keeps the promises it makes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from vllm.v1.request import RequestStatus

from radixflow.engine.book import Entry, WaitingBook
from radixflow.engine.partial_states import PartialStates
from radixflow.engine.promises import Promise, PromiseTable, prefix_hash
from radixflow.engine.readiness import recurrent_managers
from radixflow.engine.recorder import Recorder
from radixflow.engine.stored import StoredStates
from radixflow.policies import JunctionPolicy, JunctionSnapshot, RoundCostLearner, TailPolicy, TailSnapshot

_MOST_PREFIXES = 4_096
_MOST_TAILS = 65_536
_MOST_CREDIT = 4.0
_FEW_AT_WORK = 2
_DEBT_LASTS = 64.0
_LEARNED_ROUNDS = 4
"""Rounds to see before a stop that siblings wait for is left out: what is believed of their cost is a guess before."""


class Planner:
    """Plans junctions of one scheduler. Nothing here is called where the model has no recurrent state."""

    def __init__(
        self,
        scheduler: Any,  # noqa: ANN401
        book: WaitingBook,
        policy: JunctionPolicy,
        tails: TailPolicy | None,
        cost: RoundCostLearner,
        recorder: Recorder,
        partial: PartialStates | None = None,
    ) -> None:
        """Bind to a vLLM scheduler whose own ``__init__`` has run.

        Args:
            scheduler: vLLM's.
            book: who waits.
            policy: says where states are worth a round.
            tails: says when a prompt's last state is left out.
            cost: what rounds take.
            recorder: counts.
            partial: registers states inside a block; None: states are stored at multiples of the block size only.
        """
        self._recorder = recorder
        self._partial = partial
        self._tail_policy = tails
        self._scheduler = scheduler
        self._book = book
        self._policy = policy
        self._cost = cost
        self._block = scheduler.block_size
        self._hash_block = scheduler.hash_block_size
        self.unit: int = self._block if partial is None else partial.unit
        """States are stored at multiples of it, tokens."""
        self._keeps_every_state = scheduler.kv_cache_manager.coordinator.retention_interval is None
        self._repeated: OrderedDict[Any, int] = OrderedDict()
        """Tokens computed again by hash of the prefix vLLM would have stored a state at."""
        self._owed = 0.0
        """See :meth:`_settle`, tokens."""
        self._tails: OrderedDict[Any, int] = OrderedDict()
        """Peers that were counted when a prefix's last state was left out on purpose, by hash."""
        self.promises = PromiseTable(self._hash_block, self.is_open)
        groups = [group for group, _ in recurrent_managers(scheduler.kv_cache_manager)]
        self._stored = StoredStates(scheduler, groups)

    def find_promise(self, request: Any, is_open: Callable[[Promise], bool]) -> Promise | None:  # noqa: ANN401
        """Return the open promise that offers a request most, unless the cache may hold more of it already."""
        promise = self.promises.find(request, is_open)
        return None if promise is None or self._stored.may_hit_beyond(request, promise[1]) else promise

    def is_open(self, promise: Promise) -> bool:
        """Whether a promise's producer runs and had not come as far when the last round ended."""
        producer = self._scheduler.requests.get(promise[0])
        return (
            producer is not None
            and producer.status is RequestStatus.RUNNING
            and producer.num_computed_tokens < promise[1]
        )

    def stored_anyway(self, request: Any) -> int:  # noqa: ANN401
        """Return the position where vLLM stores a state of a prompt in any case, 0 for none."""
        block = int(self._block)
        last = int(request.num_tokens) // block * block
        return max(0, last - block) if self._scheduler.use_eagle else last

    def first_stored(self, request: Any, start: int) -> int:  # noqa: ANN401
        """Return the position of the first state that vLLM stores of a prompt, alone in its rounds; 0 for none."""
        anyway, reach = self.stored_anyway(request), start + int(self._scheduler.max_num_scheduled_tokens)
        if anyway <= start or reach >= anyway:
            return anyway
        # A chunk ends on a block boundary, unless a block is more than a round.
        block = int(self._block)
        return max(reach // block, start // block + 1) * block

    def positions(self, request: Any, entry: Entry, start: int, native: int) -> tuple[int, ...]:  # noqa: ANN401
        """Ask the policy where the prefill that is left should store states.

        Args:
            request: who is about to be given a chunk.
            entry: its entry.
            start: tokens that are computed already.
            native: vLLM's own junction, 0 for none.
        """
        step = self.unit - start % self.unit
        if native <= start and request.num_tokens - start < step:
            # No boundary is left.
            entry.waiting_for_tail = 0
            return ()
        index = self._book.index
        peers: list[tuple[int, int]] = []
        if index is not None and entry.handle is not None:
            peers = index.shared_with_peers(entry.handle)
        if entry.hints is not None:
            peers = _with_announced(peers, entry)
        entry.is_branch = entry.is_branch or entry.group is not None or self._seems_branch(request, peers)
        entry.waiting_for_tail = entry.left_without = 0
        if native <= start and (not peers or peers[-1][0] - start < step):
            # Nobody shares a boundary behind the start.
            return ()
        anyway = self.stored_anyway(request)
        entry.waiting_for_tail = max((fan_out for position, fan_out in peers if position >= anyway), default=0)
        is_optional = self._is_tail_optional(request, start, entry.is_branch)
        key = prefix_hash(request, native, self._hash_block) if native > start else None
        snapshot = JunctionSnapshot(
            request_id=request.request_id,
            prompt_tokens=request.num_tokens,
            cached_tokens=start,
            native_junction=native if native > start else 0,
            block_size=self._block,
            unit=self.unit,
            is_announced=entry.hints is not None and entry.hints.shared_tokens > 0,
            peers=tuple(peers),
            stored_anyway=anyway,
            stored_tokens=min(entry.stored, start),
            is_tail_optional=is_optional,
            repeated_tokens=self._repeated.get(key, 0),
            owed_tokens=self._owed,
            unfinished=len(self._scheduler.requests),
            token_budget=self._scheduler.max_num_scheduled_tokens,
            cost=self._cost.cost,
        )
        answers = {int(position) // self.unit * self.unit for position in self._policy.plan(snapshot)}
        beyond = [position for position in answers if position > anyway]
        if beyond and anyway not in answers:
            # Who shares more starts there; only the others wait for the last whole block.
            served = max((fan_out for position, fan_out in peers if position >= min(beyond)), default=0)
            entry.waiting_for_tail = max(0, entry.waiting_for_tail - served)
        if is_optional and anyway not in answers:
            # Nobody is to wait for a state that isn't worth a round.
            entry.left_without, entry.waiting_for_tail = entry.waiting_for_tail, 0
        if self._scheduler.mamba_has_prefill_checkpoint_blocks:
            # There the last state is stored on the way.
            answers.discard(anyway)
        # A prompt that ends on a block boundary keeps its last state only where that is a junction.
        return tuple(sorted(p for p in answers if start < p < request.num_tokens or p == anyway > start))

    def _seems_branch(self, request: Any, peers: list[tuple[int, int]]) -> bool:  # noqa: ANN401
        """Whether a prompt has peers that don't just begin with the same template: they share a block with it.

        Where hardly anybody but them is at work, a quarter of the prompt will do: a stop left out then saves a whole
        round, and a prompt that is taken for a branch wrongly costs no more than the tail policy's account holds.
        """
        if not peers:
            return False
        shared = peers[-1][0]
        alone = len(self._scheduler.requests) <= _FEW_AT_WORK * (1 + max(fan for _, fan in peers))
        least: int = min(self._block, max(1, int(request.num_tokens) // 4)) if alone else self._block
        return bool(shared >= least)

    def first_chunk(self, request: Any, entry: Entry, cached: int, native: int) -> int:  # noqa: ANN401
        """Plan a request that leaves the queue, and make its promises; returns its first junction, 0 for none."""
        entry.stored = cached
        plan = self.positions(request, entry, cached, native)
        if cached > 0 or native > 0:
            entry.is_branch = True
        if not plan and native <= cached and not entry.promised and not entry.waiting_for_tail:
            # Most requests: nothing to store, nothing to promise.
            entry.plan, entry.native_junction = (), 0
            return 0
        native_state = native // self.unit * self.unit
        entry.native_junction = native if native_state in plan else 0
        if native > cached and not entry.is_counted:
            # Once, however often it is looked up before it gets its blocks.
            entry.is_counted = True
            self._count_repetition(request, entry, cached, native, native_state in plan)
        self._apply(request, entry, plan, cached)
        return self._block_stop(plan)

    def next_chunk(self, request: Any, entry: Entry) -> None:  # noqa: ANN401
        """Plan again before a later chunk: peers may have come or gone meanwhile."""
        start = request.num_computed_tokens
        passed = start // self._block * self._block if self._keeps_every_state else 0
        if start == self.stored_anyway(request):
            passed = start
        entry.stored = max([entry.stored, passed, *(position for position in entry.plan if position <= start)])
        plan = self.positions(request, entry, start, entry.native_junction)
        self._apply(request, entry, plan, start)
        # vLLM ends the chunk there; a junction behind the chunk has no effect.
        request.shared_prefix_boundary = self._block_stop(plan)

    def _block_stop(self, plan: tuple[int, ...]) -> int:
        """Return the stop that vLLM makes: it floors one inside a block, so those are made by :meth:`chunk_end`."""
        return plan[0] if plan and plan[0] % self._block == 0 else 0

    def chunk_end(self, request: Any, entry: Entry, start: int, offered: int, end: int) -> int:  # noqa: ANN401
        """Return where a chunk ends that vLLM would end at ``end``.

        A chunk that passes a planned position inside a block ends there instead. Two of vLLM's own stops can be left
        out, by a chunk that may run to the prompt's end (``start + offered``): vLLM itself lets the last chunk of a
        prompt end inside a block. They are the last block boundary, for a chunk that starts on a boundary, and the
        last unit, unless last states are to be kept.
        """
        if self._partial is not None:
            if end > start and self._is_last_unit(request, end, offered, start) and end not in entry.plan:
                end = start + offered
            inside = next((position for position in entry.plan if start < position < end), end)
            if inside < end or (end in entry.plan and end % self._block):
                self._partial.ask(request.request_id, inside)
                return inside
        if self._tail_policy is None or end != self.stored_anyway(request) or end in entry.plan:
            return end
        if start % self._block or start + offered != request.num_tokens or end == request.num_tokens:
            return end
        if not self._tail_policy.skips(self._tail_snapshot(request, entry.is_branch, entry.waiting_for_tail)):
            return end
        stop = next((position for position in entry.plan if end < position), 0)
        if stop:
            # Without its last block boundary the chunk comes by a junction behind it.
            assert self._partial is not None
            self._partial.ask(request.request_id, stop)
            return stop
        key = prefix_hash(request, end, self._hash_block)
        if key is not None:
            self._tails[key] = entry.left_without
            if len(self._tails) > _MOST_TAILS:
                self._tails.popitem(last=False)
        return start + offered

    def _is_last_unit(self, request: Any, end: int, offered: int, start: int) -> bool:  # noqa: ANN401
        """Whether vLLM stops at ``end`` only to register the last unit of a prompt.

        That saves whoever continues the prompt less than a block, and costs everybody a round.
        """
        prompt = int(request.num_prompt_tokens)
        if end % self._block == 0 or end != prompt // self.unit * self.unit or end == prompt:
            return False
        return self._tail_policy is not None and start + offered == int(request.num_tokens)

    def leaves_tail_out(self, request: Any, start: int) -> bool:  # noqa: ANN401
        """Whether a prompt would run past its last block boundary if it were known to be a branch."""
        return self._is_tail_optional(request, start, is_branch=True)

    def _is_tail_optional(self, request: Any, start: int, is_branch: bool) -> bool:  # noqa: ANN401
        # With internal checkpoints that state costs no stop, so it is there in any case, and waited for.
        return (
            self._tail_policy is not None
            and not self._scheduler.mamba_has_prefill_checkpoint_blocks
            and self._cost.rounds >= _LEARNED_ROUNDS
            and int(request.num_tokens) - start <= self._scheduler.max_num_scheduled_tokens
            and self._tail_policy.is_optional(self._tail_snapshot(request, is_branch, 0))
        )

    def _tail_snapshot(self, request: Any, is_branch: bool, waiting: int) -> TailSnapshot:  # noqa: ANN401
        return TailSnapshot(
            request_id=request.request_id,
            is_prefill_only=_is_prefill_only(request),
            is_branch=is_branch,
            waiting_for_it=waiting,
            unfinished=len(self._scheduler.requests),
            cost=self._cost.cost,
        )

    def _apply(self, request: Any, entry: Entry, plan: tuple[int, ...], start: int) -> None:  # noqa: ANN401
        """Keep the plan; every state it stores, and the one stored in any case if it is waited for, is promised."""
        promised = plan
        if entry.waiting_for_tail:
            last = self.stored_anyway(request)
            if start < last < request.num_tokens and last not in plan:
                promised = (*plan, last)
        if plan != entry.plan:
            native = entry.native_junction // self.unit * self.unit
            stored_by_vllm = (native, self.stored_anyway(request))
            self._recorder.totals["junctions"] += sum(
                position not in stored_by_vllm and position not in entry.plan for position in plan
            )
        entry.plan = plan
        if promised != entry.promised:
            entry.promised = promised
            self.promises.make(request, promised)

    def _count_repetition(self, request: Any, entry: Entry, cached: int, native: int, kept: bool) -> None:  # noqa: ANN401
        key = prefix_hash(request, native // self.unit * self.unit, self._hash_block)
        if key is None:
            return
        if key in self._tails:
            if self._tails[key] > 0:
                # A peer whose repetition was weighed when the stop was left out: no surprise, and nothing to settle.
                self._tails[key] -= 1
                return
            del self._tails[key]
            if self._tail_policy is not None:
                self._tail_policy.missed(native - cached)
        index, company = self._book.index, 1
        if index is not None and entry.handle is not None:
            peers = index.shared_with_peers(entry.handle)
            company += max((fan_out for position, fan_out in peers if position >= native), default=0)
        repeated = self._repeated.pop(key, 0)
        self._settle(native - cached, repeated > 0, kept, company)
        if not kept:
            self._repeated[key] = repeated + native - cached
            if len(self._repeated) > _MOST_PREFIXES:
                self._repeated.popitem(last=False)

    def _settle(self, tokens: int, again: bool, kept: bool, company: int) -> None:
        """Keep the account of vLLM's own junctions: what it cost or saved to leave them out.

        One left out saves a round, split among the requests at work, and those who wait for it (``company``) have
        a share each. Asked for again, its tokens are computed again, and once it is kept the round is paid after
        all. A debt is forgotten at 1/64 of a round a junction.
        """
        balance = min(self._cost.cost.balance_tokens, float(self._scheduler.max_num_scheduled_tokens))
        price = balance / max(1.0, len(self._scheduler.requests) / company)
        if again:
            self._owed += tokens + (price if kept else 0.0)
        elif not kept:
            self._owed -= price
        elif self._owed > 0.0:
            self._owed -= price / _DEBT_LASTS
        self._owed = max(self._owed, -_MOST_CREDIT * price)


def _is_prefill_only(request: Any) -> bool:  # noqa: ANN401
    """Whether one token or one pooled value is all that is asked, so that nothing continues the prompt."""
    sampling = request.sampling_params
    return (sampling is None or sampling.max_tokens == 1) and not request.resumable


def _with_announced(peers: list[tuple[int, int]], entry: Entry) -> list[tuple[int, int]]:
    """Add the peers that a client announced and that have not arrived."""
    hints, group = entry.hints, entry.group
    assert hints is not None
    shared = hints.shared_tokens
    to_come = group.to_come if group is not None else (1 if not hints.group_size else 0)
    if not shared or not to_come:
        return peers
    fan_out_at = max((fan_out for position, fan_out in peers if position >= shared), default=0)
    merged = [(position, fan_out + (to_come if position <= shared else 0)) for position, fan_out in peers]
    if all(position != shared for position, _ in peers):
        merged.append((shared, fan_out_at + to_come))
        merged.sort()
    return merged
