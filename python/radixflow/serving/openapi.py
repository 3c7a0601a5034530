"""The endpoint's OpenAPI document, from the models that check requests and write responses."""

from __future__ import annotations

from functools import cache
from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic.json_schema import models_json_schema

from radixflow import __version__
from radixflow.decisions import DecisionRequest, DecisionResponse

PATH = "/v1/systemone"
SCHEMA_PATH = "/v1/systemone/schema"
STATS_PATH = "/v1/radixflow/stats"
_REFERENCE = "#/components/schemas/{model}"
_ERRORS = {
    "400": "the request is wrong; param is the field",
    "401": "no valid API key, where the server asks for one",
    "404": "no such model",
    "413": "the body is larger than the server reads",
    "500": "the engine failed",
    "501": "this model can't be asked; the message says why",
    "503": "the queue is full; try again",
}


class ErrorDetail(BaseModel):
    """What went wrong."""

    model_config = ConfigDict(title="DecisionErrorDetail")

    message: str
    type: str
    param: str | None = Field(default=None, description="the field at fault, as a path")
    code: int = Field(description="the HTTP status")


class ErrorBody(BaseModel):
    """An error, as every endpoint of vLLM words it."""

    model_config = ConfigDict(title="DecisionErrorBody")

    error: ErrorDetail


_EXAMPLE = {
    "state": "Since this morning every payment fails. We lose money by the minute.",
    "questions": {
        "team": {
            "type": "choice",
            "instructions": "Who should handle it?",
            "criteria": {"billing": "invoices and payments", "outage": "something is down", "other": None},
        },
        "urgent": {"type": "noul", "instructions": "Is it urgent?"},
        "mood": {
            "type": "score",
            "instructions": "How angry is the writer?",
            "criteria": ["calm", "annoyed", "furious"],
        },
    },
}


@cache
def _schemas() -> dict[str, Any]:
    """Return the components; each half as it is on the wire."""
    _, document = models_json_schema(
        [(DecisionRequest, "validation"), (DecisionResponse, "serialization"), (ErrorBody, "serialization")],
        ref_template=_REFERENCE,
    )
    schemas: dict[str, Any] = document["$defs"]
    schemas["DecisionRequest"]["examples"] = [_EXAMPLE]
    return schemas


def _json(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def _reference(model: type[BaseModel]) -> dict[str, Any]:
    return {"$ref": _REFERENCE.format(model=model.__name__)}


def _responses() -> dict[str, Any]:
    answered = {"200": {"description": "every question, answered", "content": _json(_reference(DecisionResponse))}}
    # vLLM's own answer to a wrong key is worded otherwise.
    plain = {"401": _json({"type": "object"})}
    failed = {
        status: {"description": text, "content": plain.get(status, _json(_reference(ErrorBody)))}
        for status, text in _ERRORS.items()
    }
    return {**answered, **failed}


def openapi() -> dict[str, Any]:
    """Return the document, OpenAPI 3.1."""
    post = {
        "operationId": "decide",
        "summary": "Answer typed questions about a state",
        "requestBody": {"required": True, "content": _json(_reference(DecisionRequest))},
        "responses": _responses(),
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "RadixFlow decisions", "version": __version__},
        "paths": {PATH: {"post": post}},
        "components": {"schemas": _schemas()},
    }


@cache
def operation() -> dict[str, Any]:
    """Return what vLLM's own OpenAPI page says of the route: its schemas in place, as it has other components."""
    request = DecisionRequest.model_json_schema()
    response = DecisionResponse.model_json_schema(mode="serialization")
    return {
        "requestBody": {"required": True, "content": _json(request)},
        "responses": {"200": {"description": "every question, answered", "content": _json(response)}},
    }
