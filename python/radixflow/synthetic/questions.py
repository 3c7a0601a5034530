"""Typed questions about a ticket, with the answers that its truth gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from radixflow.synthetic import wordings
from radixflow.synthetic.ticket import TOPICS, Ticket
from radixflow.synthetic.topic import Split, Topic

Answer = str | bool | int
"""Of a choice the option's name, of a noul whether it holds, of a score the level, counted from 0."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A question as a request spells it, and its answer."""

    id: str
    spec: dict[str, Any]
    answer: Answer


Asker = Callable[[Random, Ticket, Split], Asked | None]
"""Asks about a ticket; None where its text doesn't decide the answer."""

_OTHER_SHARE, _ABSENT_SHARE = 0.4, 0.4
_MOST_TEAMS = 6


def _spec(kind: str, instructions: str, criteria: object) -> dict[str, Any]:
    spec: dict[str, Any] = {"type": kind, "instructions": instructions}
    return spec if criteria is None else spec | {"criteria": criteria}


def ask_team(rng: Random, ticket: Ticket, split: Split) -> Asked:
    """Ask which team a ticket belongs to, of two to six."""
    # Chatter belongs to nobody, so that there has to be an option for the rest.
    has_other = ticket.topic is None or rng.random() < _OTHER_SHARE
    is_absent = ticket.topic is None or (has_other and rng.random() < _ABSENT_SHARE)
    places = rng.randint(2, _MOST_TEAMS) - has_other
    wrong = [topic for topic in TOPICS if topic is not ticket.topic]
    taken: list[Topic] = rng.sample(wrong, places if is_absent else places - 1)
    if ticket.topic is not None and not is_absent:
        taken.append(ticket.topic)
    rng.shuffle(taken)
    described = rng.choice((0.0, 0.5, 1.0))
    options: dict[str, str | None] = {}
    answer = ""
    for topic in taken:
        name = topic.name if rng.random() < 0.7 else rng.choice(topic.names)
        options[name] = rng.choice(topic.descriptions(split)) if rng.random() < described else None
        if topic is ticket.topic:
            answer = name
    if has_other:
        other = wordings.OTHERS[0] if rng.random() < 0.6 else rng.choice(wordings.OTHERS)
        options[other] = rng.choice(wordings.OTHER_DESCRIPTIONS[split]) if rng.random() < 0.3 else None
        answer = answer or other
    return Asked("team", _spec("choice", rng.choice(wordings.TEAM[split]), options), answer)


def ask_sentiment(rng: Random, ticket: Ticket, split: Split) -> Asked:
    """Ask for one of three sentiments."""
    names = rng.choice(wordings.SENTIMENT_NAMES)
    answer = names[0 if ticket.mood < 0 else 1 if ticket.mood == 0 else 2]
    shuffled = rng.sample(names, len(names))
    options = dict.fromkeys(shuffled)
    return Asked("sentiment", _spec("choice", rng.choice(wordings.SENTIMENT[split]), options), answer)


def ask_plan(rng: Random, ticket: Ticket, split: Split) -> Asked:
    """Ask what the writer announces."""
    options: dict[str, str | None] = {}
    answer = ""
    for plan, (names, described) in rng.sample(sorted(wordings.PLAN_NAMES.items()), len(wordings.PLAN_NAMES)):
        name = rng.choice(names)
        options[name] = rng.choice(described[split]) if rng.random() < 0.5 else None
        if plan == (ticket.plan or "none"):
            answer = name
    return Asked("plan", _spec("choice", rng.choice(wordings.PLAN[split]), options), answer)


def ask_is_urgent(rng: Random, ticket: Ticket, split: Split) -> Asked | None:
    """Ask whether a ticket is urgent; the middle grade is neither."""
    if ticket.urgency == 2:
        return None
    criteria = {"true": "somebody has to act today"} if rng.random() < 0.2 else None
    return Asked("urgent", _spec("noul", rng.choice(wordings.IS_URGENT[split]), criteria), ticket.urgency > 2)


