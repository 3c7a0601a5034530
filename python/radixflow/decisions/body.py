"""The bytes of a request as a JSON value, with repeated keys noticed instead of dropped."""

from __future__ import annotations

import json
from typing import Any

from radixflow.decisions.errors import DecisionError, question_param, shorten


class RepeatedKeys(dict[str, Any]):
    """A JSON object that spells a key more than once; like any JSON reader, the last value counts."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        """Keep the last value of each key, and the first key that was repeated."""
        super().__init__(pairs)
        seen: set[str] = set()
        self.repeated = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]


def _build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build a dictionary, marked where keys were lost."""
    built = dict(pairs)
    return built if len(built) == len(pairs) else RepeatedKeys(pairs)


def parse_body(raw: bytes) -> object:
    """Read a request's body.

    Args:
        raw: UTF-8 JSON.

    Returns:
        The JSON value; objects with repeated keys are marked, for :func:`check_repeated`.

    Raises:
        DecisionError: not UTF-8, not JSON, or nested too deeply; ``param`` is ``body``.
    """
    try:
        return json.loads(raw.decode("utf-8"), object_pairs_hook=_build_object)
    except UnicodeDecodeError as error:
        raise DecisionError(
            "body", f"is not UTF-8 (byte {error.start} is 0x{raw[error.start]:02x})", "encode the JSON as UTF-8"
        ) from None
    except json.JSONDecodeError as error:
        raise DecisionError(
            "body",
            f"is not JSON: {error.msg} at line {error.lineno} column {error.colno} ({shorten(error.doc)})",
            "send one JSON object",
        ) from None
    except RecursionError:
        raise DecisionError("body", "is nested too deeply", "send flatter JSON, or the state as a string") from None
    except ValueError:
        # What is left of ValueError: a whole number longer than Python converts.
        raise DecisionError("body", "holds a number of thousands of digits", "send it as a string") from None


def check_repeated(body: object) -> None:
    """Refuse repeated keys where they would lose a question, a field or an option without a word.

    Raises:
        DecisionError: a key of the request, of ``questions``, of a question or of its criteria is repeated.
            Inside the state anything goes.
    """
    if not isinstance(body, dict):
        return
    _refuse(body, "body", "field")
    questions = body.get("questions")
    _refuse(questions, "questions", "question id")
    if not isinstance(questions, dict):
        return
    for question_id, question in questions.items():
        _refuse(question, question_param(question_id), "field")
        if isinstance(question, dict):
            _refuse(question.get("criteria"), question_param(question_id, "criteria"), "option")


def _refuse(value: object, param: str, kind: str) -> None:
    """Raise for an object with repeated keys."""
    if isinstance(value, RepeatedKeys):
        raise DecisionError(param, f"has the {kind} {shorten(value.repeated)} more than once", "name each once")
