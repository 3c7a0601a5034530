"""The question type ``choice``: which one of several named options."""

from __future__ import annotations

import string
from dataclasses import dataclass
from typing import ClassVar

from radixflow.decisions.answers import ChoiceAnswer
from radixflow.decisions.errors import DecisionError, shorten
from radixflow.decisions.labels import LabelForm
from radixflow.decisions.question import Option, Question
from radixflow.decisions.reading import Reading
from radixflow.decisions.text import as_text


@dataclass(frozen=True, slots=True)
class Choice(Question):
    """Pick one of 1 to 26 options."""

    type_name: ClassVar[str] = "choice"
    letter_set: ClassVar[tuple[str, ...]] = tuple(string.ascii_uppercase)
    replies: ClassVar[dict[LabelForm, str]] = {
        LabelForm.LETTERS: "Answer with the letter of one option only.",
        LabelForm.NAMES: "Answer with the name of one option only.",
    }

    @classmethod
    def read_criteria(cls, criteria: object, param: str) -> tuple[Option, ...]:
        """Read an object of name to description or null."""
        most = len(cls.letter_set)
        if not isinstance(criteria, dict) or not criteria:
            raise DecisionError(
                param, f"is {shorten(criteria)}", "give a non-empty object, option name to description or null"
            )
        if len(criteria) > most:
            raise DecisionError(param, f"has {len(criteria)} options", f"offer at most {most}")
        return tuple(
            Option(as_text(name, param), None if description is None else as_text(description, param))
            for name, description in criteria.items()
        )

    def answer(self, reading: Reading, near_tie_margin: float) -> ChoiceAnswer:
        """Return the most probable option, the first one where several are."""
        names = [option.name for option in self.options]
        return ChoiceAnswer(
            choice=names[reading.best],
            probabilities=dict(zip(names, reading.probabilities, strict=True)),
            confidence=reading.confidence,
            margin=reading.margin,
            near_tie=reading.is_near_tie(near_tie_margin),
        )
