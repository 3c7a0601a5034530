"""RadixFlow against stock vLLM on a real engine: fewer rounds, the same answers."""

import pytest

from radixflow.bench.measure import compare
from radixflow.bench.settings import checked_settings


def assert_same_answers(stock, other):
    """Answers are equal, but for margins that rounding explains: the model's weights are random."""
    agreement = compare(stock.answers(), other.answers())
    assert agreement.compared == sum(len(call.prompts) for call in stock.calls)
    for change in agreement.changed:
        assert change.reference_margin <= 2 * agreement.max_delta_logprob, change
        assert change.reference_margin < 0.3, change
    assert len(agreement.changed) <= agreement.compared // 16, agreement.changed
    assert agreement.max_delta_p < 0.05


@pytest.fixture(scope="module")
def burst(arms):
    return {arm: arms.run(arm, "burst", 16) for arm in arms.servers}


def test_stock_takes_a_round_per_decision_and_one_more(burst):
    assert 15 <= burst["stock"].totals.worker_rounds <= 19


def test_radixflow_takes_at_most_four_rounds(burst):
    totals = burst["radixflow"].totals
    assert totals.worker_rounds <= 4
    assert totals.deferrals["pending"] >= 16


def test_a_burst_is_answered_as_by_stock(burst):
    assert_same_answers(burst["stock"], burst["radixflow"])


def test_a_burst_computes_no_token_twice(burst):
    for run in burst.values():
        sent = sum(len(prompt) for call in run.calls for prompt in call.prompts)
        shared = sum(32 * (len(decision.prompts) - 1) for call in run.calls for decision in call.decisions)
        assert run.totals.tokens_computed == sent - shared
        assert run.totals.prefix_hit_tokens == shared


def test_short_decisions_fall_towards_one_round_each(arms):
    stock, radixflow = (arms.run(arm, "short", 32) for arm in ("stock", "radixflow"))
    assert radixflow.totals.worker_rounds < stock.totals.worker_rounds
    assert radixflow.totals.worker_rounds <= 40
    assert_same_answers(stock, radixflow)


@pytest.mark.parametrize("concurrency", [1, 4])
def test_long_decisions_are_answered_as_by_stock(arms, concurrency):
    stock, radixflow = (arms.run(arm, "long", 8, concurrency=concurrency) for arm in ("stock", "radixflow"))
    assert radixflow.totals.prefix_hit_tokens > 0
    assert_same_answers(stock, radixflow)


@pytest.mark.parametrize("arm", ["stock", "radixflow"])
def test_repeating_gives_the_same_bits(arms, arm):
    # One prompt a call: the same rounds both times, so that nothing but the engine could differ.
    calls = checked_settings(branches=1).workload("long").calls(4, 32, stream="repeating")
    first, second = (arms.send(arm, calls) for _ in range(2))
    assert [result.logprobs for result in first] == [result.logprobs for result in second]


def test_records_say_which_schedule_ran(arms):
    hashes = set()
    for arm, reader in arms.readers.items():
        arms.run(arm, "short", 1)
        record = reader.records[-1]
        assert record["preset"] == arm
        assert record["host_us"] > 0
        hashes.add(record["schedule_sha256"])
    assert len(hashes) == 1
    assert hashes.pop().startswith("6361fde74c84")
