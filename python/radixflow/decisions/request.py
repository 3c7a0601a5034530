"""The request of ``/v1/systemone``: its fields, their types, and what is said about one that is wrong."""

from __future__ import annotations

import uuid
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from radixflow.decisions.body import check_repeated
from radixflow.decisions.errors import DecisionError, question_param, shorten
from radixflow.decisions.text import check_text, json_text

MOST_QUESTIONS = 64
LONGEST_SALT = 128
# These separate a salt from the other parts of a cached block's identity.
_SALT_PATTERN = r"^[^@/\\\x00]+$"
_MEDIA = ("images", "audio", "videos")


class QuestionSpec(BaseModel):
    """One question as it was sent. What its criteria may be depends on its type."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    type: str = Field(description="one of choice, noul, score")
    instructions: Any = Field(default="", description="what is asked; anything but a string is written as one")
    criteria: Any = Field(
        default=None,
        description="choice: an object of 1 to 26 options, name to description or null; "
        "score: a list of 2 to 10 levels, lowest first; noul: null, or an object with true and false described",
    )


class DecisionRequest(BaseModel):
    """A state and typed questions about it. Unknown fields are ignored here, and refused inside a question."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)

    model: str | None = Field(default=None, description="a model's name, a string; null or empty for the one served")
    state: Any = Field(description="what the questions are about: any JSON, null too")
    questions: dict[str, QuestionSpec] = Field(
        min_length=1,
        max_length=MOST_QUESTIONS,
        description=f"an object of 1 to {MOST_QUESTIONS} questions by id; answers keep their order",
    )
    instructions: str | None = Field(default=None, description="a string for the system message, or null for none")
    images: list[str] | None = Field(default=None, description="null or an empty list; only text is read")
    audio: list[str] | None = Field(default=None, description="null or an empty list; only text is read")
    videos: list[str] | None = Field(default=None, description="null or an empty list; only text is read")
    chat_template_kwargs: dict[str, Any] | None = Field(
        default=None, description="an object of variables for the chat template, or null; enable_thinking stays false"
    )
    cache_salt: Annotated[str, Field(min_length=1, max_length=LONGEST_SALT, pattern=_SALT_PATTERN)] | None = Field(
        default=None,
        description=f"a string of 1 to {LONGEST_SALT} characters without @ / \\ NUL: requests share cached prefixes "
        "only where it is equal; null for one of its own",
    )
    priority: int = Field(default=0, ge=-(2**63), le=2**63 - 1, description="a whole number of 64 bits; lower is first")
    request_id: str = Field(
        default_factory=lambda: uuid.uuid4().hex, min_length=1, description="a non-empty string; default random"
    )
    strategy: Literal["label", "branch"] | None = Field(
        default=None, description="label, branch, or null for what the model was trained for"
    )


def parse_request(body: object) -> DecisionRequest:
    """Check a request's fields and types; what a question's criteria hold is its type's matter.

    Args:
        body: the JSON value of a request's body, from :func:`radixflow.decisions.parse_body` or any other reader.

    Raises:
        DecisionError: the first field that is wrong, its value and what it takes.
    """
    if not isinstance(body, dict):
        raise DecisionError("body", f"is {shorten(body)}", "send a JSON object with state and questions")
    check_repeated(body)
    try:
        request = DecisionRequest.model_validate(body)
    except ValidationError as error:
        raise _explain(error) from None
    if "" in request.questions:
        raise DecisionError("questions", "has an empty question id ('')", "give each question a name")
    for question_id in request.questions:
        check_text(question_id, question_param(question_id))
    for field in ("model", "instructions", "cache_salt", "request_id"):
        check_text(getattr(request, field) or "", field)
    for field in _MEDIA:
        if getattr(request, field):
            raise DecisionError(field, f"is {shorten(getattr(request, field))}", "leave it out: only text is read")
    _check_chat(request.chat_template_kwargs or {})
    return request


def _check_chat(variables: dict[str, Any]) -> None:
    """Refuse variables that a chat template can't write, or that would put thoughts before the answer."""
    json_text(variables, "chat_template_kwargs")
    thinks = variables.get("enable_thinking")
    if thinks:
        raise DecisionError(
            "chat_template_kwargs.enable_thinking",
            f"is {shorten(thinks)}",
            "leave it out: the first token is the answer",
        )


def _explain(error: ValidationError) -> DecisionError:
    """Turn the first finding of a validation into our error."""
    found = error.errors(include_url=False)[0]
    place = [part for part in found["loc"] if part != "[key]"]
    is_question = len(place) > 1 and place[0] == "questions"
    param = question_param(*place[1:]) if is_question else ".".join(str(part) for part in place)
    fields = QuestionSpec.model_fields if is_question else DecisionRequest.model_fields
    name = place[2] if is_question and len(place) > 2 else place[0]
    if found["type"] == "extra_forbidden":
        return DecisionError(param, f"is unknown (value {shorten(found['input'])})", f"use only {', '.join(fields)}")
    description = fields[str(name)].description if str(name) in fields else None
    if is_question and len(place) == 2:
        is_key = "[key]" in found["loc"]
        description = "each question a name, a string" if is_key else "an object with type, instructions, criteria"
    if found["type"] == "missing":
        return DecisionError(param, "is missing", f"give {description}")
    if found["type"] in ("too_long", "too_short"):
        return DecisionError(param, f"has {len(found['input'])} entries", f"give {description}")
    return DecisionError(param, f"is {shorten(found['input'])}", f"give {description}")
