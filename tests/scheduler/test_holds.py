"""Admission holds: who is held, until when, and what ends them."""

from __future__ import annotations

import pytest

from radixflow.policies import AdmissionPolicy, Policy, Release

HOLDING = ["rows", "flex", "radixflow", "radixflow_frag"]


@pytest.mark.parametrize("preset", HOLDING)
def test_a_lone_request_is_held_until_the_bound_and_not_longer(make_bench, tokens, preset):
    bench = make_bench(preset, settings={"wait_ms": 5, "ring_size": 4})
    bench.add("A", tokens("a", 48))
    for _ in range(5):
        assert bench.step() == {}
        bench.clock.now += 0.001
    assert bench.step() == {"A": 48}
    record = bench.scheduler.recorder.ring.records[-1]
    assert (record.release, record.held, record.empty_steps) == ("deadline", 1, 5)
    assert record.hold_ms == pytest.approx(5.0)
    bench.assert_clean()


@pytest.mark.parametrize("preset", HOLDING)
def test_the_bound_counts_from_the_oldest_held_request(make_bench, tokens, preset):
    bench = make_bench(preset, settings={"wait_ms": 5})
    bench.add("A", tokens("a", 48))
    bench.step()
    bench.clock.now += 0.004
    bench.add("B", tokens("b", 48))
    assert bench.step() == {}
    bench.clock.now += 0.001
    assert bench.step() == {"A": 48, "B": 48}
    assert bench.totals["holds.deadline"] == 1


@pytest.mark.parametrize("preset", HOLDING)
def test_siblings_within_the_bound_share_one_round(make_bench, tokens, preset):
    bench = make_bench(preset, block_size=64, settings={"wait_ms": 5})
    for name in "ABCD":
        bench.add(name, tokens("state", 20) + tokens(name, 20))
        assert bench.step() == {}
        bench.clock.now += 0.001
    bench.clock.now += 0.001
    assert set(bench.step()) == set("ABCD")
    bench.assert_clean()


@pytest.mark.parametrize("preset", HOLDING)
def test_zero_wait_is_no_hold(make_bench, tokens, preset):
    bench = make_bench(preset, settings={"wait_ms": 0})
    bench.add("A", tokens("a", 48))
    assert bench.step() == {"A": 48}


@pytest.mark.parametrize("preset", HOLDING)
def test_rows_that_fill_the_engine_are_released(make_bench, tokens, preset):
    bench = make_bench(preset, max_num_seqs=2, settings={"wait_ms": 5})
    bench.add("A", tokens("a", 48))
    assert bench.step() == {}
    bench.add("B", tokens("b", 48))
    assert bench.step() == {"A": 48, "B": 48}
    assert bench.totals["holds.rows"] == 1


@pytest.mark.parametrize(("preset", "newcomer_waits"), [("rows", True), ("flex", False), ("radixflow", False)])
def test_beside_running_work_only_rows_holds(make_bench, tokens, preset, newcomer_waits):
    bench = make_bench(preset, settings={"wait_ms": 5})
    bench.add("R", tokens("r", 48), max_tokens=100)
    bench.clock.now += 0.005
    bench.step()
    bench.add("A", tokens("a", 48))
    assert ("A" in bench.step()) is not newcomer_waits
    bench.clock.now += 0.005
    bench.step()
    assert any("A" in scheduled for scheduled in bench.stepper.rounds)
    bench.stepper.run()
    bench.assert_clean()


def test_residual_tokens_that_fill_a_round_are_released(make_bench, tokens):
    bench = make_bench("flex", block_size=16, budget=256, settings={"wait_ms": 5})
    bench.add("A", tokens("a", 160))
    assert bench.step() == {}
    bench.add("B", tokens("b", 96))
    assert bench.step() != {}
    assert bench.totals["holds.tokens"] == 1


def test_a_shared_prefix_fills_a_round_only_once(make_bench, tokens):
    bench = make_bench("flex", block_size=16, budget=256, settings={"wait_ms": 5})
    shared = tokens("state", 160)
    bench.add("A", shared)
    # 160 + 16 + 16 residual tokens, although the prompts hold 512.
    bench.add("B", [*shared, *tokens("b", 16)])
    bench.add("C", [*shared, *tokens("c", 16)])
    assert bench.step() == {}
    bench.add("D", tokens("d", 64))
    assert bench.step() != {}


