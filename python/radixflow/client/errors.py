"""What can go wrong with a call, by who has to act: the caller, the server, or whoever looks after the network."""

from __future__ import annotations

from radixflow.errors import RadixFlowError


class DecisionClientError(RadixFlowError):
    """Base of what the clients raise.

    Attributes:
        message: the server's words where it had any.
        status: HTTP status; None where no response came.
        request_id: what the server calls the request, else the id it was sent with; None for calls without one.
        attempts: how often it was sent.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        request_id: str | None = None,
        attempts: int = 0,
    ) -> None:
        """Keep the parts; ``str()`` puts them together."""
        super().__init__(message)
        self.message = message
        self.status = status
        self.request_id = request_id
        self.attempts = attempts

    def __str__(self) -> str:
        """Return the message with status, request and number of attempts behind it."""
        parts = [] if self.status is None else [f"HTTP {self.status}"]
        if self.request_id is not None:
            parts.append(f"request {self.request_id}")
        if self.attempts > 1:
            parts.append(f"{self.attempts} attempts")
        return f"{self.message} ({', '.join(parts)})" if parts else self.message


class _AnsweredError(DecisionClientError):
    """The server said no.

    Attributes:
        type: the server's name for the kind of error, such as ``BadRequestError``; None where it gave none.
        param: the field at fault, such as ``questions.team.criteria``; None where it named none.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        request_id: str | None = None,
        attempts: int = 0,
        type: str | None = None,
        param: str | None = None,
    ) -> None:
        """Keep the parts."""
        super().__init__(message, status=status, request_id=request_id, attempts=attempts)
        self.type = type
        self.param = param


class DecisionRequestError(_AnsweredError):
    """The request is wrong (400, 401, 404, 413 and other 4xx), or can't be written as JSON (``status`` None)."""


class DecisionServerError(_AnsweredError):
    """The server failed (5xx), or what it sent is no answer to a decision.

    Attributes:
        retry_after_s: seconds it asked to be left alone for; None where it didn't.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        request_id: str | None = None,
        attempts: int = 0,
        type: str | None = None,
        param: str | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        """Keep the parts."""
        super().__init__(message, status=status, request_id=request_id, attempts=attempts, type=type, param=param)
        self.retry_after_s = retry_after_s


class DecisionConnectionError(DecisionClientError):
    """No response, or only part of one: nobody listens, the connection broke, or it took longer than the timeout."""