def ask_is_angry(rng: Random, ticket: Ticket, split: Split) -> Asked | None:
    """Ask whether the writer is angry; mild words are neither, nor is a loss."""
    if ticket.mood in (1, 2):
        return None
    return Asked("angry", _spec("noul", rng.choice(wordings.IS_ANGRY[split]), None), ticket.mood > 2)


def ask_is_happy(rng: Random, ticket: Ticket, split: Split) -> Asked | None:
    """Ask whether the writer is happy."""
    return Asked("happy", _spec("noul", rng.choice(wordings.IS_HAPPY[split]), None), ticket.mood < 0)


def ask_is_about(rng: Random, ticket: Ticket, split: Split) -> Asked:
    """Ask whether a ticket is about a topic that has questions of its own, half of the time about its own one."""
    name = ticket.topic.name if ticket.topic is not None else ""
    if name not in wordings.TOPIC_NOULS or rng.random() < 0.4:
        name = rng.choice([topic for topic in wordings.TOPIC_NOULS if topic != name])
    is_true = ticket.topic is not None and ticket.topic.name == name
    return Asked(f"is_{name}", _spec("noul", rng.choice(wordings.TOPIC_NOULS[name][split]), None), is_true)


def ask_is_money(rng: Random, ticket: Ticket, split: Split) -> Asked | None:
    """Ask whether money is what a ticket is about; a loss might be."""
    if ticket.is_loss:
        return None
    is_true = ticket.topic is not None and ticket.topic.name in wordings.MONEY_TOPICS
    if not is_true and rng.random() < 0.6:
        return None
    return Asked("money", _spec("noul", rng.choice(wordings.IS_MONEY[split]), None), is_true)


def ask_planned(rng: Random, ticket: Ticket, split: Split) -> Asked:
    """Ask whether the writer announces one thing."""
    plan = ticket.plan if ticket.plan and rng.random() < 0.6 else rng.choice(tuple(wordings.PLANNED))
    return Asked(plan, _spec("noul", rng.choice(wordings.PLANNED[plan][split]), None), plan == ticket.plan)


def _level(value: float, levels: int) -> int:
    """Return the level of a value from 0 to 1, halves up."""
    return int(value * (levels - 1) + 0.5)


def score_urgency(rng: Random, ticket: Ticket, split: Split) -> Asked:
    """Ask how urgent a ticket is."""
    levels = list(rng.choice(wordings.URGENCY_LEVELS))
    answer = _level(ticket.urgency / 4, len(levels))
    return Asked("urgency", _spec("score", rng.choice(wordings.URGENCY[split]), levels), answer)


def score_anger(rng: Random, ticket: Ticket, split: Split) -> Asked:
    """Ask how angry the writer is."""
    levels = list(rng.choice(wordings.ANGER_LEVELS))
    answer = _level(max(0, ticket.mood) / 4, len(levels))
    return Asked("anger", _spec("score", rng.choice(wordings.ANGER[split]), levels), answer)


def score_sentiment(rng: Random, ticket: Ticket, split: Split) -> Asked:
    """Ask how positive a ticket is."""
    levels = list(rng.choice(wordings.SENTIMENT_LEVELS))
    value = {-2: 1.0, -1: 0.75, 0: 0.5, 1: 0.25, 2: 0.25}.get(ticket.mood, 0.0)
    return Asked("tone", _spec("score", rng.choice(wordings.SENTIMENT[split]), levels), _level(value, len(levels)))


ASKERS: tuple[tuple[Asker, int], ...] = (
    (ask_team, 8),
    (ask_sentiment, 2),
    (ask_plan, 2),
    (ask_is_urgent, 2),
    (ask_is_angry, 2),
    (ask_is_happy, 1),
    (ask_is_about, 4),
    (ask_is_money, 1),
    (ask_planned, 2),
    (score_urgency, 4),
    (score_anger, 3),
    (score_sentiment, 2),
)
"""Every question and how often it is asked, against the others."""
