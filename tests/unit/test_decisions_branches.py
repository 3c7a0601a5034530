"""Branches: which prompts a decision becomes, what they share, and what the scheduler is told."""

from __future__ import annotations

import json

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from radixflow.decisions import (
    DecisionError,
    LabelForm,
    ReadStrategy,
    branch_hints,
    encode_branches,
    letters_manifest,
    parse_decision,
    parse_manifest,
    plan_branches,
    render_chat,
)
from radixflow.engine import hints as scheduler_hints
from radixflow.models.tokenizer import tokenizer_json, vocabulary

TEAM = {"type": "choice", "instructions": "Which team?", "criteria": {"billing": "money", "outage": None}}
URGENT = {"type": "noul", "instructions": "Urgent?"}


def decide(questions, **fields):
    return parse_decision({"state": "It broke.", "questions": questions, **fields})


def manifest(**strategies):
    return parse_manifest({"strategies": strategies}, "a test")


def prompts(plan):
    return [plan.shared + branch.own for branch in plan.branches]


def test_a_label_read_is_one_user_turn_a_question():
    plan = plan_branches(decide({"team": TEAM, "urgent": URGENT}), letters_manifest())
    assert (plan.strategy, plan.is_chat, plan.shared) == (ReadStrategy.LABEL, True, "It broke.\n\n")
    assert prompts(plan) == [
        "It broke.\n\nQuestion: Which team?\nA: billing - money\nB: outage\nAnswer with the letter of one option only.",
        "It broke.\n\nQuestion: Urgent?\nyes\nno\nAnswer with yes or no only.",
    ]
    assert [(branch.question_id, branch.labels, branch.option) for branch in plan.branches] == [
        ("team", ("A", "B"), None),
        ("urgent", ("yes", "no"), None),
    ]
    assert plan.messages(plan.branches[1]) == [{"role": "user", "content": prompts(plan)[1]}]


def test_the_system_message_comes_first_where_there_is_one():
    plan = plan_branches(decide({"urgent": URGENT}, instructions="Be strict."), letters_manifest())
    assert plan.messages(plan.branches[0])[0] == {"role": "system", "content": "Be strict."}
    assert (
        len(plan_branches(decide({"u": URGENT}, instructions=""), letters_manifest()).messages(plan.branches[0])) == 1
    )


def test_a_label_template_is_the_whole_prompt():
    label = {"label_form": "names", "label_form_by_type": {"score": "letters"}, "template": "<{state}>\n{question}\n= "}
    mood = {"type": "score", "criteria": ["calm", "cross"]}
    plan = plan_branches(decide({"team": TEAM, "mood": mood}), manifest(label=label))
    assert (plan.is_chat, plan.shared) == (False, "<It broke.>\n")
    assert [branch.own for branch in plan.branches] == [
        "Question: Which team?\nbilling: money\noutage\nAnswer with the name of one option only.\n= ",
        "0: calm\n1: cross\nAnswer with the number of one level only.\n= ",
    ]
    assert [branch.form for branch in plan.branches] == [LabelForm.NAMES, LabelForm.LETTERS]
    assert [branch.labels for branch in plan.branches] == [("billing", "outage"), ("0", "1")]


BRANCH = manifest(branch={"template": "{system}{state}\n{question}\n[{options}]\n-> {option}."})


def test_a_branch_read_is_one_prompt_an_option():
    plan = plan_branches(decide({"team": TEAM, "urgent": URGENT}, instructions="Go: "), BRANCH)
    assert (plan.strategy, plan.is_chat, plan.shared) == (ReadStrategy.BRANCH, False, "Go: It broke.\n")
    assert [(branch.question_id, branch.option, branch.own) for branch in plan.branches] == [
        ("team", 0, "Question: Which team?\n[billing: money\noutage]\n-> billing: money."),
        ("team", 1, "Question: Which team?\n[billing: money\noutage]\n-> outage."),
        ("urgent", 0, "Question: Urgent?\n[yes\nno]\n-> yes."),
        ("urgent", 1, "Question: Urgent?\n[yes\nno]\n-> no."),
    ]


def test_candidates_of_a_lone_question_share_it_too():
    plan = plan_branches(decide({"urgent": URGENT}), BRANCH)
    assert plan.shared == "It broke.\nQuestion: Urgent?\n[yes\nno]\n-> "
    assert [branch.own for branch in plan.branches] == ["yes.", "no."]


def test_the_largest_decision_is_a_group_the_scheduler_takes():
    options = {"type": "choice", "criteria": {f"o{n}": None for n in range(26)}}
    plan = plan_branches(decide({f"q{n}": options for n in range(64)}), BRANCH)
    assert len(plan.branches) == 64 * 26 <= scheduler_hints.LARGEST_GROUP


def test_a_system_message_without_a_place_is_refused_not_dropped():
    only_state = manifest(branch={"template": "{state}{question}{option}"})
    with pytest.raises(DecisionError, match="have no place for it; leave it out") as caught:
        plan_branches(decide({"urgent": URGENT}, instructions="Be strict."), only_state)
    assert caught.value.param == "instructions"


def test_asking_for_the_other_strategy_is_refused():
    with pytest.raises(DecisionError, match="trained for 'label'"):
        plan_branches(decide({"urgent": URGENT}, strategy="branch"), letters_manifest())


