"""No request is passed over without end, whatever the policy says."""

from __future__ import annotations

from collections import deque

import pytest

from radixflow.policies import Action, Policy, TraversalPolicy
from radixflow.simulate.rig import make_request


class Always(TraversalPolicy):
    """Passes everything, exhausted requests too."""

    def on_barrier(self, snapshot):
        return Action.DEFER


def always(config):
    return Policy("always", None, Always())


def starving(make_bench, tokens, **settings):
    """A head that never fits while small requests keep the pool busy."""
    bench = make_bench(f"{__file__}:always", block_size=16, num_blocks=40, settings=settings)
    bench.add("R", tokens("r", 160), max_tokens=400)
    bench.step()
    bench.add("H", tokens("h", 500))
    return bench


def test_the_barrier_returns_after_max_bypass_deferrals(make_bench, tokens):
    bench = starving(make_bench, tokens, max_bypass=3)
    passed = []
    for number in range(6):
        bench.add(f"L{number}", tokens(f"l{number}", 20))
        passed.append(any(name.startswith("L") for name in bench.step()))
    # The fourth round stops at the head; nobody behind it moves until it has run.
    assert passed[:3] == [True, True, True]
    assert not any(passed[4:])
    assert bench.totals["deferrals.allocation"] == 3
    assert bench.totals["barriers.bound"] >= 2


def test_the_barrier_returns_after_max_wait_ms(make_bench, tokens):
    bench = starving(make_bench, tokens, max_wait_ms=100)
    bench.step()
    assert bench.totals["deferrals.allocation"] == 1
    bench.clock.now += 0.1
    bench.step()
    assert bench.totals["deferrals.allocation"] == 2
    bench.clock.now += 0.001
    bench.step()
    assert bench.totals["deferrals.allocation"] == 2
    assert bench.totals["barriers.bound"] == 1


def test_the_wait_counts_from_the_first_deferral_not_from_arrival(make_bench, tokens):
    # Under load everybody is old; that alone must not bring the barriers back.
    bench = make_bench("radixflow", block_size=16, settings={"max_wait_ms": 100})
    shared = tokens("shared", 64)
    bench.add("A", shared)
    bench.add("B", [*shared, *tokens("b", 16)])
    bench.add("C", tokens("c", 64))
    bench.clock.now += 60.0
    assert bench.step() == {"A": 64, "C": 64}


def test_a_clock_that_jumps_back_restores_the_barrier(make_bench, tokens):
    bench = starving(make_bench, tokens)
    bench.step()
    bench.clock.now -= 10.0
    bench.step()
    assert bench.totals["deferrals.allocation"] == 1
    assert bench.totals["barriers.bound"] == 1


def test_deferral_counts_start_anew_once_the_request_ran(make_bench, tokens):
    bench = make_bench("radixflow", block_size=16)
    shared = tokens("shared", 64)
    bench.add("A", shared)
    bench.add("B", [*shared, *tokens("b", 16)], max_tokens=20)
    bench.step()
    entry = bench.scheduler.controller.book.entries["B"]
    assert (entry.deferrals, entry.first_deferred_at) == (1, bench.clock.now)
    bench.step()
    assert "B" not in bench.scheduler.controller.book.entries


def test_a_deferred_request_keeps_its_place(make_bench, tokens):
    bench = make_bench("radixflow", block_size=16, budget=64)
    shared = tokens("shared", 32)
    bench.add("A", shared)
    for name in ("B", "C", "D"):
        bench.add(name, [*shared, *tokens(name, 16)])
    bench.add("E", tokens("e", 32))
    bench.add("F", tokens("f", 64))
    assert bench.step() == {"A": 32, "E": 32}
    assert bench.step() == {"B": 16, "C": 16, "D": 16, "F": 16}


def test_a_deferral_records_no_prefix_statistics(make_bench, tokens, monkeypatch):
    bench = make_bench("radixflow", block_size=16, log_stats=True)
    manager = bench.scheduler.kv_cache_manager
    records = []
    monkeypatch.setattr(manager, "record_prefix_cache_stats", lambda request, hits: records.append((request, hits)))
    shared = tokens("shared", 64)
    bench.add("A", shared)
    bench.add("B", [*shared, *tokens("b", 16)])
    bench.stepper.run()
    assert bench.totals["deferrals.pending"] == 1
    assert [(request.request_id, hits) for request, hits in records] == [("A", 0), ("B", 64)]


