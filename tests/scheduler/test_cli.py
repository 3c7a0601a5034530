"""`radixflow doctor` and `explain` on the installed vLLM, and on doctored ones."""

from __future__ import annotations

import json
import linecache
import subprocess
import sys

import pytest
import vllm
from typer.testing import CliRunner
from vllm.v1.core.sched.scheduler import Scheduler as VllmScheduler

from radixflow.cli import EXIT_UNSUPPORTED, app
from radixflow.engine.scheduler import rewritten


@pytest.fixture
def run():
    rewritten.cache_clear()
    yield lambda *arguments: CliRunner().invoke(app, arguments)
    rewritten.cache_clear()


@pytest.fixture
def doctored_source(monkeypatch):
    """Replace vLLM's schedule() by one compiled from an edited text, as a patched installation would have it."""

    def doctor(old: str, new: str) -> None:
        source = rewritten().original
        assert old in source
        text = "class Scheduler:\n" + source.replace(old, new, 1)
        linecache.cache["doctored.py"] = (len(text), None, text.splitlines(keepends=True), "doctored.py")
        names = {}
        exec(compile(text, "doctored.py", "exec"), VllmScheduler.schedule.__globals__, names)
        monkeypatch.setattr(VllmScheduler, "schedule", names["Scheduler"].schedule)
        rewritten.cache_clear()

    yield doctor
    linecache.cache.pop("doctored.py", None)


def test_doctor_reports_one_json_document_on_stdout():
    done = subprocess.run(
        [sys.executable, "-m", "radixflow.cli", "doctor", "--json"], capture_output=True, text=True, check=False
    )
    report = json.loads(done.stdout)
    assert done.returncode == 0
    assert (report["supported"], report["vllm"]) == (True, "0.29.0")
    assert report["sites"] == {"gate": 1, "allocation": 1, "zero": 2}
    assert report["schedule_sha256"].startswith("6361fde74c84")
    assert report["scheduler"]["pooling"] == "sync"
    assert report["index"].endswith(".so")
    assert report["reasons"] == []


def test_doctor_says_another_version_is_not_supported(run, monkeypatch):
    monkeypatch.setattr(vllm, "__version__", "0.30.0")
    result = run("doctor", "--json")
    report = json.loads(result.stdout)
    assert result.exit_code == EXIT_UNSUPPORTED
    assert report["supported"] is False
    assert report["vllm"] == "0.30.0"
    assert "0.30.0" in report["reasons"][0]
    assert "pip install vllm==0.29.0" in result.stderr


def test_doctor_names_both_hashes_of_a_doctored_source(run, doctored_source):
    doctored_source("# First, schedule the RUNNING requests.", "# First, the running ones.")
    result = run("doctor", "--json")
    report = json.loads(result.stdout)
    assert result.exit_code == EXIT_UNSUPPORTED
    # The places are all there; the text is not the released one, and that alone is reason enough.
    assert report["sites"] == {"gate": 1, "allocation": 1, "zero": 2}
    assert report["schedule_sha256"][:12] in report["reasons"][0]
    assert "6361fde74c84" in report["reasons"][0]


def test_doctor_counts_the_places_of_a_doctored_loop(run, doctored_source):
    doctored_source(
        "                if new_blocks is None:\n                    # The request",
        "                if not new_blocks:\n                    # The request",
    )
    report = json.loads(run("doctor", "--json").stdout)
    assert report["sites"] == {"gate": 1, "allocation": 0, "zero": 2}
    assert report["supported"] is False


def test_doctor_reads_the_settings_of_the_environment(run, monkeypatch):
    monkeypatch.setenv("RADIXFLOW_CONFIG", '{"wait_ms": 500}')
    result = run("doctor")
    assert result.exit_code == EXIT_UNSUPPORTED
    assert "'wait_ms' is 500" in result.stderr
    assert "0.0..100.0" in result.stderr


@pytest.fixture(scope="module")
def model():
    from radixflow.models import embedded_model

    return str(embedded_model())


def test_doctor_checks_an_engine_without_loading_its_model(run, model):
    result = run("doctor", "--json", model, "--enable-prefix-caching", "--max-model-len", "2048", "--block-size", "32")
    report = json.loads(result.stdout)
    assert report["reasons"] == []
    assert report["scheduler"] == {"this engine": "sync"}
    assert report["policy"] == "planned"


def test_doctor_refuses_an_engine_that_the_scheduler_would_refuse(run, model):
    settings = json.dumps({"radixflow": {"policy": "planed"}})
    result = run("doctor", "--json", model, "--max-model-len", "2048", "--additional-config", settings)
    report = json.loads(result.stdout)
    assert result.exit_code == EXIT_UNSUPPORTED
    assert any("'planed', which is unknown" in reason for reason in report["reasons"])


def test_explain_is_a_unified_diff_of_eighteen_lines(run):
    result = run("explain")
    lines = result.stdout.splitlines()
    assert lines[0].startswith("--- vllm/v1/core/sched/scheduler.py")
    added = [line for line in lines[2:] if line.startswith("+")]
    removed = [line for line in lines[2:] if line.startswith("-")]
    assert len(added) == 18
    assert removed == []


def test_explain_refuses_what_the_scheduler_refuses(monkeypatch):
    code = (
        "import vllm, sys\nvllm.__version__ = '0.31.0'\n"
        "from radixflow.cli import main\nsys.argv = ['radixflow', 'explain']\nmain()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == EXIT_UNSUPPORTED
    assert "vLLM 0.31.0 is not supported" in done.stderr
    assert done.stdout == ""


def test_bench_refuses_bad_input_with_field_value_and_fix():
    done = subprocess.run(
        [sys.executable, "-m", "radixflow.cli", "bench", "--arms", "stock,fastest", "--concurrency", "0"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "concurrency" in done.stderr
    assert done.stdout == ""


def test_doctor_refuses_a_trace_that_cannot_be_written(run, monkeypatch):
    monkeypatch.setenv("RADIXFLOW_CONFIG", '{"trace_path": "/nonexistent/rounds.jsonl"}')
    result = run("doctor")
    assert result.exit_code == EXIT_UNSUPPORTED
    assert "field 'trace_path' is '/nonexistent/rounds.jsonl'" in result.stderr


def test_the_version_is_printed(run):
    import radixflow

    assert run("--version").stdout.strip() == f"radixflow {radixflow.__version__}"
