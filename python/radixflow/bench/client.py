"""The closed loop: a fixed number of calls in flight, each with the prompts of its decisions."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import httpx

from radixflow.bench.workloads import LABEL_IDS, Call, Prompt
from radixflow.client.calls import IDLE_S

Logprobs = tuple[float, ...]


@dataclass(frozen=True)
class CallResult:
    """What came back for one call.

    Times are monotonic seconds (the clock that the server's trace uses).  `logprobs` holds, per prompt in the
    order sent, the full-vocabulary log-probability of each label; it is empty if the call failed.
    """

    index: int
    started: float
    ended: float
    logprobs: tuple[Logprobs, ...]
    prompt_tokens: int
    error: str | None = None

    @property
    def latency_ms(self) -> float:
        """Milliseconds from sending the request to having the whole response."""
        return (self.ended - self.started) * 1e3


@dataclass(frozen=True)
class _Reply:
    index: int
    started: float
    ended: float
    response: httpx.Response | None
    error: str | None


def request_body(call: Call, model: str, salt: str) -> dict[str, object]:
    """Return the JSON body of `/v1/completions`: one token, greedy, the labels' log-probabilities by id.

    Stock vLLM gives a list of prompts one arrival time and queues them in order.
    """
    return {
        "model": model,
        "prompt": [list(prompt) for prompt in call.prompts],
        "max_tokens": 1,
        "temperature": 0,
        "logprobs": len(LABEL_IDS),
        "logprob_token_ids": list(LABEL_IDS),
        "return_tokens_as_token_ids": True,
        "cache_salt": salt,
    }


def read_logprobs(document: dict[str, object], prompts: int) -> tuple[Logprobs, ...]:
    """Return the label log-probabilities of each prompt, in the order sent.

    Raises:
        ValueError: when a choice or a label is missing; the message says which.
    """
    choices = document.get("choices")
    if not isinstance(choices, list) or len(choices) != prompts:
        raise ValueError(f"expected {prompts} choices, got {len(choices) if isinstance(choices, list) else choices}")
    rows: list[Logprobs] = []
    for choice in sorted(choices, key=lambda item: int(item["index"])):
        by_token = choice["logprobs"]["top_logprobs"][0]
        try:
            rows.append(tuple(float(by_token[f"token_id:{label}"]) for label in LABEL_IDS))
        except KeyError as error:
            raise ValueError(f"choice {choice['index']} lacks the log-probability of {error}") from error
    return tuple(rows)


def _read_completions(document: dict[str, Any], call: Call) -> tuple[tuple[Logprobs, ...], int]:
    return read_logprobs(document, len(call.prompts)), int(document["usage"]["prompt_tokens"])


def _text(tokens: Prompt) -> str:
    # Token ids of these workloads are printable ASCII bytes.
    return bytes(tokens).decode("ascii")


def _systemone_body(call: Call, model: str, salt: str) -> dict[str, object]:
    """Return a decision's body: the shared part is the state, each prompt's own part a yes-or-no question."""
    (decision,) = call.decisions
    shared = decision.shared
    questions = {
        f"q{number}": {"type": "noul", "instructions": _text(prompt[shared:])}
        for number, prompt in enumerate(decision.prompts)
    }
    return {"state": f"{salt} {_text(decision.prompts[0][:shared])}", "questions": questions}


def _read_systemone(document: dict[str, Any], call: Call) -> tuple[tuple[Logprobs, ...], int]:
    if len(document["answers"]) != len(call.prompts):
        raise ValueError(f"expected {len(call.prompts)} answers, got {len(document['answers'])}")
    # The server's own tokens are not ours to count.
    return (), sum(map(len, call.prompts))


@dataclass(frozen=True)
class Protocol:
    """How a server is asked."""

    path: str
    body: Callable[[Call, str, str], dict[str, object]]
    read: Callable[[dict[str, Any], Call], tuple[tuple[Logprobs, ...], int]]


COMPLETIONS = Protocol("/v1/completions", request_body, _read_completions)
SYSTEMONE = Protocol("/v1/systemone", _systemone_body, _read_systemone)
PROTOCOLS = MappingProxyType({"completions": COMPLETIONS, "systemone": SYSTEMONE})


def _finish(reply: _Reply, call: Call, protocol: Protocol) -> CallResult:
    error, tokens = reply.error, 0
    rows: tuple[Logprobs, ...] = ()
    if reply.response is not None:
        if reply.response.status_code != 200:
            error = f"HTTP {reply.response.status_code}: {reply.response.text[:300]}"
        else:
            try:
                document = reply.response.json()
                rows, tokens = protocol.read(document, call)
            except (ValueError, KeyError, TypeError, IndexError) as problem:
                error, rows = f"unreadable answer: {problem!r}", ()
    return CallResult(reply.index, reply.started, reply.ended, rows, tokens, error)


async def drive(
    url: str,
    calls: Sequence[Call],
    concurrency: int,
    *,
    model: str,
    salt: str,
    timeout_s: float,
    advance: Callable[[Call], None],
    starts: Sequence[float] | None = None,
    protocol: Protocol = COMPLETIONS,
    headers: Mapping[str, str] | None = None,
) -> list[CallResult]:
    """Send `calls` with `concurrency` in flight, each worker waiting for its answer before its next call.

    Args:
        url: root of the server.
        calls: what to send, in order.
        concurrency: calls in flight.
        model: served model name.
        salt: `cache_salt` of every call: prompts of another salt share nothing with these.
        timeout_s: seconds for one call; a call that takes longer is a failed one.
        advance: called after each call.
        starts: an open loop instead: seconds after the first one at which each call is sent, answered or not. With
            `concurrency` calls in flight a call waits, and its latency counts from when it should have been sent.
        protocol: how a call is written, and its answer read.
        headers: of every request.

    Returns:
        One result per call, in the order of `calls`; failures are results too, with `error` set.
    """
    bodies = [protocol.body(call, model, salt) for call in calls]
    begin = time.monotonic()
    replies: list[_Reply] = []
    waiting = iter(enumerate(bodies))

    async def worker(client: httpx.AsyncClient) -> None:
        for index, body in waiting:
            if starts is not None:
                await asyncio.sleep(max(0.0, begin + starts[index] - time.monotonic()))
            started = time.monotonic() if starts is None else begin + starts[index]
            response, error = None, None
            try:
                response = await client.post(protocol.path, json=body)
            except httpx.HTTPError as problem:
                error = f"{type(problem).__name__}: {problem}"
            # Answers are parsed after the cell, so that the client's work does not delay the next call.
            replies.append(_Reply(index, started, time.monotonic(), response, error))
            advance(calls[index])

    limits = httpx.Limits(max_connections=concurrency, max_keepalive_connections=concurrency, keepalive_expiry=IDLE_S)
    async with httpx.AsyncClient(
        base_url=url, timeout=timeout_s, limits=limits, trust_env=False, headers=dict(headers or {})
    ) as client:
        await asyncio.gather(*(worker(client) for _ in range(min(concurrency, len(calls)))))
    return [_finish(reply, calls[reply.index], protocol) for reply in sorted(replies, key=lambda reply: reply.index)]
