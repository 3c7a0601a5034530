"""How questions are asked, and what options and levels are called."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from radixflow.synthetic.topic import Split

Wordings = Mapping[Split, tuple[str, ...]]


def _both(train: tuple[str, ...], heldout: tuple[str, ...]) -> Wordings:
    return MappingProxyType({"train": train, "heldout": heldout})


TEAM = _both(
    (
        "Who should handle it?",
        "Which team should answer?",
        "Where does this ticket belong?",
        "Which department is right for this?",
        "Route this message.",
        "What is it about?",
        "Choose the right queue.",
        "Who should answer?",
        "Which team is it for?",
        "Who handles this message?",
        "Which queue should it go to?",
        "Which team handles this ticket?",
        "Who is right for this?",
        "Where should this message go?",
        "Pick the team.",
        "",
    ),
    ("Who should answer this ticket?", "Which queue is right for this message?", "Which team should handle this?"),
)
SENTIMENT = _both(
    (
        "What is the sentiment?",
        "How does the writer feel?",
        "What is the tone of the message?",
        "Rate the sentiment.",
        "How is the sentiment?",
        "What is the sentiment of the writer?",
        "Rate the tone.",
        "How is the tone?",
        "What sentiment does this message have?",
        "Which sentiment is it?",
    ),
    ("What is the tone of the writer?", "How is the sentiment of this message?"),
)
URGENCY = _both(
    (
        "How urgent is it?",
        "How soon is an answer needed?",
        "Rate the urgency.",
        "What priority does it have?",
        "How urgent is this ticket?",
        "What urgency does this message have?",
        "How urgent?",
        "Which urgency is it?",
    ),
    ("How urgent is this message?", "What is the urgency?"),
)
ANGER = _both(
    (
        "How angry is the writer?",
        "How upset is the customer?",
        "Rate the anger.",
        "What is the mood of the writer?",
        "How angry is the customer?",
        "How angry?",
        "How angry is this message?",
        "How upset?",
    ),
    ("How angry is this customer?", "How upset is the writer?"),
)
PLAN = _both(
    (
        "What does the writer announce?",
        "What else is in the message?",
        "What should we know about it?",
        "What else is there?",
        "What does the customer announce?",
        "Is there anything else we should know?",
        "What else does the message announce?",
        "What else?",
    ),
    ("What else does the writer announce?", "What else should we know?"),
)
IS_URGENT = _both(
    (
        "Is it urgent?",
        "Is this urgent?",
        "Does somebody have to act today?",
        "Must we answer today?",
        "Does it hurry?",
        "Is this ticket urgent?",
        "Must we act today?",
        "Is the message urgent?",
        "Urgent?",
    ),
    ("Is this message urgent?", "Must somebody act today?"),
)
IS_ANGRY = _both(
    (
        "Is the writer angry?",
        "Is the customer upset?",
        "Is this an angry message?",
        "Does the writer complain angrily?",
        "Is the customer angry?",
        "Is the message angry?",
        "Does an angry customer write?",
        "Is somebody upset?",
    ),
    ("Is this customer angry?", "Is the writer upset?"),
)
IS_HAPPY = _both(
    (
        "Is the customer happy?",
        "Is the writer satisfied?",
        "Is the message positive?",
        "Is somebody happy?",
        "Does a happy customer write?",
        "Is this a satisfied customer?",
    ),
    ("Is this a happy customer?", "Is the writer happy?"),
)
PLANNED: Mapping[str, Wordings] = MappingProxyType(
    {
        "call": _both(
            (
                "Does the writer want a call?",
                "Should we phone the customer?",
                "Does somebody ask for a call back?",
                "Does the customer want a call?",
                "Should we call?",
                "Does the writer want a call back?",
                "Is a call asked for?",
            ),
            ("Does the customer want a call back?", "Should we phone the writer?"),
        ),
        "leave": _both(
            (
                "Does the writer want to leave us?",
                "Could we lose this customer?",
                "Does the customer talk about another provider?",
                "Does the customer want to leave?",
                "Could the writer leave us?",
                "Does somebody talk about another provider?",
                "Will somebody leave us?",
            ),
            ("Could the customer leave us?", "Does the writer talk about another provider?"),
        ),
        "file": _both(
            (
                "Is a file attached?",
                "Is there an attachment?",
                "Did the writer attach something?",
                "Is something attached?",
                "Did somebody attach a file?",
                "Is there a file?",
                "Did the customer attach something?",
            ),
            ("Did the customer attach a file?", "Is there something attached?"),
        ),
    }
)
PLAN_NAMES: Mapping[str, tuple[tuple[str, ...], Wordings]] = MappingProxyType(
    {
        "call": (
            ("call", "phone"),
            _both(
                ("wants a phone call", "call the writer", "call back", "the customer wants a call"),
                ("call the customer",),
            ),
        ),
        "leave": (
            ("leave", "churn"),
            _both(
                ("wants another provider", "may leave us", "leaves us", "wants to leave"),
                ("wants to leave us",),
            ),
        ),
        "file": (
            ("file", "attachment"),
            _both(
                ("something is attached", "a file or photo", "a file is attached", "an attached photo"),
                ("a photo is attached",),
            ),
        ),
        "none": (
            ("none", "nothing"),
            _both(
                ("none of these things", "nothing else here", "nothing of it", "none of these"),
                ("nothing of these things",),
            ),
        ),
    }
)
TOPIC_NOULS: Mapping[str, Wordings] = MappingProxyType(
    {
        "refund": _both(
            (
                "Does the writer ask for a refund?",
                "Does somebody want money back?",
                "Is a refund requested?",
                "Is a refund wanted?",
                "Does the writer want money back?",
                "Does somebody ask for a refund?",
                "Is it a refund?",
            ),
            ("Does the customer want a refund?", "Does somebody ask for money back?"),
        ),
        "login": _both(
            (
                "Is somebody locked out?",
                "Does a password or login fail?",
                "Can the user not sign in?",
                "Is the writer locked out?",
                "Can the writer not sign in?",
                "Does the login fail?",
                "Is a user locked out?",
            ),
            ("Is the user locked out?", "Can somebody not sign in?"),
        ),
        "outage": _both(
            (
                "Is a service down?",
                "Is there an outage?",
                "Does the system fail for everybody?",
                "Is something down?",
                "Is it an outage?",
                "Does a system fail?",
                "Is the service down?",
            ),
            ("Is the system down?", "Is there an outage of a service?"),
        ),
        "cancel": _both(
            (
                "Does the writer cancel?",
                "Should a contract be ended?",
                "Does a subscription end?",
                "Does somebody cancel?",
                "Is a contract to be ended?",
                "Should the subscription end?",
            ),
            ("Should a subscription be ended?", "Does the customer cancel?"),
        ),
        "sales": _both(
            (
                "Does the writer want to buy something?",
                "Is this a possible new customer?",
                "Does somebody want to buy?",
                "Is something to be bought?",
                "Does the writer want to buy?",
            ),
            ("Does the customer want to buy something?",),
        ),
        "security": _both(
            (
                "Is this a security problem?",
                "Was something hacked or stolen?",
                "Is there a security matter?",
                "Is it a problem of security?",
                "Was something hacked?",
                "Was an account stolen?",
            ),
            ("Is there a security problem?", "Was the account hacked?"),
        ),
    }
)
MONEY_TOPICS = ("billing", "refund", "sales")
IS_MONEY = _both(
    (
        "Is it about money?",
        "Does it concern payments or prices?",
        "Is money involved?",
        "Is money concerned?",
        "Does this concern money?",
        "Is the message about money?",
    ),
    ("Is this about money?", "Does it concern money?"),
)

OTHERS = ("other", "else", "rest", "misc")
OTHER_DESCRIPTIONS = _both(("anything else", "none of the others", "everything else"), ("none of the things here",))

SENTIMENT_NAMES = (("positive", "neutral", "negative"), ("good", "neutral", "bad"), ("happy", "neutral", "unhappy"))

URGENCY_LEVELS = (
    ("low", "medium", "high"),
    ("not urgent", "somewhat urgent", "urgent"),
    ("low", "normal", "high", "critical"),
    ("can wait", "this month", "this week", "today", "now"),
    ("none", "low", "medium", "high", "critical"),
    ("very low", "low", "medium", "high", "very high"),
    ("1", "2", "3", "4", "5"),
    ("0", "1", "2", "3", "4", "5"),
    ("not at all", "hardly", "a little", "somewhat", "quite", "very", "extremely"),
    ("1", "2", "3", "4", "5", "6", "7"),
)
ANGER_LEVELS = (
    ("calm", "annoyed", "furious"),
    ("calm", "annoyed", "angry", "furious"),
    ("calm", "slightly annoyed", "annoyed", "angry", "furious"),
    ("not at all", "a little", "somewhat", "very", "extremely"),
    ("1", "2", "3", "4", "5"),
    ("not at all", "hardly", "a little", "somewhat", "quite", "very", "extremely"),
)
SENTIMENT_LEVELS = (
    ("negative", "neutral", "positive"),
    ("very negative", "negative", "neutral", "positive", "very positive"),
    ("terrible", "bad", "okay", "good", "great"),
    ("1", "2", "3", "4", "5"),
)
"""Levels, lowest first; a wording of its own isn't held out, the texts they are asked about are."""
