"""What can be wrong with a decision, and who has to act on it: one class for each of them."""

from __future__ import annotations

import reprlib

from radixflow.errors import ConfigError, RadixFlowError

_LONGEST_SHOWN = 80
_LONGEST_ID_SHOWN = 64


class DecisionError(RadixFlowError, ValueError):
    """The request is wrong: whoever sent it has to change it (HTTP 400).

    Attributes:
        param: the field at fault, as a path such as ``questions.urgency.criteria``; ``body`` for the whole.
    """

    def __init__(self, param: str, problem: str, fix: str) -> None:
        """Say which field, what is the matter with its value (shown shortened), and what to send instead."""
        # All three are the arguments, so that the exception survives pickling between processes.
        super().__init__(param, problem, fix)
        self.param = param
        self.problem = problem
        self.fix = fix

    def __str__(self) -> str:
        """Return one sentence: field, problem, fix."""
        return f"{self.param} {self.problem}; {self.fix}"


class LabelError(RadixFlowError, ValueError):
    """This tokenizer can't be read by labels: no request of that kind can be answered (HTTP 501)."""


class ReadError(RadixFlowError, RuntimeError):
    """The engine's output doesn't hold what the formulas need (HTTP 500)."""


class ManifestError(ConfigError):
    """A model's manifest is missing, unreadable or contradicts itself."""


def shorten(value: object) -> str:
    """Show a value in an error: on one line, at most 80 characters, whatever its size, depth or encoding."""
    writer = reprlib.Repr()
    writer.maxstring = writer.maxother = writer.maxlong = _LONGEST_SHOWN
    writer.maxlevel = writer.maxdict = writer.maxlist = 3
    try:
        text = writer.repr(value)
    except (ValueError, RecursionError):
        # A whole number of thousands of digits has no decimal text in Python.
        text = f"a {type(value).__name__}"
    return text if len(text) <= _LONGEST_SHOWN else f"{text[: _LONGEST_SHOWN - 3]}..."


def question_param(question_id: object, *fields: object) -> str:
    """Return the path of a question, or of a field in it, with an id of any length or characters made printable."""
    return ".".join(["questions", _step(question_id), *(_step(field) for field in fields)])


def _step(name: object) -> str:
    """Show one step of a path, which a client may have named."""
    # A string's repr without its quotes: what can't be printed, or has no UTF-8, is escaped.
    shown = repr(name[: _LONGEST_ID_SHOWN + 1])[1:-1] if isinstance(name, str) else shorten(name)
    return shown if len(shown) <= _LONGEST_ID_SHOWN else f"{shown[: _LONGEST_ID_SHOWN - 3]}..."
