"""Prompts are the same for every arm, part where they say, and fall on the right side of block boundaries."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixflow.bench.workloads import LABEL_IDS, WORKLOADS


@dataclass(frozen=True)
class Sizes:
    branches: int = 4
    burst_decisions: int = 16
    seed: int = 0


def decisions(name, count, block_size=32, **sizes):
    workload = WORKLOADS[name](Sizes(**sizes))
    return [decision for call in workload.calls(count, block_size) for decision in call.decisions]


names = pytest.mark.parametrize("name", sorted(WORKLOADS))
block_sizes = st.sampled_from([32, 64, 528])


@names
def test_same_seed_same_prompts_other_seed_other_prompts(name):
    assert decisions(name, 20) == decisions(name, 20)
    assert decisions(name, 20) != decisions(name, 20, seed=1)


@names
def test_warm_up_sends_no_measured_prompt(name):
    workload = WORKLOADS[name](Sizes())
    measured = {prompt for call in workload.calls(16, 32) for prompt in call.prompts}
    warm = {prompt for call in workload.calls(16, 32, stream="warm-up") for prompt in call.prompts}
    assert not measured & warm


@names
@given(block_size=block_sizes, branches=st.integers(1, 8), seed=st.integers(0, 100))
def test_branches_part_exactly_where_they_say(name, block_size, branches, seed):
    for decision in decisions(name, 3, block_size, branches=branches, seed=seed):
        assert len(decision.prompts) == branches
        assert len({prompt[: decision.shared] for prompt in decision.prompts}) == 1
        assert len({prompt[decision.shared] for prompt in decision.prompts}) == branches
        assert all(33 <= token <= 126 for prompt in decision.prompts for token in prompt)


@given(block_size=block_sizes, seed=st.integers(0, 100))
def test_short_prompts_stay_below_one_block(block_size, seed):
    for decision in decisions("short", 5, block_size, seed=seed):
        assert all(decision.shared < len(prompt) < block_size for prompt in decision.prompts)


@given(seed=st.integers(0, 100))
def test_long_shares_many_blocks_and_leaves_own_tokens_past_a_boundary(seed):
    for decision in decisions("long", 5, seed=seed):
        assert decision.shared == 600
        assert all(620 <= len(prompt) <= 660 for prompt in decision.prompts)


@given(block_size=block_sizes, seed=st.integers(0, 100))
def test_burst_prompts_have_their_last_full_block_in_the_shared_part(block_size, seed):
    for decision in decisions("burst", 16, block_size, seed=seed):
        assert all(len(prompt) // block_size == decision.shared // block_size == 1 for prompt in decision.prompts)


def test_decisions_of_a_burst_share_no_block_with_each_other():
    made = decisions("burst", 64)
    assert len({decision.prompts[0][:32] for decision in made}) == 64


def test_a_burst_is_one_call_in_order_of_decisions():
    workload = WORKLOADS["burst"](Sizes())
    call, rest = workload.calls(20, 32)
    assert len(call.decisions) == 16
    assert len(rest.decisions) == 4
    assert call.prompts == [prompt for decision in call.decisions for prompt in decision.prompts]
    assert len(call.prompts) == 64


def test_decisions_are_rounded_up_to_whole_calls():
    assert WORKLOADS["short"](Sizes()).round_up(5) == 5
    assert WORKLOADS["burst"](Sizes()).round_up(5) == 48
    assert WORKLOADS["burst"](Sizes()).round_up(49) == 64


def test_labels_are_distinct_and_within_the_limit_of_vllm():
    assert len(set(LABEL_IDS)) == len(LABEL_IDS) <= 128
