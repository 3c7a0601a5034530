"""Random traces through vLLM's real scheduler: `native` is stock (test_stateful_life has the other presets).

A trace is arrivals with shared prefixes, salts, priorities, several output lengths, aborts and time, on pools
small enough that requests are preempted.
"""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from vllm.v1.core.sched.interface import PauseState

PRESETS = ("native", "rows", "flex", "radixflow", "radixflow_frag", "planned")
BLOCK = 16
WAIT_MS = 5
SLOW = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]

hints = st.one_of(
    st.none(),
    st.none(),
    st.fixed_dictionaries(
        {
            "radixflow_group": st.sampled_from(["g", "h", 7]),
            "radixflow_group_size": st.sampled_from([1, 3, 4096, -1]),
            "radixflow_shared_tokens": st.sampled_from([0, 16, 40, 10**9]),
        }
    ),
)
arrival = st.fixed_dictionaries(
    {
        "kind": st.just("add"),
        "state": st.integers(0, 2),
        "shared": st.integers(1, 70),
        "own": st.integers(1, 60),
        "salt": st.sampled_from([None, None, "x", "y"]),
        "priority": st.integers(0, 2),
        "max_tokens": st.sampled_from([1, 1, 4, 48]),
        "hints": hints,
    }
)
crowd = st.fixed_dictionaries({"kind": st.just("crowd"), "first": arrival, "count": st.integers(3, 10)})
event = st.one_of(
    arrival,
    arrival,
    crowd,
    st.fixed_dictionaries({"kind": st.just("step")}),
    st.fixed_dictionaries({"kind": st.just("abort"), "which": st.integers(0, 30)}),
    st.fixed_dictionaries({"kind": st.just("abort_in_flight"), "which": st.integers(0, 30)}),
    st.fixed_dictionaries({"kind": st.just("reset"), "running": st.booleans()}),
    st.fixed_dictionaries({"kind": st.just("pause"), "on": st.booleans()}),
    st.fixed_dictionaries({"kind": st.just("wait"), "ms": st.sampled_from([0.5, 1.0, 6.0])}),
)
trace = st.fixed_dictionaries(
    {
        "events": st.lists(event, min_size=1, max_size=40),
        "num_blocks": st.sampled_from([16, 24, 40, 400]),
        "budget": st.sampled_from([24, 64, 256, 2048]),
        "rows": st.sampled_from([2, 8, 64]),
        "queue": st.sampled_from(["fcfs", "priority"]),
        "reserve_full_prompt": st.booleans(),
        "family": st.sampled_from(["hybrid", "hybrid", "attention", "recurrent"]),
        "retention": st.sampled_from([None, 0]),
    }
)


def prompt(event, number):
    """The shared part comes from the state, the rest is the request's own."""
    shared = random.Random(f"state {event['state']}")
    own = random.Random(f"own {number}")
    return [shared.randrange(3, 500) for _ in range(event["shared"])] + [
        own.randrange(3, 500) for _ in range(event["own"])
    ]


