"""Texts of tickets, and what is true about each of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from random import Random

from radixflow.synthetic.moods import MOODS
from radixflow.synthetic.phrases import Phrases
from radixflow.synthetic.remarks import CHATTER, FILLERS, LAYOUTS, PLANS
from radixflow.synthetic.topic import Split, Topic, expand_all
from radixflow.synthetic.topics_access import ACCESS
from radixflow.synthetic.topics_company import COMPANY
from radixflow.synthetic.topics_service import SERVICE
from radixflow.synthetic.urgency import LOSS_MOOD, LOSSES, MOST_URGENT, URGENCY

TOPICS: tuple[Topic, ...] = (*SERVICE, *ACCESS, *COMPANY)
_CHATTER_SHARE, _OBJECT_SHARE = 0.07, 0.15
_URGENCY_SHARE, _LOSS_SHARE, _MOOD_SHARE, _PLAN_SHARE, _FILLER_SHARE = 0.55, 0.12, 0.5, 0.3, 0.35


@dataclass(frozen=True, slots=True)
class Ticket:
    """A text and its truth."""

    state: str | dict[str, str]
    topic: Topic | None
    """None: about no topic."""
    urgency: int
    """0 to 4."""
    mood: int
    """-2 delighted, 0 nothing, 4 furious."""
    is_loss: bool
    """Whether the mood was understood from a loss, and not written."""
    plan: str | None


@cache
def phrases(written: tuple[str, ...]) -> tuple[str, ...]:
    """Return every sentence of some patterns; computed once."""
    return expand_all(written)


def _one(rng: Random, found: Phrases, split: Split) -> str:
    """Return one of the sentences, every pattern being as likely, however many sentences it has."""
    return rng.choice(phrases((rng.choice(found[split]),)))


def _sentence(rng: Random, text: str) -> str:
    return (text[0].upper() + text[1:]) if rng.random() < 0.7 else text


def draw_ticket(rng: Random, split: Split) -> Ticket:
    """Write a ticket."""
    topic = None if rng.random() < _CHATTER_SHARE else rng.choice(TOPICS)
    core = _one(rng, CHATTER, split) if topic is None else rng.choice(phrases((rng.choice(topic.patterns(split)),)))
    rest: list[str] = []
    urgency, mood, is_loss, plan = 0, 0, False, None
    drawn = rng.random()
    if drawn < _LOSS_SHARE:
        urgency, mood, is_loss = MOST_URGENT, LOSS_MOOD, True
        rest.append(_one(rng, LOSSES, split))
    elif drawn < _LOSS_SHARE + _URGENCY_SHARE:
        urgency = rng.choice(tuple(URGENCY))
        rest.append(_one(rng, URGENCY[urgency], split))
    if rng.random() < _MOOD_SHARE:
        mood, is_loss = rng.choice(tuple(MOODS)), False
        rest.append(_one(rng, MOODS[mood], split))
    if rng.random() < _PLAN_SHARE:
        plan = rng.choice(tuple(PLANS))
        rest.append(_one(rng, PLANS[plan], split))
    if rng.random() < _FILLER_SHARE:
        rest.append(_one(rng, FILLERS, split))
    rng.shuffle(rest)
    end = rng.choice((".", ".", "!")) if mood >= LOSS_MOOD else "."
    written = " ".join(f"{_sentence(rng, part)}{end}" for part in rest)
    state: str | dict[str, str]
    if rng.random() < _OBJECT_SHARE:
        state = {"subject": core, "body": written} if rest else {"channel": "mail", "text": f"{core}."}
    else:
        text = rng.choice(LAYOUTS[split]).format(topic=_sentence(rng, core), rest=written)
        state = " ".join(text.split())
    return Ticket(state, topic, urgency, mood, is_loss, plan)


def sentences(split: Split) -> Mapping[str, tuple[str, ...]]:
    """Return every sentence that a text of a split may be made of, by what it is for."""
    found = {topic.name: phrases(topic.patterns(split)) for topic in TOPICS}
    found |= {f"urgency {grade}": phrases(part[split]) for grade, part in URGENCY.items()}
    found |= {f"mood {grade}": phrases(part[split]) for grade, part in MOODS.items()}
    found |= {f"plan {name}": phrases(part[split]) for name, part in PLANS.items()}
    others = {"loss": LOSSES, "filler": FILLERS, "chatter": CHATTER}
    return found | {name: phrases(part[split]) for name, part in others.items()}
