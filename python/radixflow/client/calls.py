"""Requests as they are sent."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from radixflow.client.errors import DecisionRequestError
from radixflow.client.questions import QuestionDict
from radixflow.decisions import QuestionSpec

DECISIONS_PATH = "/v1/systemone"
SCHEMA_PATH = "/v1/systemone/schema"
STATS_PATH = "/v1/radixflow/stats"
DEFAULT_URL = "http://127.0.0.1:8000"
DEFAULT_TIMEOUT_S = 60.0
IDLE_S = 2.0
"""Seconds after which an idle connection is not used again: vLLM closes one after 5, and what is sent then is lost."""

Questions = Mapping[str, QuestionDict | QuestionSpec | Mapping[str, Any]]
"""Questions by id, from the builders, as :class:`radixflow.decisions.QuestionSpec`, or spelt out."""


@dataclass(frozen=True, slots=True)
class Call:
    """One request, ready to be sent as often as it takes."""

    method: str
    path: str
    content: bytes | None = None
    request_id: str | None = None


def build_call(
    state: Any,  # noqa: ANN401 - a state is any JSON
    questions: Questions,
    **fields: Any,  # noqa: ANN401
) -> Call:
    """Write a decision as a call; fields that are None are left out.

    Raises:
        DecisionRequestError: something in it isn't JSON.
    """
    request_id = fields.pop("request_id", None)
    if request_id is None:
        # Ours, so that an error can be found in the server's log even where no response came.
        request_id = uuid.uuid4().hex
    asked = {
        name: question.model_dump() if isinstance(question, QuestionSpec) else dict(question)
        for name, question in questions.items()
    }
    body = {"state": state, "questions": asked, "request_id": request_id}
    body |= {name: value for name, value in fields.items() if value is not None}
    try:
        # Escaped, so that half a surrogate pair gets as far as the server, which names the field.
        content = json.dumps(body, allow_nan=False).encode("ascii")
    except (TypeError, ValueError, RecursionError) as error:
        raise DecisionRequestError(
            f"the request can't be written as JSON: {error}", param="body", request_id=request_id
        ) from error
    return Call("POST", DECISIONS_PATH, content, request_id)


def request_headers(api_key: str | None) -> dict[str, str]:
    """Return what every request carries."""
    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    return headers if api_key is None else {**headers, "Authorization": f"Bearer {api_key}"}


def clean_url(base_url: str) -> str:
    """Return a server's address without a slash, or the ``/v1`` that other clients want, at its end."""
    return base_url.rstrip("/").removesuffix("/v1").rstrip("/")
