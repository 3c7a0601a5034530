"""Prompts for the check: families that part inside a block, below the first one and beyond."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

_FAMILIES = 6
_SIBLINGS = 4
_OWN = (6, 40)
_MOST_BLOCKS = 2.5
_FIRST_TOKEN = 10


@dataclass(frozen=True, slots=True)
class PromptFamily:
    """Prompts that share their first ``junction`` tokens and nothing more."""

    junction: int
    """Tokens: a multiple of the unit, not of the block size."""
    prompts: tuple[tuple[int, ...], ...]
    """Token ids."""


def prompt_families(unit: int, block_size: int, vocabulary: int, longest: int, seed: int = 0) -> list[PromptFamily]:
    """Draw the families; the same arguments give the same tokens.

    Args:
        unit: tokens.
        block_size: tokens.
        vocabulary: ids are below it.
        longest: most tokens of a prompt.
        seed: of the draw.
    """
    draw = np.random.default_rng([seed, unit, block_size])
    reach = min(int(_MOST_BLOCKS * block_size), longest - _OWN[1] - 1)
    places = [at for at in range(unit, reach + 1, unit) if at % block_size]
    chosen = sorted({places[round(at)] for at in np.linspace(0, len(places) - 1, _FAMILIES)}) if places else []
    families = []
    for junction in chosen:
        shared = _words(draw, vocabulary, junction)
        prompts = []
        for number in range(_SIBLINGS):
            own = _words(draw, vocabulary, int(draw.integers(_OWN[0], _OWN[1] + 1)))
            # Different first tokens, so that they part exactly there.
            own[0] = _FIRST_TOKEN + number
            prompts.append((*shared, *own))
        families.append(PromptFamily(junction, tuple(prompts)))
    return families


def _words(draw: np.random.Generator, vocabulary: int, length: int) -> list[int]:
    return [int(token) for token in draw.integers(_FIRST_TOKEN + _SIBLINGS, vocabulary, length)]
