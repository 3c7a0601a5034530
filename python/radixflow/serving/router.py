"""Routes of the endpoint."""

from __future__ import annotations

import logging
from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.requests import ClientDisconnect

from radixflow.decisions import DecisionError
from radixflow.serving.errors import error_response, param_of, status_of
from radixflow.serving.http import ClientGoneError, read_body, unless_gone
from radixflow.serving.openapi import PATH, SCHEMA_PATH, STATS_PATH, openapi, operation
from radixflow.serving.state import EndpointState

logger = logging.getLogger("vllm.radixflow")
_LONGEST_HEADER = 256

router = APIRouter(tags=["decisions"])


@router.post(PATH, openapi_extra=operation(), response_class=Response)
async def decide(request: Request) -> Response:
    """Answer typed questions about a state."""
    endpoint: EndpointState = request.app.state.radixflow
    try:
        body = await read_body(request, endpoint.settings.max_body_bytes)
        if endpoint.service is None:
            return _failed(endpoint, endpoint.unavailable or RuntimeError("the endpoint has no engine"))
        answer = await unless_gone(request, endpoint.service.decide(body, _header_id(request)))
    except (ClientGoneError, ClientDisconnect):
        endpoint.metrics.disconnected()
        # Nobody reads it; vLLM calls this a bad request, too.
        return error_response(400, "Client disconnected")
    except Exception as error:  # noqa: BLE001 - what isn't ours is raised again there
        return _failed(endpoint, error)
    return Response(answer.model_dump_json(), media_type="application/json")


@router.get(SCHEMA_PATH)
async def schema() -> dict[str, Any]:
    """Return the OpenAPI document of this endpoint."""
    return openapi()


@router.get(STATS_PATH)
async def stats(request: Request) -> dict[str, Any]:
    """Return what is served, and the counters of decisions and of the scheduler."""
    endpoint: EndpointState = request.app.state.radixflow
    return endpoint.stats()


def _header_id(request: Request) -> str | None:
    """Return the request-id header, which wins over the body's field.

    Raises:
        DecisionError: it is too long to be an id.
    """
    value = request.headers.get("x-request-id") or None
    if value is not None and len(value) > _LONGEST_HEADER:
        raise DecisionError("X-Request-Id", f"has {len(value)} characters", f"send at most {_LONGEST_HEADER}")
    return value


def _failed(endpoint: EndpointState, error: Exception) -> Response:
    """Answer with an error; one that isn't the sender's or ours goes to vLLM's handlers.

    Raises:
        Exception: that one, unchanged: a dead engine ends the server, as on every other route.
    """
    status = status_of(error)
    endpoint.metrics.failed(500 if status is None else status)
    if status is None:
        raise error
    if status == 500:
        logger.error("radixflow: a decision could not be read: %s", error)
    return error_response(status, str(error), param_of(error))