class Watch:
    """Drives one bench through a trace and looks at it after every step."""

    def __init__(self, bench, wait_ms):
        self.bench = bench
        self.bound_s = wait_ms / 1e3
        self.aborted = set()
        self.alive = []
        self.short = set()
        """Requests that a planning preset keeps no key of: they have no whole block to share."""

    def look(self, scheduled=False):
        bench, scheduler = self.bench, self.bench.scheduler
        controller = getattr(scheduler, "controller", None)
        if controller is None:
            return
        book = controller.book
        assert set(book.entries) <= set(scheduler.requests)
        if book.index is not None:
            book.index.check_integrity()
            # A key for each request whose prefill has not ended, and for nobody else. Junctions need a whole block.
            prefilling = {
                name
                for name, request in scheduler.requests.items()
                if (request.status.name != "RUNNING" or request.is_prefill_chunk) and name not in self.short
            }
            indexed = {name for name, entry in book.entries.items() if entry.handle is not None}
            if controller.planner is None:
                assert indexed == prefilling
            else:
                # Who decoded beyond a block before it was preempted has one.
                assert prefilling <= indexed <= prefilling | self.short
            assert len(book.index) == len(indexed)
        for name, entry in book.entries.items():
            assert entry.deferrals <= controller.config.max_bypass, name
        # Only right after a call: until the next one nobody could have let them go.
        if scheduled and controller.holding and book.candidates:
            oldest = min(entry.added_at for entry in book.candidates.values())
            assert bench.clock.now - oldest < self.bound_s

    def step(self, abort=None):
        output = self.bench.stepper.schedule()
        self.look(scheduled=True)
        if abort is not None:
            self.abort(abort)
        self.bench.stepper.complete(output)
        self.look()

    def abort(self, which):
        unfinished = [name for name in self.alive if name in self.bench.scheduler.requests]
        if unfinished:
            name = unfinished[which % len(unfinished)]
            self.aborted.add(name)
            self.bench.stepper.abort(name)

    def add(self, name, event, own):
        self.alive.append(name)
        plans = getattr(getattr(self.bench.scheduler, "controller", None), "planner", None) is not None
        if plans and event["shared"] + event["own"] <= BLOCK:
            self.short.add(name)
        self.bench.add(
            name,
            prompt(event, own),
            salt=event["salt"],
            priority=event["priority"],
            max_tokens=event["max_tokens"],
            extra_args=event["hints"],
            arrival_time=1_000.0 + self.bench.clock.now + 1e-6 * len(self.alive),
        )

    def play(self, events):
        for number, event in enumerate(events):
            match event["kind"]:
                case "add":
                    self.add(f"r{number}", event, number)
                case "crowd":
                    # Many that decode for long: more than a small pool can hold to their end.
                    for one in range(event["count"]):
                        long = {**event["first"], "max_tokens": 48}
                        self.add(f"r{number}.{one}", long, f"{number}.{one}")
                case "step":
                    self.step()
                case "abort":
                    self.abort(event["which"])
                case "abort_in_flight":
                    self.step(event["which"])
                case "reset":
                    self.bench.scheduler.reset_prefix_cache(reset_running_requests=event["running"])
                    self.look()
                case "pause":
                    self.bench.scheduler.set_pause_state(PauseState.PAUSED_NEW if event["on"] else PauseState.UNPAUSED)
                case "wait":
                    self.bench.clock.now += event["ms"] / 1e3
        self.bench.scheduler.set_pause_state(PauseState.UNPAUSED)
        calls = 0
        while self.bench.scheduler.has_unfinished_requests():
            self.step()
            self.bench.clock.now += 0.001
            calls += 1
            assert calls < 3_000, "requests are left, and nothing moves"
        assert set(self.bench.stepper.finished) == set(self.alive) - self.aborted
        assert len(self.bench.stepper.finished) == len(set(self.bench.stepper.finished))
        self.bench.assert_clean()


def build(make_bench, preset, case, **settings):
    return make_bench(
        preset,
        family=case["family"],
        retention=case["retention"],
        block_size=BLOCK,
        num_blocks=case["num_blocks"],
        budget=case["budget"],
        max_num_seqs=case["rows"],
        queue=case["queue"],
        reserve_full_prompt=case["reserve_full_prompt"],
        settings=settings,
    )


@given(trace)
@settings(max_examples=250, deadline=None, suppress_health_check=SLOW, derandomize=True)
def test_native_equals_stock_step_by_step(make_bench, case):
    rounds, finished = [], []
    for preset in ("stock", "native"):
        watch = Watch(build(make_bench, preset, case), WAIT_MS)
        watch.play(case["events"])
        rounds.append(watch.bench.stepper.rounds)
        finished.append(watch.bench.stepper.finished)
    assert rounds[0] == rounds[1]
    assert finished[0] == finished[1]


def crowded(make_bench, tokens, preset, requests=24):
    """More requests than the pool can hold to their end: some are preempted while they decode."""
    bench = make_bench(preset, family="attention", block_size=BLOCK, num_blocks=41, settings={"wait_ms": WAIT_MS})
    for number in range(requests):
        bench.add(f"r{number}", tokens(f"r{number}", 64), max_tokens=60)
    requests = list(bench.scheduler.requests.values())
    preempted_at, stalls = {}, []
    calls = 0
    while bench.scheduler.has_unfinished_requests():
        bench.step()
        bench.clock.now += 0.006
        calls += 1
        for request in requests:
            if request.status.name == "PREEMPTED":
                preempted_at.setdefault(request.request_id, calls)
            elif request.request_id in preempted_at:
                stalls.append(calls - preempted_at.pop(request.request_id))
    bench.assert_clean()
    return bench.stepper.finished, stalls


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preempted_request_never_stands_behind_those_that_never_ran(make_bench, tokens, preset):
    stock_order, stock_stalls = crowded(make_bench, tokens, "stock")
    order, stalls = crowded(make_bench, tokens, preset)
    assert len(stock_stalls) > 5
    assert order == stock_order
    assert max(stalls) <= max(stock_stalls)


@pytest.mark.parametrize("preset", PRESETS)
def test_running_requests_come_back_first_after_a_reset(make_bench, tokens, preset):
    bench = make_bench(preset, block_size=BLOCK, max_num_seqs=3, settings={"wait_ms": WAIT_MS})
    for number in range(8):
        bench.add(f"r{number}", tokens(f"r{number}", 48), max_tokens=30)
    bench.clock.now += 0.006
    for _ in range(3):
        assert set(bench.step()) == {"r0", "r1", "r2"}
    assert bench.scheduler.reset_prefix_cache(reset_running_requests=True)
    assert set(bench.step()) == {"r0", "r1", "r2"}
