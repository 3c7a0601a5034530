"""What every typed question has: options, a label for each of them, and its text in a prompt."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from radixflow.decisions.answers import Answer
from radixflow.decisions.labels import LabelForm
from radixflow.decisions.reading import Reading


@dataclass(frozen=True, slots=True)
class Option:
    """One possible answer."""

    name: str
    description: str | None = None
    """None or empty: the name says it all."""

    @property
    def own_text(self) -> str:
        """The option where its name is its label: name and description, or the name alone."""
        return f"{self.name}: {self.description}" if self.description else self.name


@dataclass(frozen=True, slots=True)
class Question(ABC):
    """A question that was checked. One subclass a type; a type is the class, its name in ``type_name``."""

    id: str
    instructions: str
    """What is asked; may be empty."""
    options: tuple[Option, ...]

    type_name: ClassVar[str]
    letter_set: ClassVar[tuple[str, ...]]
    """Labels in the form ``letters``; as many as there may be options."""
    replies: ClassVar[dict[LabelForm, str]]
    """The last line of the question, by label form."""

    @classmethod
    @abstractmethod
    def read_criteria(cls, criteria: object, param: str) -> tuple[Option, ...]:
        """Return the options that the criteria describe.

        Args:
            criteria: as sent.
            param: the criteria's path, for errors.

        Raises:
            DecisionError: wrong type, or too few or too many options.
        """

    @abstractmethod
    def answer(self, reading: Reading, near_tie_margin: float) -> Answer:
        """Return the answer that a reading of the options stands for.

        Args:
            reading: probabilities in the order of the options.
            near_tie_margin: difference of the two highest probabilities below which the answer is a near-tie.
        """

    def labels(self, form: LabelForm) -> tuple[str, ...]:
        """Return what the model answers with, one label an option."""
        if form is LabelForm.NAMES:
            return tuple(option.name for option in self.options)
        return self.letter_set[: len(self.options)]

    @property
    def question_line(self) -> str:
        """The line that asks; empty where there are no instructions."""
        return f"Question: {self.instructions}" if self.instructions else ""

    def option_lines(self, form: LabelForm) -> tuple[str, ...]:
        """Return one line an option: its label, what it is, what it means."""
        if form is LabelForm.NAMES:
            return tuple(option.own_text for option in self.options)
        return tuple(
            f"{label}: {option.name} - {option.description}" if option.description else f"{label}: {option.name}"
            for label, option in zip(self.labels(form), self.options, strict=True)
        )

    def text(self, form: LabelForm) -> str:
        """Return the question as a prompt asks it: question line (if any), option lines, reply line."""
        asked = (self.question_line,) if self.question_line else ()
        return "\n".join((*asked, *self.option_lines(form), self.replies[form]))
