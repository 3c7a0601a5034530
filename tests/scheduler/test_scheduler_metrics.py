"""What a known burst counts, on vLLM's real scheduler, as Prometheus shows it."""

from __future__ import annotations

import itertools
from pathlib import Path
from types import SimpleNamespace

import pytest
from prometheus_client import REGISTRY

import radixflow.engine
from radixflow.engine.scheduler import data_parallel_rank
from radixflow.engine.stock import CountingScheduler
from radixflow.simulate.rig import build_scheduler, make_request, vllm_config
from radixflow.simulate.stepper import Stepper
from radixflow.telemetry import prometheus
from radixflow.telemetry.prometheus import COUNTERS

_RANKS = itertools.count(5000)


@pytest.fixture
def counted(monkeypatch):
    """Return a function that reads a bench's samples, those that are 0 left out; its schedulers have their own rank."""
    opened = prometheus.open_series
    rank = str(next(_RANKS))
    monkeypatch.setattr("radixflow.engine.recorder.open_series", lambda engine, *rest: opened(rank, *rest))

    def read(bench):
        bench.scheduler.recorder.close()
        found = {}
        for family in REGISTRY.collect():
            for sample in family.samples:
                labels = dict(sample.labels)
                if labels.pop("engine", None) == rank and sample.value and not sample.name.endswith("_created"):
                    found[(sample.name.removeprefix("radixflow_"), *labels.values())] = sample.value
        return found

    return read


def burst(bench, tokens, decisions, shared, own):
    for number in range(decisions):
        state = tokens(f"state {number}", shared)
        for branch in range(4):
            bench.add(f"{number}.{branch}", [*state, *tokens(f"{number}.{branch}", own)])


def without_times(found):
    return {key: count for key, count in found.items() if not key[0].startswith(("schedule_seconds", "hold_seconds"))}


@pytest.mark.parametrize("preset", ["native", "rows", "radixflow", "planned"])
def test_a_burst_of_three_short_decisions(make_bench, tokens, counted, preset):
    bench = make_bench(preset, block_size=16)
    burst(bench, tokens, decisions=3, shared=40, own=20)
    bench.stepper.run()
    # Of each decision two branches come late enough to find the state at 32: 3 * 2 * 32.
    expected = {
        "native": {("rounds_total",): 5, ("saved_tokens_total",): 192},
        "rows": {("rounds_total",): 5, ("saved_tokens_total",): 192, ("barriers_total", "allocation"): 3},
        "radixflow": {("rounds_total",): 3, ("saved_tokens_total",): 192, ("deferrals_total", "pending"): 6},
        # Computing 32 tokens twice is cheaper than a second round: nothing is saved, and that is right.
        "planned": {("rounds_total",): 1},
    }
    found = counted(bench)
    assert without_times(found) == expected[preset]
    assert found["schedule_seconds_count",] == found["rounds_total",]
    assert found["schedule_seconds_sum",] > 0
    bench.assert_clean()


def test_a_burst_of_two_long_decisions_plans_a_junction_each(make_bench, tokens, counted):
    bench = make_bench("planned", block_size=64, budget=8_192, num_blocks=1_000)
    burst(bench, tokens, decisions=2, shared=1_024, own=100)
    bench.stepper.run()
    found = without_times(counted(bench))
    assert found["junctions_planned_total",] == 2
    # Three siblings of each start from the state at 1024.
    assert found["saved_tokens_total",] == 2 * 3 * 1_024
    assert found["deferrals_total", "promise"] + found.get(("deferrals_total", "pending"), 0) >= 6
    assert not [key for key in found if key[0] in ("failures_total", "fallbacks_total", "stalls_total")]


def test_a_junction_that_vllm_finds_itself_is_not_counted(make_bench, tokens, counted):
    bench = make_bench("planned", block_size=64, budget=8_192, num_blocks=1_000)
    for number in range(6):
        # One after the other: nobody waits, so there is nothing to plan for.
        bench.add(str(number), [*tokens("state", 1_024), *tokens(f"own {number}", 100)])
        bench.stepper.run()
    assert ("junctions_planned_total",) not in counted(bench)


def test_a_hold_by_the_clock(make_bench, tokens, counted):
    bench = make_bench("radixflow", settings={"wait_ms": 5})
    bench.add("A", tokens("a", 48))
    for _ in range(5):
        assert bench.step() == {}
        bench.clock.now += 0.001
    assert bench.step() == {"A": 48}
    found = counted(bench)
    assert without_times(found) == {("rounds_total",): 1, ("empty_steps_total",): 5, ("holds_total", "deadline"): 1}
    assert found["hold_seconds_count",] == 1
    assert found["hold_seconds_sum",] == pytest.approx(0.005)
    assert found["hold_seconds_bucket", "0.006"] == 1
    assert ("hold_seconds_bucket", "0.004") not in found


def test_failures_and_fallbacks(make_bench, tokens, counted):
    bench = make_bench("radixflow", block_size=16, settings={"wait_ms": 5})
    with pytest.raises(RuntimeError):
        bench.scheduler.controller.book.index._panic_for_tests()
    bench.add("A", tokens("a", 40))
    bench.clock.now += 0.005
    bench.stepper.run()
    found = without_times(counted(bench))
    assert found == {("rounds_total",): 2, ("failures_total", "index"): 1, ("fallbacks_total",): 1}


def test_the_stock_arm_counts_rounds_and_nothing_else(tokens, counted):
    scheduler = build_scheduler(CountingScheduler, vllm_config(block_size=16), "hybrid", log_stats=False)
    for name in "AB":
        scheduler.add_request(make_request(name, [*tokens("s", 40), *tokens(name, 20)], block_size=16))
    Stepper(scheduler).run()
    found = counted(SimpleNamespace(scheduler=scheduler))
    assert set(without_times(found)) <= {("rounds_total",), ("saved_tokens_total",)}


def test_schedulers_in_one_process_don_t_meet(make_bench, tokens):
    for _ in range(3):
        bench = make_bench("planned", block_size=16)
        burst(bench, tokens, decisions=1, shared=40, own=20)
        bench.stepper.run()
        assert "failures.telemetry" not in bench.totals


def test_the_rank_is_the_label():
    parallel = SimpleNamespace(data_parallel_index=3, data_parallel_rank=0)
    assert data_parallel_rank(SimpleNamespace(parallel_config=parallel)) == 3
    assert data_parallel_rank(SimpleNamespace(parallel_config=SimpleNamespace())) == 0


def test_every_total_that_has_a_series_is_one_the_engine_counts():
    """A total that was renamed would leave its series at 0 for good."""
    text = "\n".join(path.read_text() for path in Path(radixflow.engine.__file__).parent.glob("*.py"))
    for counted in COUNTERS:
        assert f'totals["{counted.total}"]' in text or f'totals[f"{counted.total}.' in text, counted.total
