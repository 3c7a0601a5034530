"""How a ticket says how its writer feels."""

from __future__ import annotations

from radixflow.synthetic.phrases import grades

MOODS = grades(
    {
        -2: {
            "train": (
                "I (love|adore) your (service|product|team)",
                "you are (the best|fantastic|wonderful)",
                "(this|your service) is the best that I (know|ever used)",
                "I am (very happy|delighted|thrilled) with you",
                "thank you so much, you are great",
            ),
            "heldout": (
                "I am delighted, your team is fantastic",
                "thank you so much, I love the product",
                "you are great, the best that I ever used",
                "I adore it, what a wonderful service",
            ),
        },
        -1: {
            "train": (
                "your service is (good|nice)",
                "I am (happy|content|satisfied) with (you|the product)",
                "(so far|most of the time) I like (your service|it)",
                "thanks for the (good|friendly) help",
            ),
            "heldout": (
                "so far I am satisfied with the service",
                "thanks, I like the friendly team",
                "most of the time the product is good",
                "I am content and happy with it",
            ),
        },
        0: {
            "train": ("thanks in advance", "kind regards", "thank you for a short answer", "this is just a question"),
            "heldout": ("kind regards and thanks in advance", "this is just a short question"),
        },
        1: {
            "train": (
                "this is (a bit|a little) (annoying|tiresome)",
                "I am (slightly|a little) (annoyed|disappointed)",
                "that is (not so nice|a little unpleasant)",
                "I had hoped for (a bit more|better)",
            ),
            "heldout": (
                "this is slightly unpleasant",
                "I had hoped for a little better, a bit annoying",
                "that is a little annoying",
                "I am a bit disappointed",
            ),
        },
        2: {
            "train": (
                "I am (annoyed|disappointed|frustrated)",
                "this is (annoying|frustrating)",
                "I am (not happy|unhappy) with (this|you)",
                "your service is (bad|poor)",
                "this is the (second|third) time",
            ),
            "heldout": (
                "I am frustrated, this is bad",
                "it is the third time and I am unhappy",
                "I am not happy, that is poor",
                "this is frustrating, I am disappointed",
            ),
        },
        3: {
            "train": (
                "I am (angry|very angry|really upset)",
                "this is (unacceptable|terrible|a shame)",
                "I am very (disappointed|frustrated|upset) and angry",
                "your service is (terrible|awful)",
            ),
            "heldout": (
                "I am really angry, this is awful",
                "what a shame, your service is unacceptable",
                "this is terrible, I am really angry",
                "I am very upset, it is awful",
            ),
        },
        4: {
            "train": (
                "I am (furious|outraged|boiling with rage)",
                "this is (an outrage|outrageous|a disgrace|disgusting)",
                "I hate (you|your company)",
                "you are (idiots|liars|criminals)",
                "I have never seen such (idiots|a disgrace)",
            ),
            "heldout": (
                "you liars, I am furious",
                "I hate such a disgrace, this is outrageous",
                "it is disgusting, you criminals",
                "I am boiling, what an outrage",
            ),
        },
    }
)
"""-2 delighted, -1 content, 0 nothing, 1 to 4 ever angrier; nothing said is 0."""
