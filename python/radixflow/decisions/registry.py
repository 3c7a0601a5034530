"""Question types by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from radixflow.decisions.choice import Choice
from radixflow.decisions.errors import DecisionError, question_param, shorten
from radixflow.decisions.noul import Noul
from radixflow.decisions.question import Question
from radixflow.decisions.request import QuestionSpec
from radixflow.decisions.score import Score
from radixflow.decisions.text import as_text

QUESTION_TYPES: Mapping[str, type[Question]] = MappingProxyType(
    {kind.type_name: kind for kind in (Choice, Noul, Score)}
)
"""A type's name, as a request gives it, to its class."""


def letter_sets() -> tuple[tuple[str, ...], ...]:
    """Return the fixed labels of every type, for the check at start-up."""
    return tuple(kind.letter_set for kind in QUESTION_TYPES.values())


def build_question(question_id: str, spec: QuestionSpec) -> Question:
    """Check one question and give it its options.

    Raises:
        DecisionError: unknown type, or criteria that the type doesn't take; the message names the question.
    """
    kind = QUESTION_TYPES.get(spec.type)
    if kind is None:
        raise DecisionError(
            question_param(question_id, "type"),
            f"is {shorten(spec.type)}, which is unknown",
            f"use one of {', '.join(QUESTION_TYPES)}",
        )
    param = question_param(question_id, "criteria")
    options = kind.read_criteria(spec.criteria, param)
    seen: set[str] = set()
    for option in options:
        if option.name in seen:
            raise DecisionError(
                param, f"has the option {shorten(option.name)} more than once", "give each option its own name"
            )
        seen.add(option.name)
    asked = "" if spec.instructions is None else as_text(spec.instructions, question_param(question_id, "instructions"))
    return kind(question_id, asked, options)
