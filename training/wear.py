"""Wear: words that are missing here and there, so that a sentence is learned by its words and not by heart."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

from radixflow.synthetic import Sample

_WORN_SHARE = 0.6
_STATE_LOSS, _ASKED_LOSS = 0.1, 0.2
"""How many words are left out of a text, and of a question or description."""


def worn(decisions: Iterator[Sample], rng: Random) -> Iterator[Sample]:
    """Yield decisions with words left out; answers stay, as most words decide nothing."""
    for sample in decisions:
        if rng.random() >= _WORN_SHARE:
            yield sample
            continue
        state = sample.request["state"]
        if isinstance(state, str):
            state = _less(rng, state, _STATE_LOSS)
        questions = {name: _worn_question(rng, spec) for name, spec in sample.request["questions"].items()}
        yield replace(sample, request={"state": state, "questions": questions})


def _worn_question(rng: Random, spec: dict[str, Any]) -> dict[str, Any]:
    criteria = spec.get("criteria")
    if isinstance(criteria, dict):
        # Names stay: they are what is answered.
        criteria = {name: text and _less(rng, text, _ASKED_LOSS) for name, text in criteria.items()}
    made = {**spec, "instructions": _less(rng, spec["instructions"], _ASKED_LOSS)}
    return made if criteria is None else {**made, "criteria": criteria}


def _less(rng: Random, text: str, loss: float) -> str:
    words = text.split(" ")
    kept = [word for word in words if rng.random() >= loss]
    return " ".join(kept) if kept else text
