"""Reading: the published formulas, by hand and at the extremes, and the response they end up in."""

from __future__ import annotations

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from radixflow.decisions import (
    BranchTokens,
    QuestionRead,
    ReadError,
    Reading,
    build_response,
    parse_decision,
    read_branches,
    read_labels,
)

INF = math.inf
CHOICE = {"type": "choice", "criteria": {"billing": "money", "outage": None, "other": None}}
SCORE = {"type": "score", "criteria": ["calm", "cross", "furious"]}


def ask(**questions):
    return parse_decision({"state": "s", "questions": questions, "request_id": "7"})


def answer(spec, *shares, mass=1.0, near_tie_margin=0.02):
    (question,) = ask(q=spec).questions
    return question.answer(Reading(shares, mass, True), near_tie_margin)


def test_confidence_is_the_share_times_the_label_mass():
    # 0.9021 and 0.0279 of the vocabulary are the labels': 0.93 together, of which the first has 0.97.
    reading = read_labels({5: math.log(0.9021), 9: math.log(0.0279), 2: math.log(0.06)}, (5, 9), sampled=5)
    assert reading.label_mass == pytest.approx(0.93)
    assert reading.probabilities == pytest.approx((0.97, 0.03))
    assert reading.confidence == pytest.approx(0.9021)
    assert reading.argmax_is_label
    assert reading.margin == pytest.approx(0.94)


def test_a_score_is_the_expected_level():
    scored = answer(SCORE, 0.7, 0.2, 0.1, mass=0.5)
    assert scored.score == pytest.approx(0.4)
    assert scored.confidence == pytest.approx(0.35)
    assert scored.legend == {"0": "calm", "1": "cross", "2": "furious"}
    assert scored.probabilities == {"0": 0.7, "1": 0.2, "2": 0.1}
    assert scored.margin == pytest.approx(0.5)


def test_a_noul_is_the_probability_of_yes():
    answered = answer({"type": "noul"}, 0.25, 0.75, mass=0.8)
    assert (answered.noul, answered.probabilities) == (0.25, {"yes": 0.25, "no": 0.75})
    assert answered.confidence == pytest.approx(0.6)


def test_a_choice_is_the_first_of_the_most_probable():
    assert answer(CHOICE, 0.2, 0.4, 0.4).choice == "outage"
    tied = answer(CHOICE, 0.4, 0.2, 0.4)
    assert (tied.choice, tied.margin, tied.near_tie) == ("billing", 0.0, True)
    assert list(tied.probabilities) == ["billing", "outage", "other"]


def test_labels_are_found_by_id_and_read_in_the_order_of_the_options():
    reading = read_labels({3: math.log(0.5), 1: math.log(0.1), 2: math.log(0.2)}, (1, 2), sampled=3)
    assert reading.probabilities == pytest.approx((1 / 3, 2 / 3))
    assert reading.label_mass == pytest.approx(0.3)
    assert (reading.best, reading.argmax_is_label) == (1, False)


def test_branches_are_a_softmax_at_the_temperature():
    # e^(2/2) = 2.71828 against e^0: shares 0.73106 and 0.26894.
    reading = read_branches((2.0, 0.0), 2.0)
    assert reading.probabilities == pytest.approx((0.7310586, 0.2689414))
    assert (reading.label_mass, reading.argmax_is_label) == (1.0, True)
    assert reading.confidence == pytest.approx(0.7310586)


def test_a_lone_option_is_certain_and_no_near_tie():
    reading = read_branches((-3.0,), 1.0)
    assert (reading.probabilities, reading.margin, reading.is_near_tie()) == ((1.0,), 1.0, False)


@pytest.mark.parametrize(
    ("shares", "threshold", "is_near"),
    [((0.509, 0.491), 0.02, True), ((0.511, 0.489), 0.02, False), ((0.75, 0.25), 0.5, False), ((0.5, 0.5), 0.0, False)],
)
def test_a_near_tie_is_a_margin_below_the_threshold(shares, threshold, is_near):
    assert answer({"type": "noul"}, *shares, near_tie_margin=threshold).near_tie is is_near


def test_minus_infinity_is_a_share_of_nothing():
    assert read_labels({1: -INF, 2: -700.0}, (1, 2), 2).probabilities == (0.0, 1.0)
    assert read_branches((-INF, 1e308, -1e308), 1e-3).probabilities == (0.0, 1.0, 0.0)


