"""Tests that a document names exist: the public cases, and the claims of the threat model."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAMED = re.compile(r"`([\w/.]*test_\w+\.py)::(\w+)`")
CASES = {*range(1, 9), *range(12, 19), *range(20, 25), 26}


def rows(document):
    lines = (ROOT / "docs" / document).read_text().splitlines()
    return [line for line in lines if line.startswith("| ") and not line.startswith(("| #", "| claim"))]


@pytest.mark.parametrize("document", ["cases.md", "threat-model.md"])
def test_every_test_that_is_named_exists(document):
    for row in rows(document):
        named = NAMED.findall(row)
        assert named, f"no test: {row[:60]}"
        for file, function in named:
            path = (ROOT / "tests" / "scheduler" / file).resolve()
            assert path.exists(), file
            assert re.search(rf"^(def |class )?{function}\b", path.read_text(), re.MULTILINE), f"{file}::{function}"


def test_every_case_of_the_list_has_its_row():
    assert {int(row.split("|")[1]) for row in rows("cases.md")} == CASES
