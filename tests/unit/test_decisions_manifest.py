"""Manifests: what a model was trained for, and that a wrong one says what to write instead."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixflow.decisions import (
    CHAT,
    DecisionError,
    LabelForm,
    ManifestError,
    ReadStrategy,
    letters_manifest,
    load_manifest,
    parse_manifest,
    parse_template,
)

LABEL = {"label_form": "names", "template": "{state}\n\n{question}\nAnswer: "}
BRANCH = {"template": "{state}\n{question}\n{option}", "temperature": 0.5}


def manifest(**strategies):
    return {"strategies": strategies}


def test_a_manifest_is_read_from_its_file(tmp_path):
    path = tmp_path / "radixflow_manifest.json"
    path.write_text(json.dumps({"format": 1, **manifest(label=LABEL, branch=BRANCH)}))
    read = load_manifest(path)
    assert read.trained_for == (ReadStrategy.LABEL, ReadStrategy.BRANCH)
    assert read.strategies.label.label_form is LabelForm.NAMES
    assert read.strategies.branch.temperature == 0.5
    assert parse_manifest(json.loads(read.model_dump_json()), "itself") == read


def test_a_type_may_have_been_trained_with_another_form():
    label = parse_manifest(manifest(label={**LABEL, "label_form_by_type": {"score": "letters"}}), "m").strategies.label
    assert [label.form_of(kind) for kind in ("choice", "noul", "score")] == ["names", "names", "letters"]


def test_without_a_manifest_a_model_is_asked_for_letters_in_a_chat():
    read = letters_manifest()
    assert read.choose() is ReadStrategy.LABEL
    assert (read.strategies.label.template, read.strategies.label.label_form) == (CHAT, LabelForm.LETTERS)
    assert read.strategies.label.parsed is None


def test_a_strategy_that_the_model_was_not_trained_for_is_refused():
    branch = parse_manifest(manifest(branch=BRANCH), "m")
    assert branch.choose() is branch.choose("branch") is ReadStrategy.BRANCH
    with pytest.raises(DecisionError, match="is 'label', but this model was trained for 'branch'") as caught:
        branch.choose("label")
    assert caught.value.param == "strategy"
    both = parse_manifest(manifest(branch=BRANCH, label=LABEL), "m")
    assert [both.choose(), both.choose("branch")] == ["label", "branch"]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, r"field '\(whole\)' is None"),
        ({}, "field 'strategies' is missing; add it"),
        (manifest(), "names neither label nor branch; give at least one"),
        (manifest(label=None), "names neither label nor branch"),
        (manifest(lable=LABEL), "field 'strategies.lable' is unknown .*leave it out"),
        ({"format": 2, **manifest(label=LABEL)}, "field 'format' is 2 .*give 1"),
        (manifest(label={}), "field 'strategies.label.label_form' is missing"),
        (manifest(label={"label_form": "digits"}), "'strategies.label.label_form' is 'digits' .*give 'names' or"),
        (manifest(label={**LABEL, "label_form_by_type": {"rank": "names"}}), "strategies.label.label_form_by_type"),
        (manifest(label={**LABEL, "temperature": 1}), "'strategies.label.temperature' is unknown"),
        (manifest(label={**LABEL, "template": 3}), "'strategies.label.template' is 3"),
        (manifest(branch={"temperature": 1}), "'strategies.branch.template' is missing"),
        (manifest(branch={**BRANCH, "temperature": 0}), "'strategies.branch.temperature' is 0 .*a number above 0"),
        (manifest(branch={**BRANCH, "temperature": "1"}), "'strategies.branch.temperature' is '1'"),
        (manifest(branch={**BRANCH, "temperature": float("inf")}), "'strategies.branch.temperature' is inf"),
        (manifest(branch={**BRANCH, "temperature": True}), "'strategies.branch.temperature' is True"),
        (manifest(branch={**BRANCH, "template": "chat"}), r"strategies.branch.template \('chat'\) lacks {state}"),
    ],
)
def test_a_wrong_manifest_names_file_field_value_and_fix(value, message):
    with pytest.raises(ManifestError, match=message) as caught:
        parse_manifest(value, "model/x.json")
    assert str(caught.value).startswith("manifest model/x.json: ")


def test_every_wrong_field_is_told_at_once():
    with pytest.raises(ManifestError) as caught:
        parse_manifest(manifest(label={"label_form": 1}, branch={"template": 2}), "m")
    assert len(str(caught.value).splitlines()) == 2


@pytest.mark.parametrize(
    ("raw", "message"), [(None, "can't be read .*check the path"), (b"{", "not JSON"), (b"\xff", "not JSON")]
)
def test_a_file_that_cannot_be_read_is_named(tmp_path, raw, message):
    path = tmp_path / "m.json"
    if raw is not None:
        path.write_bytes(raw)
    with pytest.raises(ManifestError, match=message) as caught:
        load_manifest(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("text", "strategy", "message"),
    [
        ("", "label", "lacks {state}, {question}; its places are: {system}, {state}, {question}"),
        ("{question} {state}!", "label", "another order than {state}, {question}; what branches share comes first"),
        ("{state}{question}", "label", "ends with {question}; write what the answer follows"),
        ("{state}{state}{question}!", "label", "{state} more than once"),
        ("{state}{question}{option}!", "label", "the place {option}, which is unknown"),
        ("{stat}{question}!", "label", "the place {stat}, which is unknown; known: {system}, {state}, {question}"),
        ("{state}{question}", "branch", "lacks {option}"),
        ("{state}{option}{question}", "branch", "another order"),
    ],
)
def test_a_wrong_template_says_which_place(text, strategy, message):
    with pytest.raises(ManifestError) as caught:
        parse_template(text, ReadStrategy(strategy), "template")
    assert message in str(caught.value)


def test_a_template_is_filled_once():
    template = parse_template('<s>{system}|{state}\n{"k": 1}{question}>', ReadStrategy.LABEL, "template")
    assert (template.places, template.tail) == (("system", "state", "question"), ">")
    values = {"system": "{state}", "state": "{question}", "question": "{system}"}
    assert template.fill(values, "question") == ('<s>{state}|{question}\n{"k": 1}', "{system}>")


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
SOME = st.fixed_dictionaries({}, optional={"template": JSON, "label_form": JSON, "temperature": JSON})


@given(
    JSON | st.fixed_dictionaries({"strategies": st.fixed_dictionaries({}, optional={"label": SOME, "branch": SOME})})
)
def test_any_json_is_a_manifest_or_one_kind_of_error(value):
    try:
        parse_manifest(value, "m")
    except ManifestError:
        return
