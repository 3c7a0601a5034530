"""vLLM serves the embedded model as the benchmark needs it: prefix caching, salts, text and chat."""

import httpx
import pytest

from radixflow.bench.server import MODEL_NAME
from radixflow.bench.settings import checked_settings

BLOCK_SIZE = 32


@pytest.fixture(scope="module")
def calls():
    return checked_settings().workload("burst").calls(2, BLOCK_SIZE, stream="model tests")


def hit_tokens(arms, arm, calls, salt):
    results = arms.send(arm, calls, salt=salt)
    start, end = results[0].started, results[-1].ended
    records = arms.readers[arm].window(start, end, sum(len(call.prompts) for call in calls))
    return sum(record["cached_tokens"] for record in records)


def test_a_salt_shares_with_itself_and_with_no_other(arms, calls):
    prompts = len(calls[0].prompts)
    first = hit_tokens(arms, "stock", calls, "salt one")
    again = hit_tokens(arms, "stock", calls, "salt one")
    other = hit_tokens(arms, "stock", calls, "salt two")
    assert first == other == BLOCK_SIZE * (prompts - len(calls[0].decisions))
    assert again == BLOCK_SIZE * prompts


def test_margins_are_not_degenerate(arms, calls):
    (result,) = arms.send("stock", calls)
    spreads = [max(row) - min(row) for row in result.logprobs]
    assert min(spreads) > 0.1
    assert sorted(spreads)[len(spreads) // 2] > 1.0
    assert len({row.index(max(row)) for row in result.logprobs}) > 1


@pytest.mark.parametrize("arm", ["stock", "radixflow"])
def test_text_and_chat_are_served(arms, arm):
    with httpx.Client(base_url=arms.url(arm), timeout=60, trust_env=False) as client:
        text = {"model": MODEL_NAME, "prompt": "Is it raining? \u2603", "max_tokens": 3, "temperature": 0}
        answer = client.post("/v1/completions", json=text).raise_for_status().json()
        assert answer["usage"]["completion_tokens"] == 3
        messages = [{"role": "user", "content": "Is it raining?"}]
        chat = {"model": MODEL_NAME, "messages": messages, "max_tokens": 3, "temperature": 0}
        answer = client.post("/v1/chat/completions", json=chat).raise_for_status().json()
        assert 1 <= answer["usage"]["completion_tokens"] <= 3
        assert answer["choices"][0]["message"]["role"] == "assistant"


def test_tokens_are_those_of_the_tokenizer(arms):
    with httpx.Client(base_url=arms.url("stock"), timeout=60, trust_env=False) as client:
        body = {"model": MODEL_NAME, "prompt": "yes A"}
        tokens = client.post("/tokenize", json=body).raise_for_status().json()["tokens"]
        back = client.post("/detokenize", json={"model": MODEL_NAME, "tokens": tokens}).raise_for_status().json()
        assert back["prompt"] == "yes A"


def test_a_model_that_cannot_be_asked_is_a_501_and_serves_on(arms, calls):
    body = {"state": "It rains.", "questions": {"wet": {"type": "noul"}}}
    with httpx.Client(base_url=arms.url("stock"), timeout=60, trust_env=False) as client:
        reply = client.post("/v1/systemone", json=body)
        assert reply.status_code == 501
        assert "label 'yes' is 2 tokens" in reply.json()["error"]["message"]
        # Whether the request is one is found out by a model that can be asked.
        assert client.get("/v1/systemone/schema").status_code == 200
        stats = client.get("/v1/radixflow/stats").raise_for_status().json()
        assert stats["available"] is False
        assert "label 'yes'" in stats["reason"]
    assert arms.send("stock", calls)
    with httpx.Client(base_url=arms.url("planned"), timeout=60, trust_env=False) as client:
        # Nobody named the plugin there.
        assert client.post("/v1/systemone", json=body).status_code == 404