def test_a_cached_prefix_fills_no_round(make_bench, tokens):
    bench = make_bench("flex", block_size=16, budget=256, settings={"wait_ms": 5})
    shared = tokens("state", 160)
    bench.add("A", shared)
    bench.clock.now += 0.005
    bench.stepper.run()
    bench.add("B", [*shared, *tokens("b", 16)])
    bench.add("C", [*shared, *tokens("c", 80)])
    assert bench.step() == {}


@pytest.mark.parametrize("preset", HOLDING)
def test_a_request_that_ran_is_never_held(make_bench, tokens, preset):
    # A is preempted by a cache reset: it comes back at once, hold or no hold.
    bench = make_bench(preset, settings={"wait_ms": 5})
    bench.add("A", tokens("a", 48), max_tokens=50)
    bench.clock.now += 0.005
    bench.step()
    assert bench.scheduler.reset_prefix_cache(reset_running_requests=True)
    assert "A" in bench.step()


@pytest.mark.parametrize("preset", HOLDING)
def test_a_clock_that_jumps_back_ends_the_hold(make_bench, tokens, preset):
    bench = make_bench(preset, settings={"wait_ms": 5})
    bench.add("A", tokens("a", 48))
    assert bench.step() == {}
    bench.clock.now -= 3600.0
    assert bench.step() == {"A": 48}


@pytest.mark.parametrize("preset", HOLDING)
def test_a_clock_that_stands_still_ends_the_hold_after_bounded_polls(make_bench, tokens, preset):
    bench = make_bench(preset, settings={"wait_ms": 5})
    bench.add("A", tokens("a", 48))
    polls = 0
    while not bench.step():
        polls += 1
        assert polls <= 2_000
    assert bench.totals["holds.deadline"] == 1


@pytest.mark.parametrize("preset", HOLDING)
def test_a_pause_holds_nobody_and_loses_nobody(make_bench, tokens, preset):
    from vllm.v1.core.sched.interface import PauseState

    bench = make_bench(preset, settings={"wait_ms": 5})
    bench.add("A", tokens("a", 48))
    bench.scheduler.set_pause_state(PauseState.PAUSED_NEW)
    assert bench.step() == {}
    assert not bench.scheduler.controller.holding
    bench.clock.now += 1.0
    bench.scheduler.set_pause_state(PauseState.UNPAUSED)
    assert bench.step() == {"A": 48}


class Greedy(AdmissionPolicy):
    """Would hold for ever."""

    def decide(self, snapshot):
        return None


class Eager(AdmissionPolicy):
    """Never holds, and says so in plain text."""

    def decide(self, snapshot):
        return "rows"


def greedy(config):
    return Policy("greedy", Greedy())


def eager(config):
    return Policy("eager", Eager())


def test_no_policy_can_hold_past_the_bound(make_bench, tokens):
    bench = make_bench(f"{__file__}:greedy", settings={"wait_ms": 5})
    bench.add("A", tokens("a", 48))
    assert bench.step() == {}
    bench.clock.now += 0.005
    assert bench.step() == {"A": 48}
    assert bench.totals["holds.deadline"] == 1


def test_a_release_without_a_hold_is_not_counted(make_bench, tokens):
    bench = make_bench(f"{__file__}:eager", settings={"wait_ms": 5, "ring_size": 1})
    bench.add("A", tokens("a", 48))
    assert bench.step() == {"A": 48}
    assert bench.scheduler.recorder.ring.records[-1].release is None
    assert Release.ROWS == "rows"


def test_a_data_parallel_moe_engine_is_never_held(make_bench, tokens, monkeypatch):
    from vllm.config import ModelConfig

    import radixflow
    from radixflow.simulate.rig import build_scheduler, vllm_config

    monkeypatch.setattr(ModelConfig, "is_moe", property(lambda self: True))
    config = vllm_config(settings={"policy": "radixflow", "wait_ms": 5})
    config.parallel_config.data_parallel_size = 2
    assert build_scheduler(radixflow.Scheduler, config).controller.admission is None


