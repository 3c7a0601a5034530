"""What comes back, and what it means."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import ValidationError

from radixflow.client.calls import Call
from radixflow.client.errors import DecisionRequestError, DecisionServerError
from radixflow.client.retry import parse_retry_after
from radixflow.decisions import DecisionResponse

_LONGEST_SHOWN = 200

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole response."""

    status: int
    headers: Mapping[str, str]
    content: bytes


@dataclass(frozen=True, slots=True)
class Broken:
    """No whole response."""

    problem: str
    may_retry: bool
    """Nothing of a response was seen, and it wasn't the timeout: the server may not even have read the request."""


def read_decision(value: object) -> DecisionResponse:
    """Read a decision's response; fields that this version doesn't know are dropped.

    Raises:
        ValidationError: it is none.
    """
    return DecisionResponse.model_validate(value, extra="ignore")


def read_object(value: object) -> dict[str, Any]:
    """Read a JSON object.

    Raises:
        TypeError: it is none.
    """
    if not isinstance(value, dict):
        raise TypeError(f"a JSON object was expected, not {type(value).__name__}")
    return value


def read_reply(reply: Reply, call: Call, read: Callable[[Any], T], attempts: int) -> T:
    """Return what a response holds, or raise what it means."""
    request_id = reply.headers.get("x-request-id", call.request_id)
    if 200 <= reply.status < 300:
        try:
            return read(json.loads(reply.content))
        except (ValidationError, ValueError, TypeError, RecursionError) as error:
            raise DecisionServerError(
                f"{call.path} sent what can't be read: {error}",
                status=reply.status,
                request_id=request_id,
                attempts=attempts,
            ) from error
    message, kind, param = _read_error(reply)
    if 400 <= reply.status < 500:
        raise DecisionRequestError(
            message, status=reply.status, request_id=request_id, attempts=attempts, type=kind, param=param
        )
    raise DecisionServerError(
        message,
        status=reply.status,
        request_id=request_id,
        attempts=attempts,
        type=kind,
        param=param,
        retry_after_s=parse_retry_after(reply.headers.get("retry-after")),
    )


def _read_error(reply: Reply) -> tuple[str, str | None, str | None]:
    """Return message, type and param of an error's body, whatever a proxy on the way made of it."""
    text = reply.content.decode("utf-8", "replace").strip()
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    error = found.get("error", found) if isinstance(found, dict) else None
    if not isinstance(error, dict):
        # vLLM's own 401 is {"error": "Unauthorized"}; a proxy's page is no JSON at all.
        shown = error if isinstance(error, str) else text[:_LONGEST_SHOWN]
        return shown or "no reason given", None, None
    message, kind, param = (error.get(name) for name in ("message", "type", "param"))
    return (
        str(message or error.get("detail") or text[:_LONGEST_SHOWN]),
        None if kind is None else str(kind),
        None if param is None else str(param),
    )
