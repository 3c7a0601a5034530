"""Questions: options, labels and the very text that a model reads."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixflow.decisions import (
    QUESTION_TYPES,
    Choice,
    LabelForm,
    Noul,
    Option,
    QuestionSpec,
    Score,
    build_question,
    letter_sets,
)

LETTERS, NAMES = LabelForm.LETTERS, LabelForm.NAMES


def question(**spec):
    return build_question("q", QuestionSpec(**spec))


CHOICE = {"type": "choice", "instructions": "Which team?", "criteria": {"billing": "money", "outage": None}}


def test_a_choice_is_asked_by_letters():
    assert question(**CHOICE).text(LETTERS) == (
        "Question: Which team?\nA: billing - money\nB: outage\nAnswer with the letter of one option only."
    )


def test_a_choice_is_asked_by_names():
    assert question(**CHOICE).text(NAMES) == (
        "Question: Which team?\nbilling: money\noutage\nAnswer with the name of one option only."
    )


def test_a_score_is_asked_by_numbers():
    asked = question(type="score", instructions="How cross?", criteria=["calm", 2, None])
    assert asked.text(LETTERS) == (
        "Question: How cross?\n0: calm\n1: 2\n2: None\nAnswer with the number of one level only."
    )
    assert asked.text(NAMES) == "Question: How cross?\ncalm\n2\nNone\nAnswer with the name of one level only."


@pytest.mark.parametrize("form", [LETTERS, NAMES])
def test_a_noul_is_asked_by_yes_and_no_in_both_forms(form):
    described = question(type="noul", instructions="Urgent?", criteria={"false": "can wait"})
    assert described.text(form) == "Question: Urgent?\nyes\nno: can wait\nAnswer with yes or no only."
    both = question(type="noul", criteria={"false": "can wait", "true": "burns"})
    assert both.text(form) == "yes: burns\nno: can wait\nAnswer with yes or no only."
    assert both.labels(form) == ("yes", "no")


@pytest.mark.parametrize(("sent", "line"), [("", None), (None, None), (3, "3"), (["a"], "['a']"), (False, "False")])
def test_the_question_line_is_left_out_where_there_is_nothing_to_say(sent, line):
    first = question(type="noul", instructions=sent).text(LETTERS).split("\n")[0]
    assert first == ("yes" if line is None else f"Question: {line}")


def test_descriptions_that_are_no_strings_are_written_as_such():
    options = question(type="choice", criteria={"a": 1, "b": "", "c": {"k": None}}).options
    assert options == (Option("a", "1"), Option("b", ""), Option("c", "{'k': None}"))
    assert question(type="choice", criteria={"b": ""}).option_lines(LETTERS) == ("A: b",)


def test_labels_are_the_first_of_their_set():
    many = question(type="choice", criteria={f"o{n}": None for n in range(26)})
    assert many.labels(LETTERS) == tuple(string.ascii_uppercase)
    assert question(type="score", criteria=list("abc")).labels(LETTERS) == ("0", "1", "2")
    assert question(type="score", criteria=list("abc")).labels(NAMES) == ("a", "b", "c")


def test_an_option_named_like_a_letter_is_still_labelled():
    assert question(type="choice", criteria={"B": None, "A": None}).option_lines(LETTERS) == ("A: B", "B: A")


def test_the_registry_has_the_three_types():
    assert dict(QUESTION_TYPES) == {"choice": Choice, "noul": Noul, "score": Score}
    assert [len(labels) for labels in letter_sets()] == [26, 2, 10]


@given(st.dictionaries(st.text(max_size=5), st.none() | st.text(max_size=5), min_size=1, max_size=26))
def test_every_option_has_one_label_and_its_place_in_the_text(criteria):
    asked = question(type="choice", criteria=criteria)
    assert [option.name for option in asked.options] == list(criteria)
    for form in LabelForm:
        labels = asked.labels(form)
        assert len(set(labels)) == len(criteria)
        assert len(asked.option_lines(form)) == len(criteria)
        assert asked.text(form) == "\n".join((*asked.option_lines(form), asked.replies[form]))
