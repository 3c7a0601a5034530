"""Quotes, messages and cases are the same set: nothing is quoted untested, nothing that refuses goes unquoted."""

from __future__ import annotations

import ast
import functools
import re

import pytest
from messages import messages, pieces
from quotes import DOCUMENTS, QUOTE, QUOTES, ROOT, quoted

REFUSING = (
    "config.py",
    "engine",
    "policies",
    "telemetry",
    "partial_hits",
    "serving",
    "decisions/manifest.py",
    "decisions/template.py",
    "decisions/labels.py",
    "cli.py",
    "laboratory",
    "simulate/trace.py",
    "simulate/fit.py",
    "simulate/cost.py",
    "simulate/geometry.py",
    "simulate/workloads.py",
    "bench/command.py",
    "report",
)
"""Where a message that a person meets at a start, or at a command, comes from."""

UNQUOTED = {
    "was not checked at start-up": "a mistake of a caller in the code, never of a person",
    "this server has no engine; ask one that has": "vLLM's front end without an engine, which answers nothing else",
    "the tokenizer isn't loaded": "needs an engine: tests/scheduler/test_endpoint_plugin.py",
    "/v1/systemone answers 501": "frames the reasons that are quoted",
    "/v1/systemone reads": "says what is served",
    "none of these units can be checked": "needs engines: ends with their logs",
    "the engine's process ended": "needs an engine: ends with its log",
    "requests did not start there": "a reason in the check's own table: tests/unit/test_partial_hits.py",
    "a copied state moves a value by": "the same",
    "values differ from those without a cache by": "the same",
    "a decision could not be read": "an engine's failure, in the server's log",
    "every round has": "needs 20 rounds of one size",
    "folder that can be written": "the operating system's reason, for one's own cache folder",
}
"""Pieces of messages that no page quotes, and why."""

NAMES = {"RAISED", "LOGGED", "ANNOUNCED", "SETTINGS", "MANIFESTS", "MODELS", "REQUESTS"} | {
    "COMMANDS",
    "WITH_FILES",
    "NEEDED",
    "SEALED",
    "PLACES",
    "REFUSED",
}


def cases():
    """Names that a test provokes: keys of the tables, and what is compared by name."""
    found = set()
    for path in [*ROOT.glob("tests/unit/test_messages_*.py"), *ROOT.glob("tests/scheduler/test_messages*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict):
                if node.targets[0].id in NAMES:
                    found |= {key.value for key in node.value.keys if key is not None}
            elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "assert_quoted":
                found |= {node.args[0].value} if isinstance(node.args[0], ast.Constant) else set()
    return found


def test_every_quote_has_its_case_and_every_case_its_quote():
    assert {name for _, name, _ in QUOTES} == cases()


def test_every_row_of_what_is_refused_is_quoted():
    text = (ROOT / "docs/compatibility.md").read_text()
    (table,) = re.findall(r"## Refused on purpose\n\n((?:\|.*\n)+)", text)
    assert len(table.splitlines()) - 2 == 5
    assert all(quoted(name) for name in ("pipeline", "connector", "encoder-decoder", "diffusion", "sync-in-async"))


def test_every_message_that_refuses_is_quoted():
    """Its longest piece between what is filled stands in a quote."""
    texts = [text for _, _, text in QUOTES]
    missing = [
        f"{place}: {text}"
        for place, text in messages(*REFUSING)
        if not any(pieces(text)[0] in quote for quote in texts)
        and not any(piece in " ".join(text.split()) for piece in UNQUOTED)
    ]
    assert not missing, "\n".join(["quoted nowhere in docs/:", *missing])


def test_every_exception_to_that_is_a_message():
    known = [" ".join(text.split()) for _, text in messages(*REFUSING)]
    assert [piece for piece in UNQUOTED if not any(piece in text for text in known)] == []


WORDS = re.compile(r"[\w'./-]*\w")
RUN = 7
"""Words in a row that are no accident."""
LOOKS = re.compile(
    r"field '\w+' is |^\s*radixflow( settings)?: \S|can't schedule this engine|is not supported \(", re.MULTILINE
)


def code_of(text):
    """What a document shows as text of a machine, or between quotation marks, other than marked quotes."""
    text = QUOTE.sub("", text)
    fenced = re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    text = re.sub(r"^```\w*\n.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    indented = re.findall(r"(?<=\n\n)((?:    .*\n)+)", text)
    text = re.sub(r"(?<=\n\n)((?:    .*\n)+)", "", text)
    return [*fenced, *indented, *re.findall(r"`([^`]+)`", text), *re.findall(r'"([^"]{20,400})"', text)]


def runs(text):
    words = WORDS.findall(text)
    return {tuple(words[place : place + RUN]) for place in range(len(words) - RUN + 1)}


@functools.cache
def known_runs():
    return frozenset(run for _, message in messages() for piece in pieces(message) for run in runs(piece))


def unmarked(text):
    """Pieces of a document that quote a message, or look as if they did, without a marker."""
    return [code for code in code_of(text) if LOOKS.search(code) or runs(code) & known_runs()]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_no_document_quotes_a_message_without_a_marker(document):
    assert unmarked(document.read_text()) == []


@pytest.mark.parametrize(
    "quote",
    [
        "It says\n\n    radixflow: something that nobody says\n\nand ends.",
        "It says `field 'wait_ms' is 500`.",
        'It says "keep the states that arrive from elsewhere are not in the tables RadixFlow reads".',
        "```\nRadixFlow can't schedule this engine: the moon is full\n```\n",
    ],
)
def test_a_quote_without_a_marker_is_found(quote):
    assert len(unmarked(quote)) == 1
    marked = "<!-- message: range -->\n\n    radixflow settings: field 'wait_ms' is 500\n"
    assert unmarked(marked) == []
