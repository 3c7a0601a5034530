"""What `planned` must show, on vLLM's real scheduler under a virtual clock: the counts are exact."""

from __future__ import annotations

from dataclasses import replace

import pytest
from vllm.v1.core.sched.scheduler import Scheduler as VllmScheduler

import radixflow
from radixflow.simulate.cells import Cell, all_cells
from radixflow.simulate.table import worse_than


def cell(name: str, block: int, **changes) -> Cell:
    (found,) = [one for one in all_cells([block]) if one.name == name]
    return replace(found, **changes)


def run(one: Cell, hints: bool = False, **settings):
    return one.run(radixflow.Scheduler, {"policy": "planned", **settings}, hints)


def bound(one: Cell) -> int:
    return one.lower_bound(one.make_decisions())


@pytest.mark.parametrize("block", [64, 528])
def test_long_single_decisions_compute_hardly_more_than_the_bound(block):
    long = cell("long C1", block)
    outcome = run(long)
    assert outcome.tokens <= 1.05 * bound(long)
    assert len(outcome.rounds) <= 96
    assert outcome.mean_ms <= 260
    assert worse_than(outcome, long.run(VllmScheduler)) == []


def test_without_skipped_tails_a_long_decision_takes_three_rounds():
    long = cell("long C1", 528)
    outcome = run(long, tail_states="keep")
    # One decision is the lesson: its first branch ran before its siblings were known.
    assert len(outcome.rounds) == 3 * long.decisions + 1
    assert outcome.tokens <= 1.05 * bound(long)


@pytest.mark.parametrize("block", [32, 64, 528])
def test_short_single_decisions_are_held_once_it_is_known_to_pay(block):
    assert run(cell("short C1", block)).mean_ms <= 66


def test_a_burst_is_answered_in_waves_by_default_and_in_two_rounds_for_throughput():
    burst = cell("burst 32", 528)
    default, throughput = run(burst), run(burst, round_tokens="budget")
    assert default.mean_ms <= 740
    assert default.per_second >= 26
    assert len(throughput.rounds) == 2
    assert throughput.per_second >= 36


def test_wide_decisions_are_cut_into_waves():
    wide = cell("wide 16", 528)
    default, throughput = run(wide), run(wide, round_tokens="budget")
    assert default.mean_ms <= 1_400
    assert default.per_second >= 6.8
    assert throughput.per_second >= 8.5


def test_an_explicit_round_size_is_kept_once_somebody_was_deferred():
    burst = cell("burst 16", 528)
    outcome = run(burst, round_tokens=1_500)
    # A producer of 528 tokens and its deferred siblings: the third producer crosses the limit.
    assert sum(outcome.rounds[0].values()) == 3 * 528


@pytest.mark.parametrize("gap_s", [0.002, 0.004])
def test_siblings_past_the_bound_are_not_waited_for(gap_s):
    late = cell("short C1, 2 ms apart", 528, gap_s=gap_s)
    stock, outcome = late.run(VllmScheduler), run(late)
    assert outcome.mean_ms <= 1.005 * stock.mean_ms
    assert outcome.empty_steps == 0


@pytest.mark.parametrize("block", [64, 528])
def test_a_lone_stream_pays_nothing_from_the_first_request_on(block):
    lone = cell("lone", block)
    stock, outcome = lone.run(VllmScheduler), run(lone)
    assert abs(outcome.mean_ms - stock.mean_ms) <= 0.1
    assert abs(outcome.p99_ms - stock.p99_ms) <= 0.1
    assert outcome.latencies == stock.latencies


def test_long_decisions_side_by_side():
    long = cell("long C8", 64)
    assert run(long).tokens <= 1.25 * bound(long)
    assert run(long, hints=True).tokens <= 1.05 * bound(long)


def test_nested_sharing_stores_the_state_and_each_question_once():
    nested = cell("nested 64 x 4", 64, decisions=1)
    assert run(nested).tokens <= 1.10 * bound(nested)


@pytest.mark.parametrize("concurrency", [1, 8, 32])
def test_full_attention_is_never_worse(concurrency):
    dense = cell(f"attention long C{concurrency}", 528)
    stock, outcome = dense.run(VllmScheduler), run(dense)
    assert worse_than(outcome, stock) == []
    assert len(outcome.rounds) <= len(stock.rounds)


@pytest.mark.parametrize("block", [64, 528])
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("name", ["short C1", "short C8", "short C32", "long C8", "burst 16"])
def test_other_draws_are_not_worse_either(name, block, seed):
    drawn = cell(name, block, seed=seed)
    assert worse_than(run(drawn), drawn.run(VllmScheduler)) == []


@pytest.mark.parametrize("budget", [512, 2_048])
@pytest.mark.parametrize("block", [64, 528])
@pytest.mark.parametrize("name", ["short C8", "long C1", "long C8"])
def test_small_budgets_are_not_worse_either(name, block, budget):
    # 512 tokens a round are less than a block of 528.
    small = cell(name, block, budget=budget, decisions=16)
    assert worse_than(run(small), small.run(VllmScheduler)) == []


@pytest.mark.parametrize("block", [64, 528])
@pytest.mark.parametrize("changes", [{"match_unit": 16}, {"checkpoint_blocks": 1}])
@pytest.mark.parametrize("name", ["short C1", "short C8", "long C1", "long C8"])
def test_other_geometries_are_not_worse_either(name, block, changes):
    """Hashes finer than blocks, and kernels that store the last boundary's state without a stop."""
    other = cell(name, block, decisions=16, **changes)
    outcome, stock = run(other), other.run(VllmScheduler)
    assert worse_than(outcome, stock) == []
    if name == "long C1":
        assert outcome.tokens <= 1.05 * bound(other)


def test_a_producer_of_many_small_rounds_stores_its_junction_all_the_same():
    """528-token blocks in rounds of 512: the junction at 2,112 is eight rounds away, most of them inside a block."""
    long = cell("long C1", 528, budget=512, decisions=8)
    assert run(long).tokens <= 1.05 * bound(long)


@pytest.mark.parametrize("branches", [4, 8, 16])
def test_a_block_that_costs_less_than_a_round_is_computed_by_everybody(branches):
    """80 tokens shared, blocks of 64: the stop at 64 would be free, if it didn't cost the round."""
    short = cell("short C1", 64, branches=branches, gap_s=0.0)
    outcome, stock = run(short), short.run(VllmScheduler)
    assert worse_than(outcome, stock) == []
    assert len(outcome.rounds) < 0.6 * len(stock.rounds)


@pytest.mark.parametrize("branches", [2, 8, 32])
@pytest.mark.parametrize("gap_s", [0.0, 0.0003])
def test_other_shapes_are_not_worse_either(branches, gap_s):
    shaped = cell("long C1", 64, branches=branches, gap_s=gap_s, decisions=8, shared=1_000)
    assert worse_than(run(shaped), shaped.run(VllmScheduler)) == []


def test_the_same_arrivals_give_the_same_rounds():
    long = cell("long C8", 64, decisions=16)
    assert run(long).rounds == run(long).rounds
