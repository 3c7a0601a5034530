"""Faults from outside while an engine serves: clocks, disks, workers, signals, a pool that stays full for minutes."""

from __future__ import annotations

import sys

import pytest

from radixflow.policies import PRESETS, AdmissionPolicy, Policy, TraversalPolicy
from radixflow.policies.base import Action

HOLDING = ["rows", "flex", "radixflow", "radixflow_frag"]
OURS = [name for name in PRESETS if name != "native"]
CLOCKS = []
"""The clock that a sleeping policy moves on; a policy is built by name and can be handed nothing."""


class SleepingAdmission(AdmissionPolicy):
    """Takes a second to say that it would wait."""

    def decide(self, snapshot):
        CLOCKS[-1].now += 1.0


class SleepingTraversal(TraversalPolicy):
    """Takes a second to defer."""

    def on_barrier(self, snapshot):
        CLOCKS[-1].now += 1.0
        return Action.DEFER


def sleeping(config):
    return Policy("sleeping", SleepingAdmission(), SleepingTraversal())


def decisions(bench, tokens, count=4):
    for number in range(count):
        for branch in range(4):
            prompt = [*tokens(f"state {number}", 64), *tokens(f"{number}.{branch}", 20)]
            bench.add(f"{number}.{branch}", prompt)


def serve(bench, most=500):
    calls = 0
    while bench.scheduler.has_unfinished_requests():
        bench.step()
        bench.clock.now += 0.001
        calls += 1
        assert calls < most, "requests are left, and nothing moves"
    return calls


def test_a_policy_that_sleeps_costs_its_own_time_and_no_more(make_bench, tokens):
    """The bounds are on the clock, so a slow policy reaches them sooner: a hold ends at the first look after it."""
    bench = make_bench(f"{__file__}:sleeping", block_size=16, settings={"wait_ms": 5, "max_wait_ms": 1000})
    # The policy was loaded from this file under a name of its own.
    sys.modules["_radixflow_policy_test_faults"].CLOCKS.append(bench.clock)
    decisions(bench, tokens)
    assert bench.step() == {}
    assert bench.step() != {}
    serve(bench)
    assert len(bench.stepper.finished) == 16
    assert bench.totals["holds.deadline"] == 1
    bench.assert_clean()


@pytest.mark.parametrize("preset", OURS)
@pytest.mark.parametrize("jump", [-10_000.0, 10_000.0])
def test_a_clock_that_jumps_holds_and_loses_nobody(make_bench, tokens, preset, jump):
    bench = make_bench(preset, block_size=16, settings={"wait_ms": 5})
    decisions(bench, tokens, 2)
    bench.step()
    bench.clock.now += jump
    bench.add("late", tokens("late", 60))
    bench.step()
    # At the next look, at the latest, nobody is held any more.
    bench.step()
    assert not bench.scheduler.controller.holding or jump > 0
    serve(bench)
    assert len(bench.stepper.finished) == 9
    assert not [name for name in bench.totals if name.startswith("failures")]
    bench.assert_clean()


def test_a_full_disk_costs_the_trace_one_line_and_one_count(make_bench, tokens, logged):
    bench = make_bench("planned", block_size=16, settings={"trace_path": "/dev/full"})
    (sink,) = bench.scheduler.recorder.sinks
    for number in range(40):
        bench.add(f"{number}", tokens(f"{number}", 40))
        bench.step()
    serve(bench)
    bench.scheduler.shutdown()
    assert len(bench.stepper.finished) == 40
    assert sink.lost >= 1
    assert len([line for line in [*logged("WARNING"), *logged("ERROR")] if "trace" in line or "sink" in line]) == 1
    bench.assert_clean()


def test_a_sink_that_was_closed_is_dropped_with_one_line_and_one_count(make_bench, tokens, logged):
    bench = make_bench("planned", block_size=16)

    class Closed:
        def write(self, record):
            raise ValueError("I/O operation on closed file")

        def close(self):
            raise AssertionError("it is dropped, nobody closes it again")

    bench.scheduler.recorder.sinks.append(Closed())
    decisions(bench, tokens)
    serve(bench)
    assert bench.totals["failures.telemetry"] == 1
    assert len(logged("ERROR")) == 1
    bench.scheduler.shutdown()
    bench.assert_clean()


@pytest.mark.parametrize("preset", HOLDING)
def test_a_stop_during_a_hold_leaves_nothing_and_writes_the_trace(make_bench, tokens, tmp_path, preset):
    """What vLLM's engine does on SIGTERM: everybody is aborted, then the scheduler is shut down."""
    from vllm.v1.request import RequestStatus

    path = tmp_path / "rounds.jsonl"
    bench = make_bench(preset, block_size=16, settings={"wait_ms": 100, "trace_path": str(path)})
    bench.add("first", tokens("first", 48))
    bench.clock.now += 1.0
    assert bench.step() == {"first": 48}
    decisions(bench, tokens)
    assert bench.step() == {}
    assert bench.scheduler.controller.holding
    bench.scheduler.finish_requests(None, RequestStatus.FINISHED_ABORTED)
    assert bench.step() == {}
    assert bench.totals["holds.abandoned"] == 1
    bench.scheduler.shutdown()
    assert len(path.read_text().splitlines()) == 1
    bench.assert_clean()


@pytest.mark.parametrize("preset", ["stock", *PRESETS])
def test_a_pool_that_is_full_for_minutes_starts_everybody_afterwards(make_bench, tokens, preset):
    settings = {} if preset == "stock" else {"settings": {"wait_ms": 5, "max_wait_ms": 1000}}
    bench = make_bench(preset, block_size=16, num_blocks=40, **settings)
    bench.add("R", tokens("r", 420), max_tokens=150)
    bench.clock.now += 0.006
    assert "R" in bench.step()
    for name in "ABCD":
        bench.add(name, [*tokens("s", 64), *tokens(name, 200)])
    order = []
    for _ in range(149):
        # Three seconds a round: seven minutes in all.
        bench.clock.now += 3.0
        order += [name for name in bench.step() if name != "R" and name not in order]
    serve(bench)
    assert sorted(bench.stepper.finished) == ["A", "B", "C", "D", "R"]
    assert bench.stepper.finished[0] == "R"
    if preset != "stock":
        assert bench.totals.get("stalls", 0) <= 1
        assert not [name for name in bench.totals if name.startswith("failures")]
    bench.assert_clean()


@pytest.mark.parametrize("preset", ["stock", *PRESETS])
def test_a_worker_that_dies_in_a_round_leaves_a_scheduler_that_can_be_emptied(make_bench, tokens, preset):
    """Rounds that are never answered: vLLM aborts its requests and stops; nothing of ours is in the way."""
    from vllm.v1.request import RequestStatus

    bench = make_bench(preset, block_size=16)
    decisions(bench, tokens)
    bench.stepper.schedule()
    bench.scheduler.finish_requests(None, RequestStatus.FINISHED_ABORTED)
    bench.assert_clean()
    bench.scheduler.shutdown()


def test_a_new_index_after_a_panic_takes_keys_again(make_bench, tokens, logged):
    bench = make_bench("planned", block_size=16)
    decisions(bench, tokens, 2)
    with pytest.raises(RuntimeError):
        bench.scheduler.controller.book.index._panic_for_tests()
    bench.add("after", tokens("after", 40))
    bench.add("after that", tokens("after that", 40))
    assert bench.totals["failures.index"] == 1
    assert len(logged("ERROR")) == 1
    assert bench.index_size >= 1
    serve(bench)
    assert len(bench.stepper.finished) == 10
    bench.assert_clean()
