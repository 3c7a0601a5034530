"""The question type ``noul``: yes or no."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

from radixflow.decisions.answers import NoulAnswer
from radixflow.decisions.errors import DecisionError, shorten
from radixflow.decisions.labels import LabelForm
from radixflow.decisions.question import Option, Question
from radixflow.decisions.reading import Reading
from radixflow.decisions.text import as_text

_SIDES = MappingProxyType({"true": "yes", "false": "no"})
_REPLY = "Answer with yes or no only."


@dataclass(frozen=True, slots=True)
class Noul(Question):
    """Say whether something holds. The options are always ``yes`` and ``no``, in this order."""

    type_name: ClassVar[str] = "noul"
    letter_set: ClassVar[tuple[str, ...]] = ("yes", "no")
    replies: ClassVar[dict[LabelForm, str]] = {LabelForm.LETTERS: _REPLY, LabelForm.NAMES: _REPLY}

    @classmethod
    def read_criteria(cls, criteria: object, param: str) -> tuple[Option, ...]:
        """Read null, or an object that describes ``true``, ``false`` or both."""
        fix = "give null, or an object that describes true, false or both"
        if criteria is None:
            criteria = {}
        if not isinstance(criteria, dict):
            raise DecisionError(param, f"is {shorten(criteria)}", fix)
        unknown = next((key for key in criteria if key not in _SIDES), None)
        if unknown is not None:
            raise DecisionError(param, f"has the key {shorten(unknown)}", fix)
        found = {side: criteria.get(side) for side in _SIDES}
        return tuple(
            Option(_SIDES[side], None if description is None else as_text(description, f"{param}.{side}"))
            for side, description in found.items()
        )

    def option_lines(self, form: LabelForm) -> tuple[str, ...]:
        """Return ``yes`` and ``no``, described or bare: the label is the name in both forms."""
        return tuple(option.own_text for option in self.options)

    def answer(self, reading: Reading, near_tie_margin: float) -> NoulAnswer:
        """Return the probability of yes."""
        yes, no = reading.probabilities
        return NoulAnswer(
            noul=yes,
            probabilities={"yes": yes, "no": no},
            confidence=reading.confidence,
            margin=reading.margin,
            near_tie=reading.is_near_tie(near_tie_margin),
        )
