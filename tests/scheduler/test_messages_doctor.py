"""What `radixflow doctor`, `explain` and `serve` refuse with exit 3, and what the rewrite says of another source."""

from __future__ import annotations

import ast
import sys

import pytest
from quotes import assert_quoted
from typer.testing import CliRunner

from radixflow.cli import EXIT_UNSUPPORTED, app
from radixflow.engine import doctor, rewrite, scheduler
from radixflow.engine.compat import RELEASES
from radixflow.engine.rewrite import rewrite_function, rewrite_source
from radixflow.engine.support import check_configuration
from radixflow.errors import UnsupportedError
from radixflow.models import embedded_model
from radixflow.serving import command
from radixflow.simulate.rig import vllm_config

RELEASE = RELEASES["0.29.0"]


def edited(old, new):
    """Rewrite vLLM's schedule() with a change in its text."""
    source = scheduler.rewritten().original
    assert old in source
    return lambda: rewrite_source(source.replace(old, new, 1), RELEASE)


def two_functions():
    rewrite_source("    def schedule(self):\n        pass\n    def schedule(self):\n        pass\n", RELEASE)


def closure():
    held = 5

    def schedule(self):
        return held

    rewrite_function(schedule, RELEASE)


def without_source():
    names = {}
    exec("def schedule(self):\n    return None\n", names)
    rewrite_function(names["schedule"], RELEASE)


NO_BLOCKS = "                if new_blocks is None:\n                    # The request"


def without_idiom(patch):
    # Its source has the statements many times; what matters is that none of them is found.
    patch.setattr(rewrite, "_has_idiom", lambda *_: False)
    edited("def", "def")()


PLACES = {
    "rewrite-functions": lambda patch: two_functions(),
    "rewrite-loop": lambda patch: edited("request_queue.peek_request()", "request_queue.first()")(),
    "rewrite-places": lambda patch: edited(NO_BLOCKS, NO_BLOCKS.replace("new_blocks is None", "not new_blocks"))(),
    "rewrite-idiom": without_idiom,
    "rewrite-closure": lambda patch: closure(),
    "rewrite-source": lambda patch: without_source(),
}


@pytest.mark.parametrize("name", PLACES)
def test_what_is_quoted_of_the_rewrite_is_raised(name, monkeypatch):
    with pytest.raises(UnsupportedError) as caught:
        PLACES[name](monkeypatch)
    assert_quoted(name, caught.value)


def test_a_rewrite_that_cannot_be_compiled_says_so(monkeypatch):
    monkeypatch.setattr(rewrite, "rewrite_source", lambda *_: (ast.parse("return 5"), "", {}))
    with pytest.raises(UnsupportedError) as caught:
        rewrite_function(check_configuration, RELEASE)
    assert_quoted("rewrite-build", caught.value)


def without_vllm(patch):
    patch.setitem(sys.modules, "vllm.v1.core.sched.scheduler", None)


def without_index(patch):
    patch.setitem(sys.modules, "radixflow._index", None)


def with_wrong_index(patch):
    class Wrong:
        def insert(self, tokens):
            return 1

        def shared_with_peers(self, handle):
            return []

    patch.setattr("radixflow.index.PrefixIndex", Wrong)


def with_trace_nowhere(patch):
    patch.setenv("RADIXFLOW_CONFIG", '{"trace_path": "/gone/rounds.jsonl"}')


REFUSED = {
    "doctor-no-vllm": (without_vllm, ()),
    "doctor-no-index": (without_index, ()),
    "doctor-wrong-index": (with_wrong_index, ()),
    "doctor-trace": (with_trace_nowhere, ()),
    "doctor-engine": (lambda patch: None, ("MODEL", "--block-size", "7", "--max-model-len", "-5")),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_quoted_ends_doctor_with_exit_3(name, monkeypatch):
    prepare, arguments = REFUSED[name]
    prepare(monkeypatch)
    arguments = [str(embedded_model()) if argument == "MODEL" else argument for argument in arguments]
    result = CliRunner().invoke(app, ["doctor", *arguments])
    assert result.exit_code == EXIT_UNSUPPORTED
    assert_quoted(name, result.stderr)


def test_explain_without_vllm(monkeypatch):
    monkeypatch.setitem(sys.modules, "radixflow.engine.scheduler", None)
    result = CliRunner().invoke(app, ["explain"])
    assert isinstance(result.exception, UnsupportedError)
    assert_quoted("explain-no-vllm", result.exception)


def test_serve_without_vllm(monkeypatch):
    monkeypatch.setitem(sys.modules, "vllm.entrypoints.cli.main", None)
    with pytest.raises(Exception, match=r".") as caught:
        command._run(["serve", "m"])
    assert_quoted("serve-no-vllm", caught.value)


def test_serve_says_all_that_doctor_does(monkeypatch):
    refused = vllm_config(settings={}, pipeline_parallel_size=2)
    monkeypatch.setattr(doctor, "_engine_config", lambda arguments: refused)
    with pytest.raises(UnsupportedError) as caught:
        command.serve(["model"], command.EndpointSettings())
    assert_quoted("serve-refused", caught.value)
