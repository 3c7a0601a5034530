"""Endless typed decisions with their answers, the same for the same seed on any machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from random import Random
from types import MappingProxyType
from typing import Any

from radixflow.synthetic import wordings, words
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
_NOTE_SHARE = 0.1
_MOST_SUBJECTS = 5


@dataclass(frozen=True, slots=True)
class Sample:
    """A decision and its answers."""

    request: dict[str, Any]
    """A body of ``/v1/systemone``."""
    expected: dict[str, Answer]
    """By question: the option's name of a choice, whether a noul holds, the level of a score."""
    facts: dict[str, int] = field(default_factory=dict)
    """What the text says, by number: see :data:`FACTS`. Empty for a note."""


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
        draws = draw_note if rng.random() < _NOTE_SHARE else draw_decision
        yield draws(rng, split, most_questions)


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


def draw_note(rng: Random, split: Split, most_questions: int) -> Sample:
    """Write a note about any word, and ask which of several it is about: what is wanted is finding the word."""
    notes = words.NOTES_TRAIN if split == "train" else words.NOTES_HELDOUT
    right = rng.choice(words.WORDS)
    state = rng.choice(notes).format(right)
    if rng.random() < 0.3:
        state = f"Hello! {state}"
    count = rng.randint(1, max(1, most_questions // 2))
    return _sample(state, [_ask_subject(rng, split, right, f"subject_{place}") for place in range(count)])


def _ask_subject(rng: Random, split: Split, right: str, name: str) -> Asked:
    is_train = split == "train"
    wrong = [word for word in rng.sample(words.WORDS, _MOST_SUBJECTS) if word != right]
    subjects = [right, *wrong[: rng.randint(1, _MOST_SUBJECTS - 1)]]
    rng.shuffle(subjects)
    means = words.MEANS_TRAIN if is_train else words.MEANS_HELDOUT
    codes = rng.sample(wordings.CODES, len(subjects))
    is_coded = rng.random() < 0.5
    options: dict[str, str | None] = {}
    for subject, code in zip(subjects, codes, strict=True):
        has_text = is_coded or rng.random() < 0.3
        options[code if is_coded else subject] = rng.choice(means).format(subject) if has_text else None
    answer = codes[subjects.index(right)] if is_coded else right
    asked = rng.choice(words.ABOUT_TRAIN if is_train else words.ABOUT_HELDOUT)
    return Asked(name, {"type": "choice", "instructions": asked, "criteria": options}, answer)


def _sample(state: object, asked: list[Asked]) -> Sample:
    questions = {question.id: question.spec for question in asked}
    return Sample({"state": state, "questions": questions}, {question.id: question.answer for question in asked})
