"""Whatever fails in RadixFlow, requests are served: one log line, one counter, vLLM decides for that round."""

from __future__ import annotations

import pytest

from radixflow.policies import AdmissionPolicy, JunctionPolicy, Policy, TraversalPolicy


class RaisingAdmission(AdmissionPolicy):
    def decide(self, snapshot):
        raise ValueError("admission is broken")


class RubbishAdmission(AdmissionPolicy):
    def decide(self, snapshot):
        return "whenever"


class RaisingTraversal(TraversalPolicy):
    def on_barrier(self, snapshot):
        raise ValueError("traversal is broken")


class RubbishTraversal(TraversalPolicy):
    def on_barrier(self, snapshot):
        return 17


class RaisingJunctions(JunctionPolicy):
    def plan(self, snapshot):
        raise ValueError("junctions are broken")


class RubbishJunctions(JunctionPolicy):
    def plan(self, snapshot):
        return "at the end"


def raising_admission(config):
    return Policy("raising", RaisingAdmission())


def rubbish_admission(config):
    return Policy("rubbish", RubbishAdmission())


def raising_traversal(config):
    return Policy("raising", None, RaisingTraversal())


def rubbish_traversal(config):
    return Policy("rubbish", None, RubbishTraversal())


def raising_junctions(config):
    return Policy("raising", None, None, RaisingJunctions())


def rubbish_junctions(config):
    return Policy("rubbish", None, None, RubbishJunctions())


def decisions(bench, tokens, count=6):
    for number in range(count):
        shared = tokens(f"state {number}", 64)
        for branch in range(4):
            bench.add(f"{number}.{branch}", [*shared, *tokens(f"{number}.{branch}", 20)])


@pytest.mark.parametrize(
    ("policy", "where"),
    [
        ("raising_admission", "admission"),
        ("rubbish_admission", "admission"),
        ("raising_traversal", "traversal"),
        ("rubbish_traversal", "traversal"),
        ("raising_junctions", "junctions"),
        ("rubbish_junctions", "junctions"),
    ],
)
def test_a_broken_policy_is_logged_once_counted_and_vllm_decides(make_bench, tokens, logged, policy, where):
    stock = make_bench("stock", block_size=16)
    ours = make_bench(f"{__file__}:{policy}", block_size=16, settings={"wait_ms": 5})
    for bench in (stock, ours):
        decisions(bench, tokens)
        bench.stepper.run()
    assert ours.stepper.rounds == stock.stepper.rounds
    assert ours.totals[f"failures.{where}"] >= 1
    assert len(logged("ERROR")) == 1
    ours.assert_clean()


def test_an_index_that_panics_is_replaced_and_nobody_is_lost(make_bench, tokens, logged):
    bench = make_bench("radixflow", block_size=16, settings={"wait_ms": 5})
    decisions(bench, tokens, 2)
    poisoned = bench.scheduler.controller.book.index
    with pytest.raises(RuntimeError):
        poisoned._panic_for_tests()
    decisions_before = len(bench.added)
    bench.add("late", tokens("late", 40))
    assert bench.scheduler.controller.book.index is not poisoned
    assert bench.totals["failures.index"] == 1
    assert len(logged("ERROR")) == 1
    bench.clock.now += 0.005
    bench.stepper.run()
    assert len(bench.stepper.finished) == decisions_before + 1
    bench.assert_clean()


def test_a_sink_that_fails_is_dropped_and_serving_goes_on(make_bench, tokens, logged):
    bench = make_bench("radixflow", settings={"ring_size": 4})

    class Broken:
        def write(self, record):
            raise OSError("disk is full")

        def close(self):
            pass

    recorder = bench.scheduler.recorder
    recorder.sinks.append(Broken())
    decisions(bench, tokens)
    bench.stepper.run()
    assert recorder.totals["failures.telemetry"] == 1
    assert len(recorder.sinks) == 1
    assert len(recorder.ring.records) > 0
    assert len(logged("ERROR")) == 1


def test_a_clock_that_raises_does_not_stop_serving(make_bench, tokens, logged):
    bench = make_bench("radixflow", block_size=16, settings={"wait_ms": 5})
    decisions(bench, tokens, 1)

    def broken():
        raise OSError("no clock")

    bench.scheduler.clock = broken
    bench.add("late", tokens("late", 40))
    bench.stepper.run()
    assert len(bench.stepper.finished) == 5


def test_a_prompt_the_index_cannot_hold_is_served_without_a_key(make_bench, tokens, logged):
    bench = make_bench("radixflow", block_size=16, settings={"wait_ms": 5})
    bench.add("A", [*tokens("a", 16), 2**32])
    bench.add("B", tokens("b", 16))
    assert bench.index_size == 1
    bench.clock.now += 0.005
    bench.stepper.run()
    assert sorted(bench.stepper.finished) == ["A", "B"]
    assert not logged("ERROR")
    bench.assert_clean()


@pytest.mark.parametrize("preset", ["native", "radixflow"])
def test_counting_that_fails_stops_nothing(make_bench, tokens, logged, preset):
    bench = make_bench(preset, block_size=16, settings={"ring_size": 4})
    bench.scheduler.recorder._record = None
    decisions(bench, tokens, 2)
    bench.stepper.run()
    assert len(bench.stepper.finished) == 8
    assert bench.totals["failures.telemetry"] >= 2
    assert len(logged("ERROR")) == 1


def test_native_survives_a_broken_clock(make_bench, tokens):
    bench = make_bench("native", block_size=16)

    def broken():
        raise OSError("no clock")

    bench.scheduler.clock = broken
    decisions(bench, tokens, 1)
    bench.stepper.run()
    assert len(bench.stepper.finished) == 4


def test_a_clock_that_fails_costs_nobody_the_index(make_bench, tokens, logged):
    bench = make_bench("radixflow", block_size=16, settings={"wait_ms": 5})
    bench.add("A", tokens("a", 48))
    index = bench.scheduler.controller.book.index
    clock = bench.scheduler.clock

    def broken():
        raise OSError("no clock")

    bench.scheduler.clock = broken
    bench.add("B", tokens("b", 48))
    bench.scheduler.clock = clock
    assert bench.scheduler.controller.book.index is index
    assert len(index) == 2
    assert bench.totals["failures.clock"] == 1