def test_a_pause_ends_the_time_of_a_hold_and_not_the_wait(make_bench, tokens):
    from vllm.v1.core.sched.interface import PauseState

    bench = make_bench("flex", settings={"wait_ms": 5, "ring_size": 4})
    bench.add("A", tokens("a", 48))
    bench.step()
    bench.clock.now += 0.002
    bench.scheduler.set_pause_state(PauseState.PAUSED_NEW)
    bench.step()
    bench.clock.now += 30.0
    bench.scheduler.set_pause_state(PauseState.UNPAUSED)
    assert bench.step() == {"A": 48}
    assert bench.totals["holds.paused"] == 1
    assert bench.scheduler.recorder.ring.records[-1].hold_ms == pytest.approx(2.0)


def test_an_abandoned_holds_time_is_not_the_next_ones(make_bench, tokens):
    bench = make_bench("flex", settings={"wait_ms": 5, "ring_size": 4})
    bench.add("A", tokens("a", 48))
    bench.step()
    bench.clock.now += 1.0
    bench.stepper.abort("A")
    bench.add("B", tokens("b", 48))
    bench.step()
    bench.clock.now += 0.005
    bench.step()
    assert bench.scheduler.recorder.ring.records[-1].hold_ms == pytest.approx(5.0)


@pytest.mark.parametrize("reads_cache", [True, False])
def test_a_request_that_reads_no_cache_fills_a_round_whole(make_bench, tokens, reads_cache):
    from radixflow.simulate.rig import make_request

    bench = make_bench("flex", block_size=16, budget=256, settings={"wait_ms": 5})
    for name, expected_hold in (("A", True), ("B", reads_cache)):
        request = make_request(name, tokens("shared", 160) + tokens(name, 16), block_size=16)
        request.skip_reading_prefix_cache = not reads_cache
        bench.scheduler.add_request(request)
        # A leaves room in the round; B adds 16 tokens to it, or all of its 176.
        assert (bench.step() == {}) is expected_hold
    assert bench.totals.get("holds.tokens", 0) == (0 if reads_cache else 1)


def test_without_a_hold_nobody_pays_for_the_index(make_bench, tokens):
    bench = make_bench("radixflow", settings={"wait_ms": 0})
    bench.add("A", tokens("a", 48))
    assert bench.scheduler.controller.book.index is None


def test_a_reset_cache_covers_nothing_any_more(make_bench, tokens):
    bench = make_bench("flex", block_size=16, budget=256, settings={"wait_ms": 5})
    bench.add("A", tokens("state", 304))
    bench.clock.now += 0.005
    bench.stepper.run()
    bench.add("B", [*tokens("state", 304), *tokens("b", 16)])
    assert bench.step() == {}
    assert bench.scheduler.reset_prefix_cache()
    assert bench.step() != {}
    assert bench.totals["holds.tokens"] == 1


@pytest.mark.parametrize(("preset", "newcomer_waits"), [("rows", True), ("flex", False)])
def test_a_newcomer_joins_the_round_of_who_was_released_before(make_bench, tokens, preset, newcomer_waits):
    # X is too large for this round beside R; the round it waits for is one the newcomer should join.
    bench = make_bench(preset, block_size=16, num_blocks=40, settings={"wait_ms": 5})
    bench.add("X", tokens("x", 2000))
    bench.clock.now += 0.005
    bench.step()
    bench.add("N", tokens("n", 48))
    bench.step()
    assert bench.scheduler.controller.holding is newcomer_waits


def test_free_rows_are_those_not_taken_by_running_requests(make_bench, tokens):
    bench = make_bench("rows", max_num_seqs=3, settings={"wait_ms": 5})
    bench.add("R", tokens("r", 48), max_tokens=50)
    bench.clock.now += 0.005
    bench.step()
    bench.add("A", tokens("a", 48))
    bench.add("B", tokens("b", 48))
    assert {"A", "B"} <= set(bench.step())
