"""The response of ``/v1/systemone``. Fields that other servers of the protocol lack are only ever additions."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

_PROBABILITIES = "shares of the options among themselves; they sum to 1 and are not calibrated"


class _AnswerBase(BaseModel):
    """What the answers of all types have."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    confidence: float = Field(ge=0.0, le=1.0, description="highest probability times label_mass")
    margin: float = Field(ge=0.0, le=1.0, description="difference of the two highest probabilities")
    near_tie: bool = Field(description="the margin is below the server's near-tie margin")


class ChoiceAnswer(_AnswerBase):
    """Which option."""

    type: Literal["choice"] = "choice"
    choice: str = Field(description="name of the most probable option")
    probabilities: dict[str, float] = Field(description=_PROBABILITIES)


class NoulAnswer(_AnswerBase):
    """Yes or no."""

    type: Literal["noul"] = "noul"
    noul: float = Field(ge=0.0, le=1.0, description="probability of yes")
    probabilities: dict[str, float] = Field(description=_PROBABILITIES)


class ScoreAnswer(_AnswerBase):
    """Where on a scale."""

    type: Literal["score"] = "score"
    score: float = Field(ge=0.0, description="expected level, counted from 0")
    legend: dict[str, str] = Field(description="level number to level")
    probabilities: dict[str, float] = Field(description=_PROBABILITIES)


Answer = ChoiceAnswer | NoulAnswer | ScoreAnswer


class Usage(BaseModel):
    """Tokens, summed over all reads of a decision."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    input_tokens: int = Field(ge=0, description="prompt tokens, cached ones included")
    output_tokens: int = Field(ge=0, description="one a question read by labels, none for branches")


class Diagnostics(BaseModel):
    """How one question was read."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    label_mass: float = Field(
        ge=0.0, le=1.0, description="probability of all labels together; low: the model wanted to say something else"
    )
    argmax_is_label: bool = Field(description="the most probable token of the vocabulary is a label")
    cached_tokens: int | None = Field(
        default=None,
        ge=0,
        description="prompt tokens that were not computed for this question; absent where the engine doesn't say",
        exclude_if=lambda value: value is None,
    )


class DecisionResponse(BaseModel):
    """Answers to all questions, in the order in which they were asked."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str
    object: Literal["structured_decision"] = "structured_decision"
    created: int = Field(description="seconds since 1970")
    model: str
    answers: dict[str, Annotated[Answer, Field(discriminator="type")]]
    usage: Usage
    diagnostics: dict[str, Diagnostics]
