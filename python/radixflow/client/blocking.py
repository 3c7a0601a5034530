"""The blocking client."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Self, TypeVar

import httpx

from radixflow.client import calls, replies
from radixflow.client.course import Pause, Steps, run_call
from radixflow.client.failures import broken
from radixflow.client.retry import RetrySchedule
from radixflow.decisions import DecisionResponse

T = TypeVar("T")


class DecisionClient:
    """Asks a server for decisions, one at a time; may be shared by threads. Close it, or use it in a ``with``."""

    def __init__(
        self,
        base_url: str = calls.DEFAULT_URL,
        *,
        api_key: str | None = None,
        timeout: float | None = calls.DEFAULT_TIMEOUT_S,
        retries: int | RetrySchedule = 2,
    ) -> None:
        """Prepare; nothing is sent yet.

        Args:
            base_url: the server, such as ``http://127.0.0.1:8000``.
            api_key: sent as a bearer token.
            timeout: seconds to connect, and seconds without a byte of the response, of each attempt; None: no limit.
            retries: how often a call is sent again after a 503, or a connection that broke before any response;
                or the whole schedule.
        """
        self._url = calls.clean_url(base_url)
        self._schedule = retries if isinstance(retries, RetrySchedule) else RetrySchedule(retries)
        self._http = httpx.Client(
            headers=calls.request_headers(api_key),
            timeout=timeout,
            limits=httpx.Limits(max_connections=None, keepalive_expiry=calls.IDLE_S),
        )

    def decide(
        self,
        state: Any,  # noqa: ANN401 - a state is any JSON
        questions: calls.Questions,
        *,
        instructions: str | None = None,
        cache_salt: str | None = None,
        priority: int = 0,
        request_id: str | None = None,
        strategy: str | None = None,
        model: str | None = None,
        chat_template_kwargs: Mapping[str, Any] | None = None,
    ) -> DecisionResponse:
        """Ask typed questions about a state; the fields are those of :class:`radixflow.decisions.DecisionRequest`.

        Raises:
            DecisionRequestError: the request is wrong.
            DecisionServerError: the server failed, or stayed busy.
            DecisionConnectionError: no response.
        """
        call = calls.build_call(
            state,
            questions,
            instructions=instructions,
            cache_salt=cache_salt,
            priority=priority or None,
            request_id=request_id,
            strategy=strategy,
            model=model,
            chat_template_kwargs=None if chat_template_kwargs is None else dict(chat_template_kwargs),
        )
        return self._run(run_call(call, replies.read_decision, self._schedule, self._url))

    def stats(self) -> dict[str, Any]:
        """Return what the server counts."""
        return self._get(calls.STATS_PATH)

    def schema(self) -> dict[str, Any]:
        """Return the JSON schema of requests and responses."""
        return self._get(calls.SCHEMA_PATH)

    def close(self) -> None:
        """Close the connections; may be called twice."""
        self._http.close()

    def __enter__(self) -> Self:
        """Return the client."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the client."""
        self.close()

    def _get(self, path: str) -> dict[str, Any]:
        call = calls.Call("GET", path)
        return self._run(run_call(call, replies.read_object, self._schedule, self._url))

    def _run(self, steps: Steps[T]) -> T:
        """Drive a call to its end."""
        outcome: replies.Reply | replies.Broken | None = None
        while True:
            try:
                step = steps.send(outcome)
            except StopIteration as done:
                result: T = done.value
                return result
            if isinstance(step, Pause):
                time.sleep(step.seconds)
                outcome = None
            else:
                outcome = self._send(step)

    def _send(self, call: calls.Call) -> replies.Reply | replies.Broken:
        seen = False
        try:
            with self._http.stream(call.method, self._url + call.path, content=call.content) as response:
                seen = True
                return replies.Reply(response.status_code, response.headers, response.read())
        except (httpx.RequestError, httpx.InvalidURL) as error:
            return broken(error, seen)
