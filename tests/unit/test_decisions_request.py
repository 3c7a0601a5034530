"""Requests: what is accepted as it stands, and that each mistake is one error with field, value and fix."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixflow.decisions import DecisionError, DecisionRequest, parse_body, parse_decision

NOUL = {"type": "noul"}
CHOICE = {"type": "choice", "instructions": "Which team?", "criteria": {"billing": "money", "outage": None}}
SCORE = {"type": "score", "criteria": ["calm", "cross", "furious"]}


def body(**fields):
    return {"state": "The invoice is wrong.", "questions": {"urgent": NOUL}, **fields}


def asking(question, question_id="urgency"):
    return body(questions={"first": NOUL, question_id: question})


def choosing(criteria):
    return asking({"type": "choice", "criteria": criteria})


def scoring(criteria):
    return asking({"type": "score", "criteria": criteria})


def deep(levels):
    value = []
    for _ in range(levels):
        value = [value]
    return value


CIRCLE = {}
CIRCLE["again"] = CIRCLE
CRITERIA = "questions.urgency.criteria"
KWARGS = "chat_template_kwargs"

MALFORMED = [
    # The whole.
    (None, "body", "is None"),
    ([], "body", "send a JSON object"),
    ("state", "body", "is 'state'"),
    (7, "body", "is 7"),
    ({}, "state", "is missing; give what the questions are about"),
    ({"state": "x"}, "questions", "is missing; give an object of 1 to 64 questions"),
    ({"questions": {"urgent": NOUL}}, "state", "is missing"),
    # The state.
    (body(state="half \ud83d of it"), "state", "half of a surrogate pair"),
    (body(state={"key": "\udc00"}), "state", "at character 9"),
    (body(state=deep(100_000)), "state", "nested too deeply"),
    (body(state={1, 2}), "state", "can't be written as text"),
    (body(state=CIRCLE), "state", "can't be written as text"),
    (body(state={"n": 10**5000}), "state", "can't be written as text"),
    # The questions as a whole.
    (body(questions=None), "questions", "is None"),
    (body(questions=[NOUL]), "questions", "is [{'type': 'noul'}]"),
    (body(questions="urgent?"), "questions", "'urgent?'"),
    (body(questions={}), "questions", "has 0 entries"),
    (body(questions={f"q{n}": NOUL for n in range(65)}), "questions", "has 65 entries; give an object of 1 to 64"),
    (body(questions={"": NOUL}), "questions", "has an empty question id"),
    (body(questions={3: NOUL}), "questions.3", "a name, a string"),
    (body(questions={"\ud800": NOUL}), r"questions.\ud800", "surrogate"),
    (body(questions={"q" * 500: 1}), f"questions.{'q' * 61}...", "is 1"),
    # One question.
    (asking(None), "questions.urgency", "is None; give an object with type"),
    (asking("noul"), "questions.urgency", "is 'noul'"),
    (asking([]), "questions.urgency", "is []"),
    (asking({}), "questions.urgency.type", "is missing; give one of choice, noul, score"),
    (asking({"type": None}), "questions.urgency.type", "is None; give one of choice, noul, score"),
    (asking({"type": 1}), "questions.urgency.type", "is 1; give one of choice, noul, score"),
    (asking({"type": ["noul"]}), "questions.urgency.type", "is ['noul']"),
    (asking({"type": ""}), "questions.urgency.type", "is '', which is unknown"),
    (asking({"type": "NOUL"}), "questions.urgency.type", "is 'NOUL', which is unknown; use one of choice, noul, score"),
    (asking({"type": "predicate"}), "questions.urgency.type", "'predicate'"),
    (asking({**NOUL, "critera": 1}), "questions.urgency.critera", "is unknown (value 1); use only type, instructions"),
    (asking({**NOUL, "joint": True}), "questions.urgency.joint", "is unknown (value True)"),
    (asking({**NOUL, "\n" * 99: 1}), rf"questions.urgency.{(chr(92) + 'n') * 30}\...", "is unknown"),
    (asking({**NOUL, "instructions": "\udfff"}), "questions.urgency.instructions", "surrogate"),
    (asking({**NOUL, "instructions": deep(100_000)}), "questions.urgency.instructions", "nested too deeply"),
    (asking({**NOUL, "instructions": 10**5000}), "questions.urgency.instructions", "can't be written"),
    (asking({"type": "x"}, "two\nlines"), r"questions.two\nlines.type", "is 'x'"),
    # Choice.
    (asking({"type": "choice"}), CRITERIA, "is None; give a non-empty object"),
    (choosing({}), CRITERIA, "is {}; give a non-empty object"),
    (choosing(["billing", "outage"]), CRITERIA, "is ['billing', 'outage']"),
    (choosing("billing"), CRITERIA, "is 'billing'"),
    (choosing({f"o{n}": None for n in range(27)}), CRITERIA, "has 27 options; offer at most 26"),
    (choosing({1: "a", "1": "b"}), CRITERIA, "has the option '1' more than once"),
    (choosing({"\ud800": None}), CRITERIA, "surrogate"),
    (choosing({"billing": "\ud800"}), CRITERIA, "surrogate"),
    (choosing({"billing": deep(100_000)}), CRITERIA, "nested too deeply"),
    # Score.
    (asking({"type": "score"}), CRITERIA, "is None; give a list of 2 to 10 levels"),
    (scoring({"calm": None, "cross": None}), CRITERIA, "give a list of 2 to 10 levels"),
    (scoring("calm"), CRITERIA, "is 'calm'"),
    (scoring([]), CRITERIA, "is a list of 0"),
    (scoring(["calm"]), CRITERIA, "is a list of 1 (['calm']); give 2 to 10 levels"),
    (scoring(list(range(11))), CRITERIA, "is a list of 11 ([0, 1, 2, ...]); give 2 to 10 levels"),
    (scoring(["calm", "calm"]), CRITERIA, "has the option 'calm' more than once"),
    (scoring([1, "1"]), CRITERIA, "has the option '1' more than once"),
    (scoring(["calm", "\ud800"]), f"{CRITERIA}.1", "surrogate"),
    (scoring(["calm", deep(100_000)]), f"{CRITERIA}.1", "nested too deeply"),
    # Noul.
    (asking({**NOUL, "criteria": []}), CRITERIA, "is []; give null, or an object"),
    (asking({**NOUL, "criteria": "yes"}), CRITERIA, "is 'yes'"),
    (asking({**NOUL, "criteria": False}), CRITERIA, "is False"),
    (asking({**NOUL, "criteria": {"yes": "x"}}), CRITERIA, "has the key 'yes'"),
    (asking({**NOUL, "criteria": {"true": "x", "maybe": "y"}}), CRITERIA, "has the key 'maybe'"),
    (asking({**NOUL, "criteria": {True: "x"}}), CRITERIA, "has the key True"),
    (asking({**NOUL, "criteria": {"false": "\ud800"}}), f"{CRITERIA}.false", "surrogate"),
    # Other fields.
    (body(model=3), "model", "is 3; give a model's name"),
    (body(model=["m"]), "model", "is ['m']"),
    (body(instructions=5), "instructions", "is 5; give a string for the system message"),
    (body(instructions={"role": "system"}), "instructions", "give a string"),
    (body(instructions="\ud800"), "instructions", ""),
    (body(images="http://x/y.png"), "images", "null or an empty list"),
    (body(images=["http://x/y.png"]), "images", "leave it out: only text is read"),
    (body(audio=[1]), "audio.0", "is 1"),
    (body(audio=["data:audio/wav;base64,"]), "audio", "only text is read"),
    (body(videos={}), "videos", "is {}"),
    (body(chat_template_kwargs=[]), KWARGS, "is []; give an object of variables"),
    (body(chat_template_kwargs="x"), KWARGS, "is 'x'"),
    (body(chat_template_kwargs={"enable_thinking": True}), f"{KWARGS}.enable_thinking", "is True; leave it out"),
    (body(chat_template_kwargs={"enable_thinking": "no"}), f"{KWARGS}.enable_thinking", "is 'no'"),
    (body(chat_template_kwargs={"tone": "\ud800"}), KWARGS, "surrogate"),
    (body(chat_template_kwargs={"tone": {1}}), KWARGS, "can't be written"),
    (body(cache_salt=""), "cache_salt", "is ''; give a string of 1 to 128 characters"),
    (body(cache_salt="s" * 129), "cache_salt", "1 to 128 characters"),
    (body(cache_salt="a@b"), "cache_salt", "is 'a@b'"),
    (body(cache_salt="a/b"), "cache_salt", "without @ / \\ NUL"),
    (body(cache_salt="a\\b"), "cache_salt", "without @"),
    (body(cache_salt="a\0b"), "cache_salt", r"is 'a\x00b'"),
    (body(cache_salt="@\n"), "cache_salt", "without @"),
    (body(cache_salt=12), "cache_salt", "is 12"),
    (body(priority="high"), "priority", "is 'high'; give a whole number of 64 bits"),
    (body(priority="1"), "priority", "is '1'"),
    (body(priority=1.5), "priority", "is 1.5"),
    (body(priority=True), "priority", "is True"),
    (body(priority=None), "priority", "is None"),
    (body(priority=2**63), "priority", "64 bits"),
    (body(priority=-(2**63) - 1), "priority", "64 bits"),
    (body(priority=10**5000), "priority", "64 bits"),
    (body(priority=float("nan")), "priority", "is nan"),
    (body(request_id=None), "request_id", "is None; give a non-empty string"),
    (body(request_id=""), "request_id", "non-empty"),
    (body(request_id=1), "request_id", "is 1"),
    (body(strategy="letters"), "strategy", "is 'letters'; give label, branch, or null"),
    (body(strategy=1), "strategy", "is 1"),
]

MALFORMED_BYTES = [
    (b"", "body", "is not JSON"),
    (b"{", "body", "line 1 column 2"),
    (b"\xff\xfe{}", "body", "is not UTF-8 (byte 0 is 0xff)"),
    (b'{"state": "\xc3("}', "body", "byte 11 is 0xc3"),
    (b"\xef\xbb\xbf{}", "body", "BOM"),
    (b"[" * 200_000, "body", "nested too deeply"),
    (b"[" + b"9" * 5000 + b"]", "body", "a number of thousands of digits"),
    (b'{"state": 1, "state": 2}', "body", "has the field 'state' more than once"),
    (b'{"state": 1, "questions": {"a": {}, "a": {}}}', "questions", "the question id 'a' more than once"),
    (b'{"state": 1, "questions": {"a": {"type": "noul", "type": "score"}}}', "questions.a", "the field 'type'"),
    (
        b'{"state": 1, "questions": {"a": {"type": "choice", "criteria": {"x": null, "x": "y"}}}}',
        "questions.a.criteria",
        "the option 'x' more than once; name each once",
    ),
    (b'{"state": "\\ud800", "questions": {"a": {"type": "noul"}}}', "state", "surrogate"),
]


def test_the_table_is_long_enough():
    assert len(MALFORMED) + len(MALFORMED_BYTES) >= 60


@pytest.mark.parametrize(
    ("value", "param", "fragment"), MALFORMED, ids=[f"{n}-{row[1][:40]}" for n, row in enumerate(MALFORMED)]
)
def test_a_malformed_request_is_one_error_with_field_value_and_fix(value, param, fragment):
    with pytest.raises(DecisionError) as caught:
        parse_decision(value)
    message = str(caught.value)
    assert caught.value.param == param
    assert message.startswith(param)
    assert fragment in message
    assert caught.value.fix
    assert len(message) < 500
    message.encode("utf-8")
    assert str(pickle.loads(pickle.dumps(caught.value))) == message


@pytest.mark.parametrize(("raw", "param", "fragment"), MALFORMED_BYTES)
def test_a_malformed_body_is_the_same_kind_of_error(raw, param, fragment):
    with pytest.raises(DecisionError) as caught:
        parse_decision(parse_body(raw))
    assert caught.value.param == param
    assert fragment in str(caught.value)


def test_one_bad_question_refuses_all():
    questions = {"a": CHOICE, "b": SCORE, "c": {"type": "score", "criteria": ["only one"]}}
    with pytest.raises(DecisionError, match=r"questions\.c\.criteria is a list of 1"):
        parse_decision(body(questions=questions))


def test_every_field_of_the_protocol_is_accepted():
    decision = parse_decision(
        {
            "model": None,
            "state": {"text": "né", "n": [1, 2.5, None]},
            "questions": {"z": CHOICE, "a": NOUL, "m": SCORE},
            "instructions": "Be strict.",
            "images": [],
            "audio": None,
            "videos": [],
            "chat_template_kwargs": {"enable_thinking": False, "tone": "dry"},
            "cache_salt": "s" * 128,
            "priority": -(2**63),
            "request_id": "r1",
            "joint": True,
            "whatever": {"else": 1},
        }
    )
    assert [question.id for question in decision.questions] == ["z", "a", "m"]
    assert decision.state == '{"text": "né", "n": [1, 2.5, null]}'
    assert decision.system == "Be strict."
    assert decision.request.request_id == "r1"


@pytest.mark.parametrize(("state", "text"), [(None, "null"), ("", ""), (False, "false"), ([], "[]"), ("a\nb", "a\nb")])
def test_any_state_is_accepted_but_none_at_all(state, text):
    assert parse_decision(body(state=state)).state == text


def test_a_request_without_an_id_gets_one_of_its_own():
    one, other = (parse_decision(body()).request for _ in range(2))
    assert one.request_id
    assert one.request_id != other.request_id
    assert (one.priority, one.model, one.cache_salt, one.strategy) == (0, None, None, None)


def test_the_limits_themselves_are_accepted():
    levels = {"type": "score", "criteria": list(range(10))}
    options = {"type": "choice", "criteria": {f"o{n}": None for n in range(26)}}
    lone = {"type": "choice", "criteria": {"only": None}}
    questions = {f"q{n}": NOUL for n in range(61)} | {"levels": levels, "options": options, "lone": lone}
    decision = parse_decision(body(questions=questions))
    assert [len(question.options) for question in decision.questions[-3:]] == [10, 26, 1]


def test_repeated_keys_inside_the_state_are_its_own_matter():
    raw = b'{"state": {"a": 1, "a": 2}, "questions": {"u": {"type": "noul", "criteria": null}}}'
    assert parse_decision(parse_body(raw)).state == '{"a": 2}'


def test_the_schema_says_what_the_checks_do():
    schema = DecisionRequest.model_json_schema()
    assert schema["required"] == ["state", "questions"]
    assert schema["properties"]["questions"]["maxProperties"] == 64
    assert schema["$defs"]["QuestionSpec"]["additionalProperties"] is False


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)
QUESTION = st.fixed_dictionaries(
    {}, optional={"type": st.sampled_from(["choice", "noul", "score"]) | JSON, "instructions": JSON, "criteria": JSON}
)
REQUEST = st.fixed_dictionaries(
    {"state": JSON, "questions": st.dictionaries(st.text(st.characters(), max_size=3), QUESTION | JSON, max_size=3)},
    optional={name: JSON for name in (*DecisionRequest.model_fields, "unknown") if name not in ("state", "questions")},
)


def outcome(read, value):
    """Return what came of it, and the error where it was one of ours; any other exception fails the test."""
    try:
        return read(value), None
    except DecisionError as error:
        return None, error


@given(JSON | REQUEST)
def test_any_json_is_a_decision_or_one_kind_of_error(value):
    decision, error = outcome(parse_decision, value)
    if error is not None:
        assert error.param
        assert str(error).encode("utf-8").startswith(error.param.encode("utf-8"))
    else:
        assert [question.id for question in decision.questions] == list(value["questions"])
        decision.state.encode("utf-8")


@given(st.binary(max_size=64) | JSON.map(lambda value: json.dumps(value).encode()))
def test_any_bytes_are_json_or_one_kind_of_error(raw):
    _, error = outcome(parse_body, raw)
    assert error is None or error.param == "body"


def test_nothing_but_pydantic_is_imported():
    code = (
        "import sys\n"
        "for name in ('vllm', 'torch', 'fastapi', 'transformers', 'numpy'): sys.modules[name] = None\n"
        "import radixflow.decisions\n"
        "ours = {name for name in sys.modules if name.startswith('radixflow.')}\n"
        "assert all(name.startswith(('radixflow.decisions', 'radixflow.errors')) for name in ours), ours\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_public_name_is_there():
    import radixflow.decisions as decisions

    assert sorted(decisions.__all__, key=decisions.__all__.index) == decisions.__all__
    assert all(hasattr(decisions, name) for name in decisions.__all__)