@pytest.mark.parametrize(
    ("logprobs", "message"),
    [
        ({1: -INF, 2: -INF}, r"none of 2 options has any probability"),
        ({1: math.nan, 2: -1.0}, r"hold nan, which is none"),
        ({1: INF, 2: -1.0}, r"hold inf, which is none"),
        ({1: 3.5, 2: -1.0}, r"hold 3.5, which is none; check the logprobs mode"),
        ({1: -1.0, 7: -2.0}, r"no log-probability of label tokens \[2\], only of \[1, 7\]"),
    ],
)
def test_what_is_no_log_probability_is_an_error(logprobs, message):
    with pytest.raises(ReadError, match=message):
        read_labels(logprobs, (1, 2), 1)


@pytest.mark.parametrize("scores", [(), (-INF,), (math.nan, 1.0), (INF, 1.0)])
def test_scores_that_cannot_be_compared_are_an_error(scores):
    with pytest.raises(ReadError):
        read_branches(scores, 1.0)


@pytest.mark.parametrize("temperature", [0.0, -1.0, INF, math.nan])
def test_a_temperature_is_positive_and_finite(temperature):
    with pytest.raises(ValueError, match="temperature is"):
        read_branches((1.0, 2.0), temperature)


LOGPROB = st.floats(max_value=0.0) | st.just(-INF)


@given(st.lists(LOGPROB, min_size=1, max_size=26))
def test_shares_of_labels_sum_to_one(values):
    assume(max(values) > -INF)
    reading = read_labels(dict(enumerate(values)), range(len(values)), 0)
    assert math.fsum(reading.probabilities) == pytest.approx(1.0)
    assert 0.0 <= reading.confidence <= reading.label_mass <= 1.0
    assert 0.0 <= reading.margin <= 1.0
    assert values[reading.best] == pytest.approx(max(values))


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=2, max_size=10), st.floats(1e-6, 1e6))
def test_shares_of_branches_sum_to_one(values, temperature):
    reading = read_branches(values, temperature)
    assert math.fsum(reading.probabilities) == pytest.approx(1.0)
    (question,) = ask(q={"type": "score", "criteria": list(range(len(values)))}).questions
    scored = question.answer(reading, 0.02)
    assert -1e-9 <= scored.score <= len(values) - 1 + 1e-9
    assert scored.confidence == max(scored.probabilities.values())


@given(st.lists(st.floats(-50.0, 0.0), min_size=2, max_size=5), st.floats(-40.0, 0.0))
def test_shares_do_not_depend_on_what_all_labels_have_in_common(values, shift):
    plain = read_labels(dict(enumerate(values)), range(len(values)), 0)
    shifted = read_labels({token: value + shift for token, value in enumerate(values)}, range(len(values)), 0)
    assert shifted.probabilities == pytest.approx(plain.probabilities, abs=1e-9)


def respond(**more):
    decision = ask(z=CHOICE, a={"type": "noul"})
    reads = {
        "a": QuestionRead(Reading((0.505, 0.495), 0.5, False), (BranchTokens(40, 1, 32),)),
        "z": QuestionRead(
            Reading((0.5, 0.25, 0.25), 1.0, True), (BranchTokens(10), BranchTokens(11), BranchTokens(12, cached=4))
        ),
    }
    return build_response(decision, reads, model="tiny", created=1_700_000_000, **more)


def test_the_response_has_the_protocols_fields_and_only_additions():
    sent = respond().model_dump(mode="json")
    assert {key: sent[key] for key in ("id", "object", "created", "model", "usage")} == {
        "id": "decision-7",
        "object": "structured_decision",
        "created": 1_700_000_000,
        "model": "tiny",
        "usage": {"input_tokens": 73, "output_tokens": 1},
    }
    assert list(sent["answers"]) == list(sent["diagnostics"]) == ["z", "a"]
    assert sent["answers"]["z"] == {
        "type": "choice",
        "choice": "billing",
        "probabilities": {"billing": 0.5, "outage": 0.25, "other": 0.25},
        "confidence": 0.5,
        "margin": 0.25,
        "near_tie": False,
    }
    assert set(sent["answers"]["a"]) == {"type", "noul", "probabilities", "confidence", "margin", "near_tie"}
    assert sent["answers"]["a"]["near_tie"] is True


def test_cached_tokens_are_told_only_where_every_branch_tells_them():
    assert respond().model_dump()["diagnostics"] == {
        "z": {"label_mass": 1.0, "argmax_is_label": True},
        "a": {"label_mass": 0.5, "argmax_is_label": False, "cached_tokens": 32},
    }


def test_a_header_may_name_the_response_and_the_server_its_margin():
    response = respond(request_id="from-header", near_tie_margin=0.3)
    assert response.id == "decision-from-header"
    assert response.answers["z"].near_tie
    assert type(response).model_validate_json(response.model_dump_json()) == response
