"""Refusals of settings, policies, manifests and models, provoked and compared with the documents that quote them."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from quotes import assert_quoted

from radixflow.config import RadixFlowConfig, load_config
from radixflow.decisions import (
    LabelReader,
    ReadStrategy,
    letter_sets,
    letter_tokens,
    load_manifest,
    name_tokens,
    parse_decision,
    parse_manifest,
    parse_template,
)
from radixflow.policies import resolve_policy
from radixflow.serving.model import runnable
from radixflow.serving.prompts import Prompts
from radixflow.serving.settings import check_settings, load_settings
from radixflow.telemetry import JsonLinesSink

LABEL = {"label_form": "names", "template": "{state}\n\n{question}\nAnswer: "}
BRANCH = {"template": "{state}\n{question}\n{option}"}


def written(name, text):
    Path(name).write_text(text)
    return name


def policy(spec):
    return resolve_policy(RadixFlowConfig(policy=spec))


def policy_file(body):
    return policy(written("mine.py", body) + ":Mine")


def no_loader(monkeypatch):
    # A file whose name ends in .py always has one; an import hook may see that otherwise.
    monkeypatch.setattr(importlib.util, "spec_from_file_location", lambda name, path: None)
    return policy_file("")


WRONG_PART = """
from radixflow.policies import Policy
class Mine(Policy):
    def __init__(self, config):
        super().__init__("mine", admission="five milliseconds")
"""

SETTINGS = {
    "unknown-setting": lambda: load_config({"radixflow": {"wait": 5}}),
    "settings-kind": lambda: load_config({"radixflow": [5]}),
    "misspelt-key": lambda: load_config({"radixflw": {"wait_ms": 5}}),
    "settings-json": lambda: load_config(None, {"RADIXFLOW_CONFIG": "{wait_ms: 5}"}),
    "trace-path": lambda: JsonLinesSink("gone/rounds.jsonl"),
    "unknown-policy": lambda: policy("planed"),
    "missing-policy-file": lambda: policy("gone.py:Mine"),
    "no-policy": lambda: policy("json:dumps"),
    "policy-module": lambda: policy("gone.policies:Mine"),
    "policy-class": lambda: policy_file("import json\n"),
    "policy-import": lambda: policy_file("1 / 0\n"),
    "policy-kind": lambda: policy("builtins:dict"),
    "policy-part": lambda: policy_file(WRONG_PART),
    "endpoint-json": lambda: load_settings({"RADIXFLOW_ENDPOINT": "near_tie_margin=0.1"}),
    "endpoint-field": lambda: check_settings({"near_tie_margin": 2}, "serve"),
    "endpoint-unknown": lambda: check_settings({"margin": 0.1}, "RADIXFLOW_ENDPOINT"),
}


def template(text, strategy="label"):
    return lambda: parse_template(text, ReadStrategy(strategy), "template")


MANIFESTS = {
    "manifest-missing": lambda: load_manifest(Path("gone.json")),
    "manifest-json": lambda: load_manifest(Path(written("m.json", "{format: 1}"))),
    "manifest-field": lambda: parse_manifest({"format": 2, "strategies": {"label": LABEL}}, "m.json"),
    "manifest-empty": lambda: parse_manifest({"strategies": {}}, "m.json"),
    "template-end": template("{state}{question}"),
    "template-unknown": template("{stat}{question}!"),
    "template-twice": template("{state}{state}{question}!"),
    "template-lacks": template("{state}{question}", "branch"),
    "template-order": template("{question} {state}!"),
}


class Letters:
    """A tokenizer: an id a character, but for the pieces it knows."""

    def __init__(self, *pieces):
        self.pieces = list(pieces)

    def encode(self, text, **_):
        for place, piece in enumerate(self.pieces):
            if piece in text:
                head, _, tail = text.partition(piece)
                return [*self.encode(head), 10_000 + place, *self.encode(tail)]
        return [ord(letter) for letter in text]

    def decode(self, ids, **_):
        return "".join(self.pieces[index - 10_000] if index >= 10_000 else chr(index) for index in ids)

    def get_added_vocab(self):
        return {}

    def apply_chat_template(self, *_, **__):
        return self.answer()


def reads(*pieces):
    words = Letters(*pieces)
    return lambda: letter_tokens(LabelReader(words.encode, words.decode, tuple(words.encode("\n"))), letter_sets())


def same_token():
    words = Letters("yes", "no")
    words.encode = lambda text: [10, 65] if text in ("\nA", "\nB") else [ord(letter) for letter in text]
    words.decode = lambda ids: "".join(map(chr, ids))
    return letter_tokens(LabelReader(words.encode, words.decode, (10,)), letter_sets())


def chat(answer):
    words = Letters()
    words.answer = answer
    return lambda: Prompts(words).renderer()([{"role": "user", "content": "Hello"}])


def run(strategies, runner, tasks=("generate",), logprobs="raw_logprobs"):
    manifest = None if strategies is None else parse_manifest({"strategies": strategies}, "m.json")
    return lambda: runnable(manifest, SimpleNamespace(runner_type=runner, logprobs_mode=logprobs), tasks)


MODELS = {
    "served-without-manifest": run(None, "pooling"),
    "served-otherwise": run({"branch": BRANCH}, "generate"),
    "served-without-classifier": run({"branch": BRANCH}, "pooling", ("embed",)),
    "served-with-logits": run({"label": LABEL}, "generate", logprobs="raw_logits"),
    "label-of-tokens": reads("no"),
    "label-that-joins": reads("yes", "no", "\nB"),
    "label-twice": same_token,
    "chat-template-fails": chat(lambda: json.loads("{")),
    "chat-template-kind": chat(lambda: 5),
}


def decide(question):
    return parse_decision({"state": "s", "questions": {"mood": question}})


def same_first_token():
    """A tokenizer that has `bill` as one token, the 312th, and no `billing`."""
    words = Letters("bill")
    encode, decode = words.encode, words.decode
    words.encode = lambda text: [312 if index == 10_000 else index for index in encode(text)]
    words.decode = lambda ids: decode([10_000 if index == 312 else index for index in ids])
    name_tokens(LabelReader(words.encode, words.decode, (10,)), "team", ["outage", "bill", "billing"])


REQUESTS = {
    "criteria": lambda: decide({"type": "score", "instructions": "How?", "criteria": ["calm"]}),
    "same-token": same_first_token,
}

RAISED = {**SETTINGS, **MANIFESTS, **MODELS, **REQUESTS}


@pytest.mark.parametrize("name", RAISED)
def test_what_is_quoted_is_raised(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Exception, match=r".") as caught:
        RAISED[name]()
    assert_quoted(name, caught.value)


def test_a_file_without_a_loader_is_no_python_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Exception, match=r".") as caught:
        no_loader(monkeypatch)
    assert_quoted("policy-loader", caught.value)
