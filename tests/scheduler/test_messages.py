"""Every refusal, warning and error that a document quotes is one that the code really gives, word for word.

A quote is an indented block after ``<!-- message: NAME -->``; ``...`` in it stands for anything. Each name has a case
below that provokes the real thing. A quote without a case fails, and so does a case that no document quotes.
"""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import pytest

import radixflow
from radixflow.config import RadixFlowConfig
from radixflow.decisions import parse_decision
from radixflow.engine import scheduler as module
from radixflow.engine.compat import RELEASES, VllmRelease, check_release, check_relied_on
from radixflow.engine.support import check_configuration, prepare_rewrite
from radixflow.policies import resolve_policy
from radixflow.simulate.rig import build_scheduler, vllm_config
from radixflow.telemetry import JsonLinesSink

ROOT = Path(__file__).parents[2]
QUOTE = re.compile(r"<!-- message: ([\w-]+) -->\n+((?:    .+\n)+)")
QUOTES = [
    (path.name, name, " ".join(text.split()))
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    for name, text in QUOTE.findall(path.read_text())
]
RELEASE = RELEASES["0.29.0"]


def model(**flags):
    kind = SimpleNamespace(**{"is_encoder_decoder": False, "is_diffusion": False, **flags})
    parallel = SimpleNamespace(pipeline_parallel_size=1)
    return SimpleNamespace(parallel_config=parallel, kv_transfer_config=None, model_config=kind)


def build(settings=None, **options):
    return build_scheduler(radixflow.Scheduler, vllm_config(settings=settings, **options))


def decide(question):
    return parse_decision({"state": "s", "questions": {"mood": question}})


RAISED = {
    "pipeline": lambda: build({"policy": "planned"}, pipeline_parallel_size=2),
    "connector": lambda: build({"policy": "planned"}, kv_connector="ExampleConnector"),
    "encoder-decoder": lambda: check_configuration(model(is_encoder_decoder=True)),
    "diffusion": lambda: check_configuration(model(is_diffusion=True)),
    "version": lambda: check_release("0.31.0", "0" * 64),
    "source": lambda: check_release("0.29.0", "0" * 64),
    "relied-on": lambda: check_relied_on(
        VllmRelease("0.29.0", "", (), {}, "", {next(iter(RELEASE.relied_on)): "0" * 64})
    ),
    "wrapper": lambda: prepare_rewrite(len, "0.29.0"),
    "sync-in-async": lambda: build_scheduler(module.SyncVariant, vllm_config(async_scheduling=True, settings={})),
    "async-in-sync": lambda: build_scheduler(module.AsyncVariant, vllm_config(settings={})),
    "range": lambda: build({"wait_ms": 500}),
    "unknown-policy": lambda: resolve_policy(RadixFlowConfig(policy="planed")),
    "missing-policy-file": lambda: resolve_policy(RadixFlowConfig(policy="gone.py:Mine")),
    "no-policy": lambda: resolve_policy(RadixFlowConfig(policy="json:dumps")),
    "trace-path": lambda: JsonLinesSink("gone/rounds.jsonl"),
    "criteria": lambda: decide({"type": "score", "instructions": "How?", "criteria": ["calm"]}),
}


def oversized(make_bench, tokens):
    make_bench("planned", block_size=16, num_blocks=10).add("X", tokens("x", 400))


def native_instead(make_bench, tokens):
    make_bench("planned", settings={"on_unsupported": "native"}, pipeline_parallel_size=2)


def caching_off(make_bench, tokens):
    make_bench("planned", caching=False)


LOGGED = {"native-instead": native_instead, "caching-off": caching_off, "oversized": oversized}
ELSEWHERE = {"same-token": "tests/unit/test_decisions_labels.py"}
"""Quotes that another test provokes, because it has what they need."""


def matches(quote, message):
    pattern = ".*".join(map(re.escape, quote.split("...")))
    return re.fullmatch(pattern, " ".join(str(message).split())) is not None


def quoted(name):
    return [text for _, found, text in QUOTES if found == name]


@pytest.mark.parametrize("name", RAISED)
def test_what_is_quoted_is_raised(name):
    with pytest.raises(Exception, match=r".") as caught:
        RAISED[name]()
    assert quoted(name), f"no document quotes {name}: {caught.value}"
    for quote in quoted(name):
        assert matches(quote, caught.value), f"documented: {quote}\nraised: {caught.value}"


@pytest.mark.parametrize("name", LOGGED)
def test_what_is_quoted_is_logged(make_bench, tokens, logged, name):
    LOGGED[name](make_bench, tokens)
    messages = logged("WARNING")
    assert len(messages) == 1, messages
    assert quoted(name), f"no document quotes {name}: {messages}"
    for quote in quoted(name):
        assert matches(quote, messages[0]), f"documented: {quote}\nlogged: {messages[0]}"


def test_every_quote_has_its_case():
    assert {name for _, name, _ in QUOTES} == {*RAISED, *LOGGED, *ELSEWHERE}
    for name, file in ELSEWHERE.items():
        assert name in (ROOT / file).read_text(), f"{file} doesn't say that it provokes {name}"


def test_every_row_of_what_is_refused_is_quoted():
    text = (ROOT / "docs/compatibility.md").read_text()
    (table,) = re.findall(r"## Refused on purpose\n\n((?:\|.*\n)+)", text)
    assert len(table.splitlines()) - 2 == 5
    assert all(quoted(name) for name in ("pipeline", "connector", "encoder-decoder", "diffusion", "sync-in-async"))
