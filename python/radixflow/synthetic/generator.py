"""Endless typed decisions with their answers, the same for the same seed on any machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from random import Random
from types import MappingProxyType
from typing import Any

from radixflow.synthetic.moods import MOODS
from radixflow.synthetic.questions import ASKERS, Answer, Asked, score_urgency
from radixflow.synthetic.remarks import PLANS
from radixflow.synthetic.ticket import TOPICS, draw_ticket
from radixflow.synthetic.topic import SPLITS, Split, SplitError
from radixflow.synthetic.urgency import URGENCY

FACTS: Mapping[str, int] = MappingProxyType(
    {"topic": len(TOPICS) + 1, "urgency": len(URGENCY), "mood": len(MOODS), "plan": len(PLANS) + 1}
)
"""What a ticket's truth consists of, and how many values each part has."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A decision and its answers."""

    request: dict[str, Any]
    """A body of ``/v1/systemone``."""
    expected: dict[str, Answer]
    """By question: the option's name of a choice, whether a noul holds, the level of a score."""
    facts: dict[str, int] = field(default_factory=dict)
    """What the text says, by number: see :data:`FACTS`."""


def samples(split: Split, seed: int, *, most_questions: int = 4) -> Iterator[Sample]:
    """Yield decisions without end.

    Args:
        split: ``train`` or ``heldout``: other sentences, layouts and wordings, the same words.
        seed: what the decisions depend on, with the split.
        most_questions: questions that may be asked about one text, at least 1.

    Raises:
        SplitError: a split that doesn't exist.
    """
    if split not in SPLITS:
        raise SplitError(f"split {split!r} does not exist; use one of {', '.join(SPLITS)}")
    # A text seeds a generator the same way everywhere; a tuple's hash wouldn't.
    rng = Random(f"{split} {seed}")
    while True:
        yield draw_decision(rng, split, most_questions)


def generate(split: Split, seed: int, count: int) -> list[Sample]:
    """Return the first decisions of a seed; see :func:`samples`."""
    return list(islice(samples(split, seed), count))


def draw_decision(rng: Random, split: Split, most_questions: int) -> Sample:
    """Write a ticket and ask some questions about it."""
    ticket = draw_ticket(rng, split)
    askers, weights = zip(*ASKERS, strict=True)
    asked: dict[str, Asked] = {}
    for _ in range(rng.randint(1, most_questions)):
        question = rng.choices(askers, weights)[0](rng, ticket, split)
        if question is not None:
            asked.setdefault(question.id, question)
    if not asked:
        asked["urgency"] = score_urgency(rng, ticket, split)
    plans = (None, *PLANS)
    topic = len(TOPICS) if ticket.topic is None else TOPICS.index(ticket.topic)
    numbers = (topic, ticket.urgency, ticket.mood + 2, plans.index(ticket.plan))
    made = _sample(ticket.state, list(asked.values()))
    return replace(made, facts=dict(zip(FACTS, numbers, strict=True)))


def _sample(state: object, asked: list[Asked]) -> Sample:
    questions = {question.id: question.spec for question in asked}
    return Sample({"state": state, "questions": questions}, {question.id: question.answer for question in asked})
