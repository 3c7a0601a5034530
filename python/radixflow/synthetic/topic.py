"""What a ticket can be about, and the small notation that phrases are written in."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import product
from typing import Literal

from radixflow.errors import RadixFlowError

Split = Literal["train", "heldout"]
SPLITS: tuple[Split, ...] = ("train", "heldout")
_GROUP = re.compile(r"\(([^()]*)\)")


class SplitError(RadixFlowError):
    """A split that doesn't exist was asked for."""


def expand(pattern: str) -> tuple[str, ...]:
    """Return every sentence of a pattern: ``(a|b) c`` is ``a c`` and ``b c``; an empty alternative leaves no gap."""
    parts = _GROUP.split(pattern)
    choices = [part.split("|") if index % 2 else [part] for index, part in enumerate(parts)]
    return tuple(" ".join("".join(taken).split()).replace(" ,", ",") for taken in product(*choices))


def expand_all(patterns: tuple[str, ...]) -> tuple[str, ...]:
    """Return every sentence of several patterns, each once, in their order."""
    return tuple(dict.fromkeys(sentence for pattern in patterns for sentence in expand(pattern)))


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic of tickets, and the team that answers them."""

    names: tuple[str, ...]
    """What its option may be called; the first one is its own name."""
    described: tuple[str, ...]
    held_described: tuple[str, ...]
    phrases: tuple[str, ...]
    held_out: tuple[str, ...]

    @property
    def name(self) -> str:
        """Its own name."""
        return self.names[0]

    def patterns(self, split: Split) -> tuple[str, ...]:
        """Return the patterns of its sentences in a split."""
        return self.phrases if split == "train" else self.held_out

    def descriptions(self, split: Split) -> tuple[str, ...]:
        """Return what may be written beside its name in a split."""
        return self.described if split == "train" else self.held_described
