"""Whole lives of requests on vLLM's real scheduler, looked at after every step.

A :class:`Life` is one scheduler, a worker that remembers what it computed, and a clock. Things happen to it one at a
time (arrivals, rounds, answers, aborts, resets, pauses, input that streams in); every one is written down, so that the
same life can be lived again. After each, :meth:`Life.look` compares the scheduler with what must be true of it.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from oracle import expected_answer
from vllm.lora.request import LoRARequest
from vllm.pooling_params import PoolingParams
from vllm.sampling_params import SamplingParams
from vllm.utils.hashing import sha256
from vllm.v1.core.kv_cache_utils import get_request_block_hasher
from vllm.v1.core.sched.interface import PauseState
from vllm.v1.core.sched.scheduler import Scheduler as VllmScheduler
from vllm.v1.request import Request, RequestStatus

import radixflow
from radixflow.simulate.rig import END_TOKEN, build_scheduler, vllm_config
from radixflow.simulate.state_worker import StateFault, StateWorker

BLOCK = 16
MAX_BYPASS = 4
MAX_WAIT_S = 0.2
WAIT_S = 0.005
LONGEST_SESSION = 64
"""Tokens of a session whose input streams in."""
GUARDED = ("rows", "flex", "radixflow", "radixflow_frag", "planned")
"""Presets that take back what a preempted request won't compute; vLLM doesn't, under the priority policy."""


@dataclass(frozen=True)
class Shape:
    """The engine of one life. Sizes are tokens, but for ``num_blocks`` and ``rows``."""

    num_blocks: int
    budget: int
    rows: int
    chunk: int
    queue: str
    reserve_full_prompt: bool
    family: str
    retention: int | None
    in_flight: int
    """Rounds unanswered at a time; above 1 the engine is asynchronous."""
    adapters: int
    """LoRA adapters a round may mix; 0: no limit."""

    @property
    def streams(self) -> bool:
        """Whether sessions stream input in.

        Only where there is room, as one that waits for input keeps its blocks, and in synchronous engines: with two
        rounds in flight vLLM's own class leaves such a session in no queue, or answers a piece twice.
        """
        return self.num_blocks >= 24 and self.in_flight == 1

    @property
    def longest(self) -> int:
        """Return the longest request, prompt and answer, that fits the pool beside a session."""
        kept = LONGEST_SESSION // BLOCK + 4 if self.streams else 0
        return (self.num_blocks - 3 - self.in_flight - kept) * BLOCK - 20


def a_shape(seed: int) -> Shape:
    """Draw an engine evenly; mostly tight ones, as there things go wrong."""
    source = random.Random(f"shape {seed}")
    return Shape(
        num_blocks=source.choice([10, 11, 12, 13, 14, 16, 24, 40, 400]),
        budget=source.choice([24, 32, 64, 64, 128, 128, 2048]),
        rows=source.choice([2, 8, 8, 64]),
        chunk=source.choice([0, 16, 16, 32]),
        queue=source.choice(["fcfs", "priority", "priority"]),
        reserve_full_prompt=source.random() < 0.3,
        family=source.choice(["hybrid", "hybrid", "hybrid", "attention", "recurrent"]),
        retention=source.choice([None, 0]),
        in_flight=source.choice([1, 1, 2, 3]),
        adapters=source.choice([0, 0, 1]),
    )


class Clock:
    """Seconds that pass only when told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Isolated(StateWorker):
    """Also fails when a request reads what another tenant or adapter wrote."""

    namespaces: dict[str, tuple[str | None, str | None]]

    def forward(self, row: Any, count: int, written: dict[tuple[int, int], str]) -> int:
        """Look at who wrote what is about to be read, then read it."""
        own = self.namespaces[row.request_id]
        for group, size, columns in (
            *((group, size, range(-(-row.computed // size))) for group, size in self._attention.items()),
            *((g, size, range(row.computed + count - 1, row.computed + count)) for g, size in self._recurrent.items()),
        ):
            for column in columns:
                block = row.blocks[group][column if group in self._attention else column // size]
                found = self.memory.read(group, block, 0)
                if found is not None and row.computed and self.namespaces[found.writer] != own:
                    why = f"{found.writer!r} belongs to {self.namespaces[found.writer]}"
                    raise StateFault(row.request_id, group, block, row.computed, found, why)
        return super().forward(row, count, written)


def _tokens(name: str, length: int) -> list[int]:
    source = random.Random(name)
    return [source.randrange(3, 500) for _ in range(length)]


@dataclass
class Sent:
    """What a client knows of a request."""

    chunks: list[list[int]]
    max_tokens: list[int]
    pooling: bool
    namespace: tuple[str | None, str | None]
    streams: bool
    closed: bool = False
    aborted: bool = False

    @property
    def tokens(self) -> int:
        """Return what it may come to hold, prompt and answers."""
        return sum(map(len, self.chunks)) + sum(self.max_tokens)


class Life:
    """One scheduler and everything that happened to it."""

    def __init__(self, preset: str, shape: Shape, wait_ms: float = WAIT_S * 1e3) -> None:
        self.preset, self.shape, self.wait_ms = preset, shape, wait_ms
        self.log: list[tuple[Any, ...]] = []
        self.sent: dict[str, Sent] = {}
        self.calls = 0
        self.passed: Counter[str] = Counter()
        """By request: deferrals in a row, counted at the questions themselves."""
        self._flying: list[Any] = []
        self._looked = 0
        self.clock = Clock()
        # Where vLLM goes wrong by itself (#57580) there is nothing to hold it to.
        queue = shape.queue if preset in GUARDED else "fcfs"
        settings = {
            "policy": preset,
            "wait_ms": wait_ms,
            "max_bypass": MAX_BYPASS,
            "max_wait_ms": MAX_WAIT_S * 1e3,
        }
        config = vllm_config(
            block_size=BLOCK,
            num_blocks=shape.num_blocks,
            budget=shape.budget,
            max_num_seqs=shape.rows,
            queue=queue,
            reserve_full_prompt=shape.reserve_full_prompt,
            async_scheduling=shape.in_flight > 1,
            settings=None if preset == "stock" else settings,
        )
        base = VllmScheduler if preset == "stock" else radixflow.Scheduler
        if preset == "stock" and shape.in_flight > 1:
            from vllm.v1.core.sched.async_scheduler import AsyncScheduler

            base = AsyncScheduler
        self.scheduler = build_scheduler(base, config, shape.family, retention=shape.retention)
        self.scheduler.scheduler_config.long_prefill_token_threshold = shape.chunk
        if shape.adapters:
            self.scheduler.lora_config = SimpleNamespace(max_loras=shape.adapters)
        self.scheduler.clock = self.clock
        self.worker = Isolated(self.scheduler)
        self.worker.namespaces = {}
        self.controller = getattr(self.scheduler, "controller", None)
        self._adapters = {name: LoRARequest(name, number, "/nowhere") for number, name in enumerate("ab", 1)}
        self._hasher = get_request_block_hasher(BLOCK, sha256)
        if self.controller is not None:
            self._count_deferrals()

    def _count_deferrals(self) -> None:
        for question in ("gate", "allocation", "zero"):
            name = f"_radixflow_{question}"
            real = getattr(self.scheduler, name)

            def asked(request: Any, *more: Any, real: Any = real) -> bool:
                answer = bool(real(request, *more))
                held = self.controller.holding and request.request_id in self.controller.book.candidates
                if answer and not held:
                    self.passed[request.request_id] += 1
                return answer

            setattr(self.scheduler, name, asked)

    # What may happen

    def do(self, what: str, *arguments: Any) -> None:
        """Let something happen, and write it down."""
        self.log.append((what, *arguments))
        getattr(self, f"_{what}")(*arguments)
        self.look()

    def again(self) -> Life:
        """Live the same life once more."""
        other = Life(self.preset, self.shape, self.wait_ms)
        for what, *arguments in self.log:
            other.do(what, *arguments)
        return other

    def alive(self) -> list[str]:
        """Return the requests that vLLM knows, in order of arrival."""
        return [name for name in self.sent if name in self.scheduler.requests]

    def _add(self, seed: int) -> None:
        self._arrive(seed, None)

    def _crowd(self, seed: int, count: int, long: bool) -> None:
        """Several siblings at once; long answers fill a small pool until requests are preempted."""
        for number in range(count):
            self._arrive(seed, number, 48 if long else None)

    def _arrive(self, seed: int, sibling: int | None, max_tokens: int | None = None) -> None:
        source = random.Random(f"request {seed}")
        own_source = source if sibling is None else random.Random(f"request {seed} {sibling}")
        name = f"r{len(self.sent)}"
        state = source.randrange(3)
        # A tree three levels deep: states, their children, and what is a request's own.
        prompt = _tokens(f"state {state}", source.choice([1, 16, 23, 32, 48, 64, 80]))
        if source.random() < 0.4:
            prompt += _tokens(f"child {state} {source.randrange(2)}", source.choice([16, 20, 40]))
        own = own_source.choice([0, 1, 8, 20, 40, 60])
        prompt += _tokens(f"own {name}", own)
        answer = max_tokens or source.choice([1, 1, 1, 4, 20])
        streams = sibling is None and self.shape.streams and source.random() < 0.2 and not self._open_session()
        longest = LONGEST_SESSION // 2 if streams else self.shape.longest - answer
        sent = Sent(
            chunks=[prompt[: max(1, longest)]],
            max_tokens=[min(answer, 4) if streams else answer],
            pooling=not streams and answer == 1 and source.random() < 0.3,
            namespace=(source.choice([None, None, None, "x", "y"]), source.choice([None, None, None, "a", "b"])),
            streams=streams,
        )
        hints = _hints(source)
        self.sent[name] = sent
        self.worker.namespaces[name] = sent.namespace
        self.scheduler.add_request(self._request(name, sent, 0, hints, source.randrange(3), resumable=streams))

    def _request(
        self, name: str, sent: Sent, chunk: int, hints: Any, priority: int = 0, resumable: bool = False
    ) -> Request:
        sampling = pooling = None
        if sent.pooling:
            pooling = PoolingParams(task="embed", extra_kwargs=hints)
        else:
            sampling = SamplingParams(
                max_tokens=sent.max_tokens[chunk], temperature=0.0, ignore_eos=True, extra_args=hints
            )
            sampling.update_from_generation_config({}, eos_token_id=END_TOKEN)
        salt, adapter = sent.namespace
        return Request(
            request_id=name,
            prompt_token_ids=list(sent.chunks[chunk]),
            sampling_params=sampling,
            pooling_params=pooling,
            cache_salt=salt,
            lora_request=self._adapters[adapter] if adapter else None,
            priority=priority,
            arrival_time=self.clock.now + 1e-6 * len(self.log),
            block_hasher=self._hasher,
            resumable=resumable,
        )

    def _stream(self, length: int) -> None:
        """Send the next piece of an open session, or close it (``length`` 0)."""
        name = self._open_session()
        if name is None or self.sent[name].closed:
            return
        sent = self.sent[name]
        room = LONGEST_SESSION - sent.tokens - 4
        if length and room > 1:
            sent.chunks.append(_tokens(f"{name} {len(sent.chunks)}", min(length, room)))
            # vLLM keeps the limit of the first piece.
            sent.max_tokens.append(sent.max_tokens[0])
            self.scheduler.add_request(self._request(name, sent, len(sent.chunks) - 1, None, resumable=True))
        elif not length:
            self._close(name)

    def _open_session(self) -> str | None:
        """Return the session that is alive; there is one at a time."""
        return next((name for name in self.alive() if self.sent[name].streams), None)

    def _close(self, name: str) -> None:
        sent = self.sent[name]
        sent.closed = True
        last = Sent([[5]], [1], False, sent.namespace, True)
        self.scheduler.add_request(self._request(name, last, 0, None))

    def _schedule(self, count: int) -> None:
        for _ in range(count):
            output = self.worker.schedule()
            self.calls += 1
            for name in output.num_scheduled_tokens:
                self.passed.pop(name, None)
            self._flying.append(output)
            self.look(scheduled=True)
            if len(self._flying) >= self.shape.in_flight:
                self._answer()
                self.look()
            self.clock.now += 0.001

    def _answer(self) -> None:
        if self._flying:
            self.worker.complete(self._flying.pop(0))

    def _abort(self, which: int) -> None:
        alive = self.alive()
        if alive:
            name = alive[which % len(alive)]
            self.sent[name].aborted = True
            self.worker.abort(name)

    def _abort_in_flight(self, which: int) -> None:
        """Abort between a round's decision and its answer."""
        self._flying.append(self.worker.schedule())
        self.calls += 1
        for name in self._flying[-1].num_scheduled_tokens:
            self.passed.pop(name, None)
        self._abort(which)
        self.look()
        while len(self._flying) >= self.shape.in_flight:
            self._answer()

    def _reset(self, running: bool) -> None:
        # A session that waits for input keeps its blocks, and vLLM gives up loudly then.
        session = self._open_session()
        idle = session is not None and self.scheduler.requests[session].status.name != "RUNNING"
        self.scheduler.reset_prefix_cache(reset_running_requests=running and not idle)

    def _pause(self, state: str) -> None:
        self.scheduler.set_pause_state(PauseState[state])

    def _wait(self, seconds: float) -> None:
        self.clock.now += seconds

    def _land(self) -> None:
        while self._flying:
            self._answer()

    # How it ends

    def finish(self) -> None:
        """Let everybody end, and compare every answer."""
        self.do("pause", "UNPAUSED")
        for name in self.alive():
            if self.sent[name].streams and not self.sent[name].closed:
                self._close(name)
        since, ended = self.calls, -1
        while self.scheduler.has_unfinished_requests():
            self._schedule(1)
            assert self.calls - since < 1_000, "requests are left, and nothing moves"
            if len(self.worker.finished) != ended:
                ended, since = len(self.worker.finished), self.calls
                preempted = self._preemptions()
            elif self.calls - since >= 200 and self._thrashes(preempted):
                self._abort(-1)
                since = self.calls
        self._land()
        self.look()
        self.check_answers()
        self.check_clean()

    def _preemptions(self) -> int:
        return sum(request.num_preemptions for request in self.scheduler.requests.values())

    def _thrashes(self, before: int) -> bool:
        """Whether requests of equal priority take each other's blocks for ever: vLLM's own class does the same."""
        return self.shape.queue == "priority" and self._preemptions() > before + 20

    def stop(self) -> None:
        """End as a server that is told to stop does: everybody is aborted, whoever is held too."""
        for name in self.alive():
            self.sent[name].aborted = True
        self.scheduler.finish_requests(None, RequestStatus.FINISHED_ABORTED)
        self._land()
        self.look()
        self.check_answers()
        self._schedule(1)
        self._land()
        self.check_clean()
        self.scheduler.shutdown()

    def check_answers(self) -> None:
        """Everybody who was not aborted was answered once, rightly; who was has got a right beginning."""
        finished = Counter(self.worker.finished)
        for name, sent in self.sent.items():
            got = self.worker.answers.get(name, [])
            right = expected_answer(self.shape.family, sent.chunks, sent.max_tokens, sent.pooling)
            if name in self.scheduler.requests:
                continue
            assert finished[name] <= 1 or sent.streams, f"{name} ended {finished[name]} times"
            if sent.aborted or sent.closed:
                # A session ends when it is closed, though it may have been asked for more.
                assert got == right[: len(got)], name
            else:
                assert finished[name] == 1, f"{name} never ended"
                assert got == right, name

    def check_clean(self) -> None:
        """Nothing is left of anybody."""
        scheduler = self.scheduler
        assert not scheduler.requests
        assert scheduler.get_num_unfinished_requests() == 0
        pool = scheduler.kv_cache_manager.block_pool
        assert pool.get_num_free_blocks() == pool.num_gpu_blocks - 1
        if self.controller is not None:
            book = self.controller.book
            assert not book.entries
            assert not book.candidates
            assert len(book.groups) == 0
            assert book.index is None or len(book.index) == 0
            planner = self.controller.planner
            assert planner is None or len(planner.promises) == 0

    # What must be true at any time

    def look(self, scheduled: bool = False) -> None:
        """Compare the scheduler with what must be true of it."""
        self._looked += 1
        self._look_at_queues()
        self._look_at_blocks()
        if self.controller is not None:
            self._look_at_bounds(scheduled)
            self._look_at_index(peers=self._looked % 16 == 0)
            recorder = self.scheduler.recorder
            failed = [name for name in recorder.totals if name.startswith("failures")]
            assert not failed, f"{failed} failed"

    def _look_at_queues(self) -> None:
        """Every request is in exactly one queue, and nobody else is."""
        scheduler = self.scheduler
        queued = [r.request_id for q in (scheduler.running, scheduler.waiting, scheduler.skipped_waiting) for r in q]
        assert len(queued) == len(set(queued)), "a request is queued twice"
        assert set(queued) == set(scheduler.requests), "a request is in no queue"
        gone = {name for name in self.sent if name not in scheduler.requests}
        ended = set(self.worker.finished)
        for name in gone - ended:
            assert self.sent[name].aborted or self.sent[name].closed, f"{name} was lost"

    def _look_at_blocks(self) -> None:
        """Who holds a block is counted in it, and what nobody holds is free."""
        scheduler = self.scheduler
        pool = scheduler.kv_cache_manager.block_pool
        held = Counter(
            block.block_id
            for manager in scheduler.kv_cache_manager.coordinator.single_type_managers
            for blocks in manager.req_to_blocks.values()
            for block in blocks
            if not block.is_null
        )
        held.update(block.block_id for _, blocks in scheduler.deferred_frees for block in blocks if not block.is_null)
        counted = {block.block_id: block.ref_cnt for block in pool.blocks if block.ref_cnt and not block.is_null}
        assert counted == dict(held), "blocks are held by nobody, or not counted"
        assert pool.get_num_free_blocks() == pool.num_gpu_blocks - 1 - len(held), "blocks leaked"

    def _look_at_bounds(self, scheduled: bool) -> None:
        controller = self.controller
        for name, entry in controller.book.entries.items():
            assert entry.deferrals <= MAX_BYPASS, f"{name} was deferred {entry.deferrals} times"
            assert self.passed[name] <= MAX_BYPASS, f"{name} was passed over {self.passed[name]} times in a row"
            if scheduled and entry.first_deferred_at is not None and controller.traversal.deferred:
                last = self.clock.now - entry.first_deferred_at
                assert last <= MAX_WAIT_S + 1e-6 or not self._was_passed(name), f"{name} was passed over for {last} s"
        # Right after a call: until the next one nobody could have let them go.
        if scheduled and controller.holding and controller.book.candidates:
            oldest = min(entry.added_at for entry in controller.book.candidates.values())
            assert self.clock.now - oldest < self.wait_ms / 1e3, "a hold lasts beyond its bound"

    def _was_passed(self, name: str) -> bool:
        return name in self.controller.traversal._due

    def _look_at_index(self, peers: bool) -> None:
        """A key for each request whose prefill has not ended, for nobody else, and the peers that share it."""
        scheduler, book = self.scheduler, self.controller.book
        assert set(book.entries) <= set(scheduler.requests), "an entry outlived its request"
        if book.index is None:
            return
        keyed = {name: entry for name, entry in book.entries.items() if entry.handle is not None}
        assert len(book.index) == len(keyed), "a key has no entry"
        for name, request in scheduler.requests.items():
            prefills = request.status.name != "RUNNING" or request.is_prefill_chunk
            short = self.controller.planner is not None and request.num_prompt_tokens <= BLOCK
            if request.resumable:
                assert name not in keyed, f"{name} streams, its prompt isn't known yet"
            elif prefills and not short and not book.asleep:
                assert name in keyed, f"{name} prefills and has no key"
            elif not prefills:
                assert name not in keyed, f"{name} prefills no more and has a key"
        if peers:
            book.index.check_integrity()
            for name, entry in keyed.items():
                found = book.index.shared_with_peers(entry.handle)
                assert found == self._peers(name, keyed), f"{name} has other peers"

    def _peers(self, name: str, keyed: dict[str, Any]) -> list[tuple[int, int]]:
        own, space = self._key(name), self.sent[name].namespace
        shared = Counter[int]()
        for other, entry in keyed.items():
            if other != name and entry.waits and self.sent[other].namespace == space:
                length = 0
                for a, b in zip(own, self._key(other), strict=False):
                    if a != b:
                        break
                    length += 1
                if length:
                    shared[length] += 1
        return [(at, sum(count for more, count in shared.items() if more >= at)) for at in sorted(shared)]

    def _key(self, name: str) -> list[int]:
        """Return the tokens of a key: those known when it was made."""
        handle = self.controller.book.entries[name].handle
        length = self.controller.book.index.key_length(handle)
        return self.scheduler.requests[name]._all_token_ids[:length]


_ROUGH: tuple[Any, ...] = (-1, 0, 10**9, "4", None, [1], {"a": 1}, float("nan"), float("inf"), True, "x" * 10_000)


def _hints(source: random.Random) -> dict[str, Any] | None:
    """Draw hints: none, right ones, or something a client should not send."""
    kind = source.random()
    if kind < 0.6:
        return None
    if kind < 0.8:
        return {
            "radixflow_group": source.choice(["g", "h", 7]),
            "radixflow_group_size": source.choice([1, 3, 4]),
            "radixflow_shared_tokens": source.choice([16, 40, 64]),
        }
    keys = ("radixflow_group", "radixflow_group_size", "radixflow_shared_tokens")
    return {key: source.choice(_ROUGH) for key in keys if source.random() < 0.8}
