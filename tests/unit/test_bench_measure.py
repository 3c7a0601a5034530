"""The arithmetic of a comparison, against examples worked out by hand."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixflow.bench.measure import (
    Answer,
    compare,
    latency_summary,
    merge_agreement,
    paired_ratios,
    percentile,
)


@pytest.mark.parametrize(("q", "expected"), [(0, 10.0), (25, 17.5), (50, 25.0), (75, 32.5), (95, 38.5), (100, 40.0)])
def test_percentiles_by_hand(q, expected):
    assert percentile([40.0, 10.0, 30.0, 20.0], q) == pytest.approx(expected)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1), st.integers(0, 100))
def test_percentiles_are_numpy_s(values, q):
    assert percentile(values, q) == pytest.approx(float(np.percentile(values, q)), abs=1e-6)


def test_percentile_limits():
    assert math.isnan(percentile([], 50))
    assert percentile([3.0], 99) == 3.0
    with pytest.raises(ValueError, match="101"):
        percentile([1.0], 101)


def test_latency_summary_by_hand():
    summary = latency_summary([1.0, 2.0, 3.0])
    assert summary["mean_e2el_ms"] == 2.0
    assert summary["median_e2el_ms"] == 2.0
    assert summary["std_e2el_ms"] == pytest.approx(math.sqrt(2 / 3))
    assert dict(summary["percentiles_e2el_ms"])[50] == 2.0
    assert math.isnan(latency_summary([])["mean_e2el_ms"])


def test_paired_ratios_leave_out_what_has_no_pair():
    assert paired_ratios([2.0, 3.0, 4.0], [1.0, 0.0, 8.0]) == [2.0, 0.5]
    assert paired_ratios([math.nan], [1.0]) == []
    with pytest.raises(ValueError, match="zip"):
        paired_ratios([1.0], [])


def test_answer_is_the_best_label_and_margin_the_gap_to_the_next():
    answer = Answer((-3.0, -1.0, -1.5))
    assert answer.label == 1
    assert answer.margin == pytest.approx(0.5)
    assert Answer((-1.0, -1.0)).label == 0
    assert Answer((-1.0,)).margin == math.inf


def test_agreement_by_hand():
    reference = [[Answer((-1.0, -2.0)), Answer((-1.0, -1.1))], None, [Answer((-1.0, -2.0))]]
    other = [[Answer((-1.0, -2.0)), Answer((-1.3, -1.1))], [Answer((-1.0, -2.0))], None]
    agreement = compare(reference, other)
    assert (agreement.compared, agreement.equal) == (2, 1)
    assert agreement.max_delta_p == pytest.approx(math.exp(-1.0) - math.exp(-1.3))
    assert agreement.max_delta_logprob == pytest.approx(0.3)
    assert agreement.min_margin == pytest.approx(0.1)
    (change,) = agreement.changed
    assert (change.decision, change.branch) == (0, 1)
    assert (change.reference_label, change.label) == (0, 1)
    assert change.reference_margin == pytest.approx(0.1)
    assert change.margin == pytest.approx(0.2)
    assert change.delta_logprob == pytest.approx(-0.3)


def test_agreements_add_up():
    same = compare([[Answer((-1.0, -2.0))]], [[Answer((-1.0, -2.0))]])
    changed = compare([[Answer((-1.0, -2.0))]], [[Answer((-2.0, -1.0))]])
    both = merge_agreement([same, changed])
    assert (both.compared, both.equal, len(both.changed)) == (2, 1, 1)
    assert both.max_delta_logprob == 1.0
    empty = merge_agreement([])
    assert (empty.compared, empty.as_dict()["min_margin"]) == (0, None)


def test_decisions_must_pair_up():
    with pytest.raises(ValueError, match="zip"):
        compare([None], [])
