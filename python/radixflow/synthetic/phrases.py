"""Phrases by grade and split."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from radixflow.synthetic.topic import Split

Phrases = Mapping[Split, tuple[str, ...]]
"""Patterns of sentences, by split."""


def grades(written: dict[int, dict[Split, tuple[str, ...]]]) -> Mapping[int, Phrases]:
    """Freeze phrases by grade."""
    return MappingProxyType({grade: MappingProxyType(phrases) for grade, phrases in written.items()})
