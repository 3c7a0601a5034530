"""What went wrong, as HTTP says it: one table from exceptions to status codes."""

from __future__ import annotations

from collections.abc import Mapping

from fastapi.responses import JSONResponse
from vllm.exceptions import GracefulHTTPError, VLLMClientError, VLLMNotFoundError

from radixflow.decisions import DecisionError, LabelError, ReadError
from radixflow.errors import RadixFlowError
from radixflow.serving.model import UnknownModelError

TYPES: Mapping[int, str] = {
    400: "BadRequestError",
    404: "NotFoundError",
    413: "PayloadTooLargeError",
    500: "InternalServerError",
    501: "NotImplementedError",
    503: "ServiceUnavailableError",
}
_RETRY_AFTER_S = 1


class BodyTooLargeError(RadixFlowError):
    """The request's body is larger than the server reads (HTTP 413)."""

    def __init__(self, limit: int, size: int | None) -> None:
        """Take the limit and, where it was announced, the body's size, both in bytes."""
        shown = f"has {size:,} bytes" if size is not None else f"has more than {limit:,} bytes"
        super().__init__(
            f"body {shown}; send at most {limit:,}: shorten the state, or ask for a larger --max-body-bytes"
        )


def status_of(error: Exception) -> int | None:
    """Return the HTTP status of an exception; None for one that vLLM's own handlers should see."""
    if isinstance(error, GracefulHTTPError):
        return int(error.http_status)
    table: tuple[tuple[type[Exception], int], ...] = (
        (DecisionError, 400),
        (BodyTooLargeError, 413),
        (UnknownModelError, 404),
        (LabelError, 501),
        (ReadError, 500),
        (VLLMNotFoundError, 404),
        (VLLMClientError, 400),
    )
    return next((status for kind, status in table if isinstance(error, kind)), None)


def error_response(status: int, message: str, param: str | None = None) -> JSONResponse:
    """Return an error as every endpoint of vLLM words it: ``{"error": {message, type, param, code}}``."""
    kind = TYPES.get(status, "BadRequestError" if status < 500 else "InternalServerError")
    headers = {"Retry-After": str(_RETRY_AFTER_S)} if status == 503 else None
    content = {"error": {"message": message, "type": kind, "param": param, "code": status}}
    return JSONResponse(content, status_code=status, headers=headers)


def param_of(error: Exception) -> str | None:
    """Return the field that an error is about."""
    if isinstance(error, DecisionError):
        return error.param
    if isinstance(error, UnknownModelError):
        return "model"
    if isinstance(error, BodyTooLargeError):
        return "body"
    return getattr(error, "parameter", None)
