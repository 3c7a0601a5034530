"""Hints over HTTP, in `vllm_xargs`: taken, and never trusted with an answer."""

import secrets

import httpx
import pytest

from radixflow.bench.client import read_logprobs, request_body
from radixflow.bench.measure import Answer, compare
from radixflow.bench.server import MODEL_NAME
from radixflow.bench.settings import checked_settings
from radixflow.bench.workloads import Call

GROUP, SIZE, SHARED = "radixflow_group", "radixflow_group_size", "radixflow_shared_tokens"

HOSTILE = [
    {GROUP: "", SIZE: 4, SHARED: 600},
    {GROUP: "g" * 100_000, SIZE: 4},
    {GROUP: "\u2603\u0000", SIZE: 4},
    {GROUP: 17, SIZE: 4},
    {GROUP: ["a", "b"], SIZE: [1, 2], SHARED: [3]},
    {GROUP: "nobody else comes", SIZE: 4096, SHARED: 600},
    {GROUP: "too large", SIZE: 4097},
    {GROUP: "negative", SIZE: -4, SHARED: -600},
    {GROUP: "zero", SIZE: 0, SHARED: 0},
    {GROUP: "no number", SIZE: "four", SHARED: "all"},
    {GROUP: "huge", SIZE: 1e308, SHARED: 1e308},
    # vLLM itself answers 500 to anything beyond 64 bits.
    {GROUP: "whole", SIZE: 2**64 - 1, SHARED: 2**64 - 1},
    {GROUP: "fractions", SIZE: 3.5, SHARED: 599.5},
    {GROUP: "past the end", SIZE: 4, SHARED: 100_000},
    {GROUP: "first token", SIZE: 4, SHARED: 1},
    {SIZE: 4, SHARED: 600},
    {SHARED: 599},
    {"radixflow_": 1, "radixflow_group_size_": "x", GROUP.upper(): "x"},
]


def ask(arms, arm, call, hints=None, salt=None):
    """Send a call, to a cache namespace of its own by default; return its answers."""
    body = request_body(call, MODEL_NAME, salt or secrets.token_hex(12))
    if hints is not None:
        body["vllm_xargs"] = hints
    with httpx.Client(base_url=arms.url(arm), timeout=60, trust_env=False) as client:
        response = client.post("/v1/completions", json=body)
    assert response.status_code == 200, response.text[:500]
    return [Answer(row) for row in read_logprobs(response.json(), len(call.prompts))]


def assert_same(expected, answers):
    # A hint may end a chunk elsewhere, which changes roundings; a wrong state changes whole nats.
    agreement = compare([expected], [answers])
    assert agreement.compared == len(expected)
    assert agreement.max_delta_logprob < 0.3
    for change in agreement.changed:
        assert change.reference_margin <= 2 * agreement.max_delta_logprob, change


@pytest.fixture(scope="module")
def call():
    return checked_settings().workload("long").calls(1, 32, stream="hints")[0]


@pytest.fixture(scope="module")
def expected(arms, call):
    return ask(arms, "stock", call)


@pytest.mark.parametrize("arm", ["stock", "radixflow", "planned"])
def test_hints_are_taken_and_answers_stay(arms, call, expected, arm):
    hints = {GROUP: "one decision", SIZE: len(call.prompts), SHARED: call.decisions[0].shared}
    assert_same(expected, ask(arms, arm, call, hints))


def test_hints_of_siblings_that_come_one_by_one(arms, call, expected):
    salt, decision = secrets.token_hex(12), call.decisions[0]
    hints = {GROUP: "in turn", SIZE: len(call.prompts), SHARED: decision.shared}
    alone = [Call((type(decision)(decision.shared, (prompt,)),)) for prompt in decision.prompts]
    assert_same(expected, [answer for one in alone for answer in ask(arms, "planned", one, hints, salt)])


@pytest.mark.parametrize("hints", HOSTILE, ids=lambda hints: str(hints)[:40])
def test_hostile_hints_change_no_answer(arms, call, expected, hints):
    assert_same(expected, ask(arms, "planned", call, hints))


def test_the_scheduler_outlives_all_of_it(arms, call, expected):
    assert_same(expected, ask(arms, "planned", call))
    reader = arms.readers["planned"]
    reader.poll()
    assert reader.records
    assert sum(record["fallbacks"] for record in reader.records) == 0
