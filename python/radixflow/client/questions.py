"""Questions as a request spells them. What they may hold is checked by the server, which says which field is wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypedDict


class QuestionDict(TypedDict):
    """One question of ``questions``; see :class:`radixflow.decisions.QuestionSpec`."""

    type: Literal["choice", "noul", "score"]
    instructions: str
    criteria: dict[str, str | None] | list[str] | None


def choice(options: Mapping[str, str | None] | Sequence[str], instructions: str = "") -> QuestionDict:
    """Ask which one of 1 to 26 options.

    Args:
        options: names to descriptions (None: the name says it all), or names only.
        instructions: what is asked.

    Raises:
        TypeError: ``options`` is one string.
        ValueError: a name is given twice.
    """
    if isinstance(options, Mapping):
        return {"type": "choice", "instructions": instructions, "criteria": dict(options)}
    names = _listed(options, "options")
    # A dictionary would lose the second one without a word.
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"options names {twice!r} more than once; give each option its own name")
    return {"type": "choice", "instructions": instructions, "criteria": dict.fromkeys(names)}


def noul(instructions: str, *, true: str | None = None, false: str | None = None) -> QuestionDict:
    """Ask whether something holds.

    Args:
        instructions: what is asked.
        true: what a yes means; None: nothing is added.
        false: what a no means.
    """
    sides = {"true": true, "false": false}
    described = {side: text for side, text in sides.items() if text is not None}
    return {"type": "noul", "instructions": instructions, "criteria": {**described} or None}


def score(levels: Sequence[str], instructions: str = "") -> QuestionDict:
    """Ask how much, on 2 to 10 levels, lowest first.

    Raises:
        TypeError: ``levels`` is one string.
    """
    return {"type": "score", "instructions": instructions, "criteria": _listed(levels, "levels")}


def _listed(names: Sequence[str], what: str) -> list[str]:
    """Return a list of names; a lone string is a sequence too, of its characters."""
    if isinstance(names, str):
        raise TypeError(f"{what} is the string {names!r}; give a list of strings")
    return list(names)
