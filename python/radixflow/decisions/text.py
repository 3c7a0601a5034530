"""Values of a request as the model reads them: text that any tokenizer takes."""

from __future__ import annotations

import json

from radixflow.decisions.errors import DecisionError, shorten


def check_text(text: str, param: str) -> str:
    """Return the text, if it is Unicode that can be written as UTF-8.

    Raises:
        DecisionError: it holds half of a surrogate pair, which JSON can spell and no tokenizer can read.
    """
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise DecisionError(
            param,
            f"holds {text[error.start]!r} at character {error.start}, half of a surrogate pair",
            "send whole Unicode characters",
        ) from None
    return text


def as_text(value: object, param: str) -> str:
    """Return a string as it is and anything else as Python's ``str`` writes it.

    Raises:
        DecisionError: the value has no text (nested too deeply, not Unicode).
    """
    if isinstance(value, str):
        return check_text(value, param)
    try:
        text = str(value)
    except (RecursionError, ValueError) as error:
        raise _unreadable(value, param, error) from None
    return check_text(text, param)


def json_text(value: object, param: str) -> str:
    """Return a string as it is and anything else as JSON with Unicode kept: how a model reads a state.

    Raises:
        DecisionError: the value isn't JSON, is nested too deeply, or isn't Unicode.
    """
    if isinstance(value, str):
        return check_text(value, param)
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (RecursionError, TypeError, ValueError) as error:
        raise _unreadable(value, param, error) from None
    return check_text(text, param)


def _unreadable(value: object, param: str, error: Exception) -> DecisionError:
    """Explain why a value has no text."""
    if isinstance(error, RecursionError):
        return DecisionError(param, f"is nested too deeply ({shorten(value)})", "send a flatter value, or a string")
    return DecisionError(
        param, f"is {shorten(value)}, which can't be written as text ({error})", "send a JSON value, or a string"
    )
