"""Prompt templates of a model's own: text with named places, cut where the branches of a decision part."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from radixflow.decisions.errors import ManifestError, shorten

CHAT = "chat"
"""Instead of a template: the tokenizer's own chat template, one user turn."""


class ReadStrategy(StrEnum):
    """How a model's answer is read."""

    LABEL = "label"
    """One prompt a question, log-probabilities of the labels' first tokens."""
    BRANCH = "branch"
    """One prompt a candidate, a scalar at the last position."""


PLACES: Mapping[ReadStrategy, tuple[str, ...]] = MappingProxyType(
    {
        ReadStrategy.LABEL: ("system", "state", "question"),
        ReadStrategy.BRANCH: ("system", "state", "question", "options", "option"),
    }
)
"""What a template of each strategy may name, in the order in which it has to."""
_OPTIONAL = ("system", "options")
_NAMED = re.compile(r"\{([a-z_]+)\}")


@dataclass(frozen=True, slots=True)
class Template:
    """A template that was checked."""

    parts: tuple[str, ...]
    """Literal text and names of places by turns; the first and the last are text, perhaps empty."""

    @property
    def places(self) -> tuple[str, ...]:
        """The places it has."""
        return self.parts[1::2]

    @property
    def tail(self) -> str:
        """The text after the last place: what stands right before the answer.

        Its ids are a label read's tail only where the tokenizer doesn't join them with what comes before: see
        :func:`radixflow.decisions.check_tail`.
        """
        return self.parts[-1]

    def fill(self, values: Mapping[str, str], own_from: str) -> tuple[str, str]:
        """Fill the places.

        Args:
            values: text for each place.
            own_from: the place that the own part begins with.

        Returns:
            What stands before that place, and the rest.
        """
        # Filled once, never searched again: a state that spells "{question}" stays what it is.
        texts = [values[part] if index % 2 else part for index, part in enumerate(self.parts)]
        cut = 2 * self.places.index(own_from) + 1
        return "".join(texts[:cut]), "".join(texts[cut:])


def parse_template(text: str, strategy: ReadStrategy, field: str) -> Template:
    """Check a template of a manifest.

    Args:
        text: with ``{state}``, ``{question}`` and so on; see :data:`PLACES`.
        strategy: what it is for.
        field: the manifest's field, for errors.

    Raises:
        ManifestError: a place is unknown, missing, repeated or out of order, or nothing stands before the answer.
    """
    known = PLACES[strategy]
    parts = tuple(_NAMED.split(text))
    places = parts[1::2]
    _check_places(places, known, f"{field} ({shorten(text)})")
    if strategy is ReadStrategy.LABEL and not parts[-1]:
        raise ManifestError(
            f"{field} ({shorten(text)}) ends with {{question}}; write what the answer follows, such as '\\nAnswer: '"
        )
    return Template(parts)


def _check_places(places: Sequence[str], known: Sequence[str], shown: str) -> None:
    """Refuse places that aren't the known ones, once each, in their order."""
    for place in places:
        if place not in known:
            raise ManifestError(f"{shown} has the place {{{place}}}, which is unknown; known: {_braced(known)}")
        if places.count(place) > 1:
            raise ManifestError(f"{shown} has {{{place}}} more than once; name it once")
    missing = [place for place in known if place not in places and place not in _OPTIONAL]
    if missing:
        raise ManifestError(f"{shown} lacks {_braced(missing)}; its places are: {_braced(known)}")
    ordered = [place for place in known if place in places]
    if list(places) != ordered:
        raise ManifestError(
            f"{shown} has its places in another order than {_braced(ordered)}; what branches share comes first"
        )


def _braced(places: Sequence[str]) -> str:
    """List places as a template spells them."""
    return ", ".join(f"{{{place}}}" for place in places)
