"""A request that was checked as a whole: a state and typed questions, ready to become branches."""

from __future__ import annotations

from dataclasses import dataclass

from radixflow.decisions.question import Question
from radixflow.decisions.registry import build_question
from radixflow.decisions.request import DecisionRequest, parse_request
from radixflow.decisions.text import json_text


@dataclass(frozen=True, slots=True)
class Decision:
    """A state and what is asked about it."""

    request: DecisionRequest
    state: str
    """The state as the model reads it."""
    questions: tuple[Question, ...]
    """In the order of the request."""

    @property
    def system(self) -> str:
        """Text of the system message; empty: there is none."""
        return self.request.instructions or ""


def parse_decision(body: object) -> Decision:
    """Check a request and everything in it; one bad question refuses all.

    Args:
        body: the JSON value of a request's body.

    Raises:
        DecisionError: the first thing that is wrong, its value and what to send instead. No other exception,
            whatever the value is.
    """
    request = parse_request(body)
    questions = tuple(build_question(question_id, spec) for question_id, spec in request.questions.items())
    return Decision(request, json_text(request.state, "state"), questions)
