"""The closed loop: a fixed number of calls in flight, each with the prompts of its decisions."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import httpx

from radixflow.bench.workloads import LABEL_IDS, Call

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


def _finish(reply: _Reply, call: Call) -> CallResult:
    error, tokens = reply.error, 0
    rows: tuple[Logprobs, ...] = ()
    if reply.response is not None:
        if reply.response.status_code != 200:
            error = f"HTTP {reply.response.status_code}: {reply.response.text[:300]}"
        else:
            try:
                document = reply.response.json()
                rows = read_logprobs(document, len(call.prompts))
                tokens = int(document["usage"]["prompt_tokens"])
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

    Returns:
        One result per call, in the order of `calls`; failures are results too, with `error` set.
    """
    bodies = [request_body(call, model, salt) for call in calls]
    replies: list[_Reply] = []
    waiting = iter(enumerate(bodies))

    async def worker(client: httpx.AsyncClient) -> None:
        for index, body in waiting:
            started = time.monotonic()
            response, error = None, None
            try:
                response = await client.post("/v1/completions", json=body)
            except httpx.HTTPError as problem:
                error = f"{type(problem).__name__}: {problem}"
            # Answers are parsed after the cell, so that the client's work does not delay the next call.
            replies.append(_Reply(index, started, time.monotonic(), response, error))
            advance(calls[index])

    limits = httpx.Limits(max_connections=concurrency, max_keepalive_connections=concurrency)
    async with httpx.AsyncClient(base_url=url, timeout=timeout_s, limits=limits, trust_env=False) as client:
        await asyncio.gather(*(worker(client) for _ in range(min(concurrency, len(calls)))))
    return [_finish(reply, calls[reply.index]) for reply in sorted(replies, key=lambda reply: reply.index)]