def chatml(messages):
    turns = "".join(f"<{turn['role']}>{turn['content']}</>" for turn in messages)
    return f"{turns}<assistant>"


@pytest.mark.parametrize("system", [None, "It broke.\n\n"])
def test_a_chat_template_is_put_around_every_branch(system):
    plan = plan_branches(decide({"team": TEAM, "urgent": URGENT}, instructions=system), letters_manifest())
    rendered = render_chat(plan, chatml)
    assert not rendered.is_chat
    assert rendered.shared == ("<system>It broke.\n\n</>" if system else "") + "<user>It broke.\n\n"
    assert prompts(rendered) == [chatml(plan.messages(branch)) for branch in plan.branches]
    assert render_chat(rendered, chatml) is rendered


@pytest.mark.parametrize(
    "render",
    [
        lambda messages: f"<{messages[-1]['content'].strip().upper()}>",
        lambda messages: messages[-1]["content"][::-1],
        lambda messages: f"{len(messages[-1]['content'])}{chatml(messages)}",
    ],
)
def test_a_template_that_changes_the_text_is_followed(render):
    questions = {"team": TEAM, "urgent": URGENT, "other": TEAM}
    plan = plan_branches(decide(questions, state="\n s "), letters_manifest())
    rendered = render_chat(plan, render)
    assert prompts(rendered) == [render(plan.messages(branch)) for branch in plan.branches]
    assert [branch.labels for branch in rendered.branches] == [branch.labels for branch in plan.branches]


def test_hints_say_group_size_and_shared_tokens():
    assert branch_hints("decision-7", 4, 2500) == {
        "radixflow_group": "decision-7",
        "radixflow_group_size": 4,
        "radixflow_shared_tokens": 2500,
    }
    assert tuple(branch_hints("decision-7", 4, 2500)) == (
        scheduler_hints.GROUP,
        scheduler_hints.GROUP_SIZE,
        scheduler_hints.SHARED_TOKENS,
    )


@pytest.mark.parametrize(
    ("group", "size", "shared", "keys"),
    [
        ("d", 1, 100, 2),
        ("d", 4, 0, 2),
        ("d", 0, 9, 0),
        ("d", 4_097, 9, 0),
        ("d", 4_096, 9, 3),
        ("\ud800" * 300, 2, 9, 3),
    ],
)
def test_hints_are_what_the_scheduler_does_not_ignore(group, size, shared, keys):
    hints = branch_hints(group, size, shared)
    assert len(hints) == keys
    assert 0 < len(hints.get("radixflow_group", "d")) <= 256


@pytest.fixture(scope="module")
def tokenizer():
    return tokenizers.Tokenizer.from_str(json.dumps(tokenizer_json(vocabulary(320))))


def encode_with(tokenizer, calls=None):
    def encode(text):
        if calls is not None:
            calls.append(len(text))
        return tokenizer.encode(text, add_special_tokens=False).ids

    return encode


def decode_with(tokenizer):
    return lambda ids: tokenizer.decode(list(ids), skip_special_tokens=False)


def test_the_shared_part_is_tokenised_once(tokenizer):
    calls = []
    shared = "the invoice is wrong and nobody answers. " * 50
    owns = [f"Question: {word}?" for word in ("urgent", "angry", "billing", "fraud")]
    encoded = encode_branches(shared, owns, encode_with(tokenizer, calls), decode_with(tokenizer))
    assert encoded.prompts == tuple(tuple(encode_with(tokenizer)(shared + own)) for own in owns)
    assert sum(length > 200 for length in calls) == 1
    assert encoded.shared_tokens >= len(encode_with(tokenizer)(shared))


WORDS = st.lists(
    st.sampled_from(["the ", "of", " in", "\n", "é", "<|im_end|>", "invoice", "  ", ".", "日本"]), max_size=60
)


@given(shared=WORDS, owns=st.lists(WORDS, min_size=1, max_size=4))
def test_branches_are_encoded_as_if_whole(tokenizer, shared, owns):
    shared, owns = "".join(shared), ["".join(own) for own in owns]
    encoded = encode_branches(shared, owns, encode_with(tokenizer), decode_with(tokenizer))
    assert encoded.prompts == tuple(tuple(encode_with(tokenizer)(shared + own)) for own in owns)
    assert len({prompt[: encoded.shared_tokens] for prompt in encoded.prompts}) == 1
    if len(owns) > 1 and len(set(owns)) > 1:
        assert encoded.shared_tokens <= min(len(prompt) for prompt in encoded.prompts)


def test_a_tokenizer_that_joins_across_the_cut_is_followed():
    def encode(text):
        # One id a character, but a trailing run of "a" is one token whatever its length.
        body = text.rstrip("a")
        return [*map(ord, body), *([1_000 + len(text) - len(body)] if len(body) < len(text) else [])]

    def decode(ids):
        return "".join("a" * (index - 1_000) if index > 1_000 else chr(index) for index in ids)

    shared = "b" * 100 + "a" * 5
    encoded = encode_branches(shared, ["aa", "c"], encode, decode)
    assert encoded.prompts == (tuple(encode(shared + "aa")), tuple(encode(shared + "c")))
    assert encoded.shared_tokens == 100
