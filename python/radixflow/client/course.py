"""The course of a call, whoever sends it: attempts, pauses, an end."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, TypeVar

from radixflow.client.calls import Call
from radixflow.client.errors import DecisionConnectionError
from radixflow.client.replies import Broken, Reply, read_reply
from radixflow.client.retry import RetrySchedule, parse_retry_after

_BUSY = 503

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait before the next step."""

    seconds: float


Steps = Generator[Call | Pause, Reply | Broken | None, T]
"""A call as a transport drives it: send what is yielded and hand back what came, or sleep and hand back None."""


def run_call(call: Call, read: Callable[[Any], T], schedule: RetrySchedule, base_url: str) -> Steps[T]:
    """Send a call until it is answered or given up.

    Args:
        call: what to send.
        read: the JSON value of a good response to what the caller gets.
        schedule: when to try again.
        base_url: for messages.

    Raises:
        DecisionRequestError, DecisionServerError, DecisionConnectionError: see there.
    """
    attempts = 0
    while True:
        attempts += 1
        outcome = yield call
        assert outcome is not None
        wait_s = _next_wait(outcome, attempts, schedule)
        if wait_s is not None:
            yield Pause(wait_s)
        elif isinstance(outcome, Reply):
            return read_reply(outcome, call, read, attempts)
        else:
            raise DecisionConnectionError(
                f"{call.method} {base_url}{call.path}: {outcome.problem}", request_id=call.request_id, attempts=attempts
            )


def _next_wait(outcome: Reply | Broken, attempts: int, schedule: RetrySchedule) -> float | None:
    """Return seconds until the next attempt; None where this outcome is the last."""
    if isinstance(outcome, Broken):
        return schedule.wait_s(attempts) if outcome.may_retry else None
    if outcome.status != _BUSY:
        return None
    return schedule.wait_s(attempts, parse_retry_after(outcome.headers.get("retry-after")))
