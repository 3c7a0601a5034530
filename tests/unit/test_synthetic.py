"""Synthetic decisions: valid, repeatable, decided by their text; what is held out is other sentences of known words."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from radixflow.decisions import Choice, Score, parse_decision
from radixflow.synthetic import SplitError, generate, samples
from radixflow.synthetic.remarks import LAYOUTS
from radixflow.synthetic.ticket import TOPICS, sentences
from radixflow.synthetic.topic import expand

COUNT = 1500
README_STATE = "Since this morning every payment fails. We lose money by the minute."


@pytest.fixture(scope="module")
def train():
    return generate("train", 1, 6 * COUNT)


@pytest.fixture(scope="module")
def heldout():
    return generate("heldout", 1, COUNT)


def words_of(value):
    return set(re.findall(r"[a-z']+", json.dumps(value, ensure_ascii=False).lower()))


def test_a_seed_is_the_same_decisions_everywhere(train):
    code = (
        "import hashlib, json, sys; from radixflow.synthetic import generate;"
        "made = [(s.request, s.expected) for s in generate('train', 1, 50)];"
        "sys.stdout.write(hashlib.sha256(json.dumps(made).encode()).hexdigest())"
    )
    runs = {
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env).stdout
        for env in ({"PYTHONHASHSEED": "1"}, {"PYTHONHASHSEED": "2"})
    }
    assert len(runs) == 1
    assert generate("train", 2, 5) != train[:5]
    assert generate("train", 1, 5) == train[:5]


def test_every_decision_is_a_valid_request_with_an_answer_of_its_type(train, heldout):
    for sample in [*train[:COUNT], *heldout]:
        decision = parse_decision(sample.request)
        assert [question.id for question in decision.questions] == list(sample.expected)
        for question in decision.questions:
            answer = sample.expected[question.id]
            if isinstance(question, Choice):
                assert answer in [option.name for option in question.options]
            elif isinstance(question, Score):
                assert isinstance(answer, int)
                assert 0 <= answer < len(question.options)
            else:
                assert isinstance(answer, bool)


def test_every_type_and_every_answer_is_there(heldout):
    by_type: dict[str, set[object]] = {}
    for sample in heldout:
        for question in parse_decision(sample.request).questions:
            by_type.setdefault(question.type_name, set()).add(sample.expected[question.id])
    assert by_type["noul"] == {True, False}
    assert by_type["score"] >= set(range(7))
    assert {topic.name for topic in TOPICS} | {"other"} <= by_type["choice"]
    assert any(isinstance(sample.request["state"], dict) for sample in heldout)


def test_sentences_of_the_splits_are_disjoint():
    train, heldout = sentences("train"), sentences("heldout")
    assert train.keys() == heldout.keys()
    seen = {sentence.lower() for part in train.values() for sentence in part}
    for name, part in heldout.items():
        assert not seen & {sentence.lower() for sentence in part}, name
    assert not set(LAYOUTS["train"]) & set(LAYOUTS["heldout"])


def test_no_held_out_decision_was_trained_on(train, heldout):
    trained = {json.dumps(sample.request["state"]).lower() for sample in train}
    assert not trained & {json.dumps(sample.request["state"]).lower() for sample in heldout}
    assert README_STATE not in {sample.request["state"] for sample in train if isinstance(sample.request["state"], str)}


def test_wordings_of_questions_are_disjoint(train, heldout):
    def asked(made):
        return {spec["instructions"] for sample in made for spec in sample.request["questions"].values()}

    def descriptions(made):
        criteria = [spec.get("criteria") for sample in made for spec in sample.request["questions"].values()]
        # A note's subject is in its description, whatever the wording; a noul's is the same sentence in both.
        return {
            text for one in criteria if isinstance(one, dict) and "true" not in one for text in one.values() if text
        }

    assert not asked(train) & asked(heldout)
    assert not descriptions(train) & descriptions(heldout)


def test_every_held_out_word_is_known_from_training(train, heldout):
    known = set().union(*(words_of(sample.request) for sample in train))
    for sample in heldout:
        assert not words_of(sample.request) - known, sample


def test_patterns_expand():
    assert expand("a (b|c) d") == ("a b d", "a c d")
    assert expand("a (|b)") == ("a", "a b")
    assert expand("a (x|y), b") == ("a x, b", "a y, b")


def test_an_unknown_split_is_refused():
    with pytest.raises(SplitError, match=r"'test'.*train, heldout"):
        next(samples("test", 1))
