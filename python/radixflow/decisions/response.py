"""From readings to the response."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from radixflow.decisions.answers import DecisionResponse, Diagnostics, Usage
from radixflow.decisions.decision import Decision
from radixflow.decisions.reading import DEFAULT_NEAR_TIE_MARGIN, Reading


@dataclass(frozen=True, slots=True)
class BranchTokens:
    """What the engine says of one branch, tokens."""

    prompt: int
    output: int = 0
    """1 where a token was decoded, 0 where a head was read."""
    cached: int | None = None
    """Of the prompt's, those that were not computed; None where the engine doesn't say."""


@dataclass(frozen=True, slots=True)
class QuestionRead:
    """One question, read, and what its branches took."""

    reading: Reading
    tokens: Sequence[BranchTokens]
    """One a branch of the question."""


def build_response(
    decision: Decision,
    reads: Mapping[str, QuestionRead],
    *,
    model: str,
    created: int,
    request_id: str | None = None,
    near_tie_margin: float = DEFAULT_NEAR_TIE_MARGIN,
) -> DecisionResponse:
    """Answer a decision.

    Args:
        decision: what was asked.
        reads: question id to what was read; every question has one.
        model: name of the model that answered.
        created: seconds since 1970.
        request_id: where it isn't the request's own (a header names another).
        near_tie_margin: difference of the two highest probabilities below which an answer is a near-tie.
    """
    answers, diagnostics = {}, {}
    for question in decision.questions:
        read = reads[question.id]
        answers[question.id] = question.answer(read.reading, near_tie_margin)
        cached = [branch.cached for branch in read.tokens if branch.cached is not None]
        diagnostics[question.id] = Diagnostics(
            label_mass=read.reading.label_mass,
            argmax_is_label=read.reading.argmax_is_label,
            # Half a sum would look like a whole one.
            cached_tokens=sum(cached) if cached and len(cached) == len(read.tokens) else None,
        )
    spent = [branch for question in decision.questions for branch in reads[question.id].tokens]
    return DecisionResponse(
        id=f"decision-{decision.request.request_id if request_id is None else request_id}",
        created=created,
        model=model,
        answers=answers,
        usage=Usage(
            input_tokens=sum(branch.prompt for branch in spent), output_tokens=sum(branch.output for branch in spent)
        ),
        diagnostics=diagnostics,
    )
