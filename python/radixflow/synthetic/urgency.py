"""How a ticket says that it is urgent, or isn't."""

from __future__ import annotations

from types import MappingProxyType

from radixflow.synthetic.phrases import Phrases, grades

MOST_URGENT = 4
URGENCY = grades(
    {
        0: {
            "train": (
                "there is no (hurry|rush)",
                "(this|it) is not urgent (|at all)",
                "take your time",
                "answer whenever you have time",
                "it can wait (|for some weeks)",
                "no need to hurry",
            ),
            "heldout": (
                "this can wait, no rush",
                "there is no need to answer, take your time",
                "no hurry, answer when you have time",
                "it is not urgent, it can wait",
            ),
        },
        1: {
            "train": (
                "an answer (next month|some time this month) is fine",
                "please answer (within|in) (two|three) weeks",
                "some time next month is (good|early) enough",
                "I need it next month",
            ),
            "heldout": (
                "it is fine within three weeks",
                "next month is early enough",
                "I need an answer some time next month",
                "please answer some time this month",
            ),
        },
        2: {
            "train": (
                "please answer (this week|by Friday|in a few days)",
                "I need (it|this) by (Friday|the end of the week)",
                "it should be done (this week|in a few days)",
                "an answer by Friday would be good",
            ),
            "heldout": (
                "I need an answer this week",
                "it should be done by the end of the week",
                "please answer by the end of the week",
                "in a few days would be good",
            ),
        },
        3: {
            "train": (
                "please (answer|fix it|do it) (today|by tomorrow)",
                "I need (it|this|an answer) (today|by tomorrow|tonight)",
                "it has to be done (today|before tonight|by tomorrow)",
                "please be quick",
                "this is urgent",
                "tomorrow is too late",
            ),
            "heldout": (
                "please do it before tomorrow",
                "this has to be done tonight, it is urgent",
                "be quick, I need it tonight",
                "this is urgent, fix it by tomorrow",
            ),
        },
        4: {
            "train": (
                "this is (an emergency|extremely urgent)",
                "(act|help us|answer) (now|immediately|right now)",
                "we need help (immediately|right now|this minute)",
                "(drop everything|do something) (now|immediately)",
                "it can not wait (one|another) (minute|hour)",
            ),
            "heldout": (
                "this is an emergency, act right now",
                "help immediately, it can not wait another hour",
                "it is extremely urgent, do something right now",
                "we need an answer this minute",
            ),
        },
    }
)
"""Grade 0 to 4; nothing said is grade 0."""

LOSSES: Phrases = MappingProxyType(
    {
        "train": (
            "we lose (money|orders|customers) (every minute|every hour|by the hour|right now)",
            "we lose (orders|customers|sales) by the minute",
            "this costs us (money|a fortune|customers) (every minute|by the minute|every hour)",
            "(the shop|our business|production) (stands still|has stopped)",
        ),
        "heldout": (
            "it costs us orders by the hour",
            "our shop has stopped and we lose sales every minute",
            "our production stands still",
            "we lose a fortune every hour",
        ),
    }
)
"""Most urgent, and nobody who writes so is calm: where no mood is written, it is the middle one."""
LOSS_MOOD = 2