def test_nothing_scheduled_and_nothing_running_lets_vllm_decide(make_bench, tokens):
    bench = make_bench(f"{__file__}:always", block_size=16, num_blocks=12)
    bench.add("X", tokens("x", 400))
    for _ in range(4):
        assert bench.step() == {}
    assert bench.totals["stalls"] == 2
    bench.stepper.abort("X")
    bench.add("Y", tokens("y", 16))
    assert bench.step() == {"Y": 16}


def test_deferral_counts_start_anew_after_one_chunk(make_bench, tokens):
    bench = make_bench("radixflow", block_size=16, budget=64)
    shared = tokens("shared", 32)
    bench.add("A", shared)
    bench.add("B", [*shared, *tokens("b", 400)])
    bench.step()
    assert bench.scheduler.controller.book.entries["B"].deferrals == 1
    bench.step()
    entry = bench.scheduler.controller.book.entries["B"]
    assert (entry.deferrals, entry.first_deferred_at) == (0, None)


class OnceBroken(TraversalPolicy):
    """Raises at its first question, then passes everything."""

    def __init__(self):
        self.asked = 0

    def on_barrier(self, snapshot):
        self.asked += 1
        if self.asked == 1:
            raise ValueError("once")
        return Action.DEFER


def once_broken(config):
    return Policy("once", None, OnceBroken())


def test_a_call_in_which_a_policy_failed_is_vllms_to_its_end(make_bench, tokens):
    bench = make_bench(f"{__file__}:once_broken", block_size=16)
    shared = tokens("shared", 64)
    bench.add("A", shared)
    bench.add("B", [*shared, *tokens("b", 16)])
    bench.add("C", tokens("c", 64))
    assert bench.step() == {"A": 64}
    assert bench.scheduler.controller.policy.traversal.asked == 1


def test_a_long_prompt_gives_way_max_bypass_times_and_then_goes_on(make_bench, tokens):
    """Whoever it overtook may go before it, but not a new one every round for ever."""
    bench = make_bench("planned", block_size=16, budget=64, settings={"max_bypass": 3, "wait_ms": 0})
    controller = bench.scheduler.controller
    bench.add("L", tokens("l", 640))
    bench.step()
    controller.book.entries["L"].overtook = True
    seen = []
    for number in range(6):
        name = f"W{number}"
        bench.add(name, tokens(name, 64))
        # As if it had been passed over in the round before, for a state that is there now.
        controller.traversal._due = {name: 0}
        seen.append(bench.step())
    assert [one.get("L", 0) for one in seen] == [0, 0, 0, 64, 64, 64]
    assert [set(one) for one in seen[:3]] == [{"W0"}, {"W1"}, {"W2"}]


@pytest.mark.parametrize("preset", ["radixflow", "radixflow_frag"])
def test_who_is_passed_beside_a_session_that_waits_for_input_is_queued_once(make_bench, tokens, preset):
    """vLLM keeps such a session among those it skipped: the passed have to leave there, the session has to stay."""
    bench = make_bench(preset, block_size=16)
    scheduler = bench.scheduler
    session = make_request("S", tokens("s", 10), block_size=16)
    session.resumable, session.streaming_queue = True, deque()
    scheduler.add_request(session)
    bench.step()
    assert [request.request_id for request in scheduler.skipped_waiting] == ["S"]
    shared = tokens("shared", 320)
    for name in ("A", "B", "C"):
        bench.add(name, [*shared, *tokens(name, 16)])
    bench.stepper.schedule()
    assert bench.totals["deferrals.pending"] > 0
    assert [request.request_id for request in scheduler.skipped_waiting] == ["S"]
    queued = [*scheduler.skipped_waiting, *scheduler.waiting, *scheduler.running]
    assert sorted(request.request_id for request in queued) == ["A", "B", "C", "S"]
