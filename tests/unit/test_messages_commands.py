"""What the commands refuse before they start, provoked and compared with docs/messages-commands.md."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path

import pytest
from quotes import assert_quoted
from typer.testing import CliRunner

from radixflow.bench.command import check_memory
from radixflow.cli import app
from radixflow.errors import RadixFlowError


@pytest.fixture(autouse=True)
def vllm_logs_as_before(monkeypatch):
    """Commands silence vLLM's logger for the rest of their process, which here is that of other tests, too."""
    logger = logging.getLogger("vllm")
    level = logger.level
    monkeypatch.setenv("VLLM_LOGGING_STREAM", "ext://sys.stderr")
    yield
    logger.setLevel(level)


def said(*arguments):
    """Run a command that refuses; what it says, without the program's name in front."""
    result = CliRunner().invoke(app, arguments)
    assert isinstance(result.exception, RadixFlowError), (result.exception, result.output)
    return str(result.exception)


def file(name, *lines):
    Path(name).write_text("".join(f"{line}\n" for line in lines))
    return name


ROUND = {"t": 1.0, "tokens": 5, "rows": 1, "host_us": 50, "waiting": 0}

COMMANDS = {
    "not-whole-numbers": ("simulate", "--concurrency", "1,x"),
    "number-below": ("simulate", "ranks", "--ranks", "2,0"),
    "ranks-none": ("simulate", "ranks", "--ranks", ""),
    "simulate-twice": ("simulate", "--arms", "planned,planned"),
    "not-numbers": ("simulate", "--rate", "fast"),
    "not-a-limit": ("simulate", "--goodput", "ttft:500"),
    "not-a-pair": ("bench", "--metadata", "site"),
    "unknown-table": ("simulate", "--reproduce", "another"),
    "cells-blocks": ("cells", "--blocks", ""),
    "cells-unit": ("cells", "--blocks", "528", "--unit", "7"),
    "cells-only": ("cells", "--only", "nothing of the kind"),
    "check-units": ("doctor", "m", "--check-partial-hits", "--units", "0"),
    "check-model": ("doctor", "--check-partial-hits"),
    "simulate-geometry": ("simulate", "--geometries", "gdn-5"),
    "simulate-workload": ("simulate", "--workloads", "shrt"),
    "simulate-cost": ("simulate", "--cost", "fast"),
    "trace-missing": ("simulate", "--trace", "gone.jsonl"),
    "fit-missing": ("simulate", "fit", "gone.jsonl"),
    "bench-arms": ("bench", "--arms", "stock,planed"),
    "bench-workload": ("bench", "--workloads", "shrt"),
    "bench-twice": ("bench", "--arms", "stock,stock"),
    "bench-url": ("bench", "--url", "http://127.0.0.1:9"),
    "bench-model": ("bench", "--model", "gone"),
    "audit-url": ("audit", "--url", "http://127.0.0.1:9", "MODEL"),
    "report-folder": ("report", "gone"),
}
WITH_FILES = {
    "trace-order": (
        ("simulate", "--trace"),
        ('{"arrival": 1.0, "length": 5}', '{"arrival": 0.5, "length": 5}'),
    ),
    "trace-empty": (("simulate", "--trace"), ("", " ")),
    "trace-field": (("simulate", "--trace"), ('{"arrival": -1, "length": 5}',)),
    "fit-record": (("simulate", "fit"), ("{}",)),
    "fit-few": (("simulate", "fit"), (json.dumps(ROUND),)),
    "audit-empty": (("audit", "--decisions"), ("",)),
    "audit-line": (("audit", "--decisions"), ('{"state": 1}',)),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_what_is_quoted_is_said(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert_quoted(name, said(*COMMANDS[name]))


@pytest.mark.parametrize("name", WITH_FILES)
def test_what_is_quoted_of_a_file_is_said(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arguments, lines = WITH_FILES[name]
    assert_quoted(name, said(*arguments, file("lines.jsonl", *lines)))


def test_a_file_that_is_no_text_and_one_that_cant_be_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("cost.json").write_bytes(b"\xff\xfe")
    assert_quoted("cost-unreadable", said("simulate", "--cost", "cost.json"))
    for arguments in (("simulate", "--trace"), ("simulate", "fit")):
        assert "'cost.json' can't be read (not UTF-8); give a JSONL" in said(*arguments, "cost.json")
    trace = file(
        "trace.jsonl",
        *(json.dumps({**ROUND, "t": number * 0.05, "tokens": 5 + number, "waiting": 3}) for number in range(40)),
    )
    assert_quoted("fit-out", said("simulate", "fit", trace, "--out", "gone/cost.json"))


def test_a_field_that_is_missing_is_said_to_be(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "field 'arrival' is missing; fields" in said("simulate", "--trace", file("lines.jsonl", '{"length": 5}'))
    assert "field 'fixed_s' is 'x': " in said("simulate", "--cost", file("cost.json", '{"fixed_s": "x"}'))


def test_numbers_that_no_size_can_have_are_refused():
    for option in ("--sizes", "--waiting"):
        assert said("simulate", "scale", option, "-5") == f"{option[2:]}: -5 is below 1; give, say, 1,8,32"


NEEDED = {
    "bench-extra": (("bench",), "radixflow.bench.command"),
    "audit-extra": (("audit",), "radixflow.audit.command"),
    "report-extra": (("report", "folder"), "radixflow.report.page"),
}


class Missing:
    """An importer that stands for a module which needs httpx, where there is none."""

    def __init__(self, module):
        self.module = module

    def find_spec(self, name, path=None, target=None):
        if name == self.module:
            raise ModuleNotFoundError("No module named 'httpx'", name="httpx")


@pytest.mark.parametrize("name", NEEDED)
def test_a_missing_extra_is_named(name, monkeypatch):
    command, module = NEEDED[name]
    monkeypatch.delitem(sys.modules, module, raising=False)
    # A package remembers the modules that were imported from it.
    package, _, attribute = module.rpartition(".")
    monkeypatch.delattr(f"{package}.{attribute}", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Missing(module), *sys.meta_path])
    assert_quoted(name, said(*command))


def test_servers_that_do_not_fit_are_refused():
    with pytest.raises(RadixFlowError) as caught:
        check_memory(["stock", "planned"], 3.0)
    assert_quoted("bench-memory", caught.value)


def sealed(name):
    folder = Path(name)
    folder.mkdir()
    for part in ("summary.json", "environment.json"):
        file(folder / part, "{}")
    file(folder / "SHA256SUMS", f"{'0' * 64}  summary.json")


SEALED = {"report-sealed": ("report", "folder"), "bench-sealed": ("bench", "--resume", "folder")}


@pytest.mark.parametrize("name", SEALED)
def test_a_folder_that_was_changed_is_refused(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sealed("folder")
    assert_quoted(name, said(*SEALED[name]))
