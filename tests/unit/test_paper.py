"""The paper says what the result folders say: every generated file is what the folders give now."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAPER = ROOT / "paper"


@pytest.fixture(scope="module")
def generated():
    spec = importlib.util.spec_from_file_location("paper_generate", PAPER / "generate.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.generate()


def test_generated_files_are_what_the_folders_give(generated):
    committed = {path.name for path in (PAPER / "generated").iterdir()}
    assert committed == set(generated)
    for name, content in generated.items():
        if isinstance(content, str):
            assert (PAPER / "generated" / name).read_text() == content, name


def test_figures_hold_what_the_folders_give(generated):
    # A PDF's bytes depend on matplotlib's version; the test above holds the numbers.
    for name, content in generated.items():
        if isinstance(content, bytes):
            assert content.startswith(b"%PDF")
            assert (PAPER / "generated" / name).stat().st_size > 2_000


def test_no_result_is_typed_by_hand(generated):
    text = (PAPER / "main.tex").read_text()
    used = set(
        re.findall(r"\\((?:Lab|Work|Fam|Waiting|Repro|Attribution|Ranks|Scale|Check|Short|End)[A-Z][A-Za-z]*)", text)
    )
    defined = set(re.findall(r"\\newcommand\{\\(\w+)\}", generated["numbers.tex"]))
    assert used == defined
    body = text[text.index("\\section{Attribution}") : text.index("\\section{Threats")]
    body = re.sub(r"\\(?:cite|ref|label)\{[^}]*\}", " ", body)
    body = re.sub(r"\\[A-Za-z]+(\[[^]]*\])?|\{generated/[^}]*\}", " ", body)
    body = body.replace("vLLM~0.29.0", " ").replace("Open-Jev-2B", " ")
    # What is left are settings of the experiments and targets, no results.
    settings = {"100", "4", "1.2", "5", "528", "2,500", "600", "95", "99", "32", "8", "10", "1.5", "1", "800"}
    assert set(re.findall(r"\d+(?:[.,]\d+)*", body)) <= settings


def test_who_is_cited_is_in_the_bibliography_and_nobody_else():
    text = (PAPER / "main.tex").read_text()
    cited = {key for keys in re.findall(r"\\cite\{([^}]*)\}", text) for key in keys.split(",")}
    entries = re.findall(r"^@\w+\{([^,]+),$", (PAPER / "references.bib").read_text(), re.MULTILINE)
    assert len(entries) == len(set(entries))
    assert cited == set(entries)


def test_where_results_come_from_is_said():
    text = (PAPER / "main.tex").read_text()
    for origin in ("Simulated", "Measured on a CPU engine", "Awaiting a GPU"):
        assert f"\\emph{{{origin}}}" in text
