"""The question type ``score``: where on an ordered scale."""

from __future__ import annotations

import math
import string
from dataclasses import dataclass
from typing import ClassVar

from radixflow.decisions.answers import ScoreAnswer
from radixflow.decisions.errors import DecisionError, shorten
from radixflow.decisions.labels import LabelForm
from radixflow.decisions.question import Option, Question
from radixflow.decisions.reading import Reading
from radixflow.decisions.text import as_text

_FEWEST = 2


@dataclass(frozen=True, slots=True)
class Score(Question):
    """Rate on a scale of 2 to 10 levels, counted from 0."""

    type_name: ClassVar[str] = "score"
    letter_set: ClassVar[tuple[str, ...]] = tuple(string.digits)
    replies: ClassVar[dict[LabelForm, str]] = {
        LabelForm.LETTERS: "Answer with the number of one level only.",
        LabelForm.NAMES: "Answer with the name of one level only.",
    }

    @classmethod
    def read_criteria(cls, criteria: object, param: str) -> tuple[Option, ...]:
        """Read a list of levels, lowest first."""
        most = len(cls.letter_set)
        if not isinstance(criteria, list):
            raise DecisionError(
                param, f"is {shorten(criteria)}", f"give a list of {_FEWEST} to {most} levels, lowest first"
            )
        if not _FEWEST <= len(criteria) <= most:
            raise DecisionError(
                param, f"is a list of {len(criteria)} ({shorten(criteria)})", f"give {_FEWEST} to {most} levels"
            )
        return tuple(Option(as_text(level, f"{param}.{place}")) for place, level in enumerate(criteria))

    def answer(self, reading: Reading, near_tie_margin: float) -> ScoreAnswer:
        """Return the expected level."""
        return ScoreAnswer(
            score=math.fsum(level * share for level, share in enumerate(reading.probabilities)),
            legend={str(level): option.name for level, option in enumerate(self.options)},
            probabilities={str(level): share for level, share in enumerate(reading.probabilities)},
            confidence=reading.confidence,
            margin=reading.margin,
            near_tie=reading.is_near_tie(near_tie_margin),
        )
