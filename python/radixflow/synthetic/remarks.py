"""What else a ticket says, texts that are no tickets, and how a text is put together."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from radixflow.synthetic.phrases import Phrases
from radixflow.synthetic.topic import Split

PLANS: Mapping[str, Phrases] = MappingProxyType(
    {
        "call": MappingProxyType(
            {
                "train": (
                    "please call me (|back|this afternoon)",
                    "can somebody (call|phone) me (|back)",
                    "I (want|would like) to talk to a person on the phone",
                    "my phone number is 555 0199, call me",
                    "give me a call",
                ),
                "heldout": ("somebody should phone me this afternoon", "I would like a call back"),
            }
        ),
        "leave": MappingProxyType(
            {
                "train": (
                    "we will (move|switch) to (another provider|a competitor)",
                    "otherwise (I|we) will (leave|go to a competitor)",
                    "I am looking for another provider",
                    "you will lose (me|us) as a customer",
                    "this was the last time that I bought here",
                ),
                "heldout": ("otherwise we switch to a competitor", "I will move to another provider as a customer"),
            }
        ),
        "file": MappingProxyType(
            {
                "train": (
                    "(see|I attach) (a screenshot|a photo|the log)",
                    "a (screenshot|photo|log file) is attached",
                    "the attached (file|photo) shows it",
                    "you find a (photo|screenshot) in the attachment",
                ),
                "heldout": ("the log is attached", "see the attachment, it shows a screenshot"),
            }
        ),
    }
)
"""What else a writer may announce."""

FILLERS: Phrases = MappingProxyType(
    {
        "train": (
            "my customer number is (4711|2290|8035|1266)",
            "the order number is (10442|77310|52988)",
            "I use the (web|mobile) version",
            "we are a small (company|school|shop)",
            "I wrote to you (last week|on Monday)",
            "I am (in the office|at home) until (noon|four)",
        ),
        "heldout": ("the customer number is 90317", "we are at home in a small school", "I wrote on Monday last week"),
    }
)
"""Sentences that answer nothing."""

CHATTER: Phrases = MappingProxyType(
    {
        "train": (
            "the weather in (Norway|Spain) is lovely",
            "do you know a good recipe for (bread|soup|cake)",
            "who won the (football|tennis) match (|yesterday)",
            "I saw a (bird|cat|horse) in the garden",
            "hello, is anybody there",
            "what time is it in (Canada|Spain)",
            "my (brother|sister) likes to sing (|in the garden)",
            "tell me a joke (|about a cat)",
            "happy (birthday|new year) to all of you",
        ),
        "heldout": (
            "do you know a joke about a horse",
            "my sister likes tennis and football",
            "the recipe for the cake is lovely",
            "who likes soup and bread",
        ),
    }
)
"""Texts that are about none of the topics."""

LAYOUTS: Mapping[Split, tuple[str, ...]] = MappingProxyType(
    {
        "train": (
            "{topic}. {rest}",
            "{rest} {topic}.",
            "Hello, {topic}. {rest}",
            "Hi, {topic}. {rest} Best regards",
            "Dear team, {topic}. {rest}",
            "{rest} By the way, {topic}.",
            "Good morning! {rest} {topic}.",
            "{topic}! {rest}",
        ),
        "heldout": (
            "Dear team, {rest} {topic}.",
            "Good morning, {topic}. {rest} Best regards",
            "Hi team! {topic}. {rest}",
        ),
    }
)
"""How a text is put together."""
