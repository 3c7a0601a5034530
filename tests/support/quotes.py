"""Quotes of messages in the documents, and whether a message is one of them.

A quote is an indented block after ``<!-- message: NAME -->``; ``...`` in it stands for anything.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
QUOTE = re.compile(r"<!-- message: ([\w-]+) -->\n+((?:    .+\n)+)")
QUOTES = [
    (path.name, name, " ".join(text.split()))
    for path in DOCUMENTS
    for name, text in QUOTE.findall(path.read_text())
]  # fmt: skip


def quoted(name: str) -> list[str]:
    """Return every quote of that name."""
    return [text for _, found, text in QUOTES if found == name]


def matches(quote: str, message: object) -> bool:
    """Whether a message is what a quote says, spaces and line ends aside."""
    pattern = ".*".join(map(re.escape, quote.split("...")))
    return re.fullmatch(pattern, " ".join(str(message).split())) is not None


def assert_quoted(name: str, message: object) -> None:
    """Every quote of a name is the message, and there is one."""
    assert quoted(name), f"no document quotes {name}: {message}"
    for quote in quoted(name):
        assert matches(quote, message), f"documented: {quote}\nsaid: {message}"
