"""Open loops, goodput, saved results, sweeps that go on, and servers that somebody else started."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from radixflow.bench.client import SYSTEMONE
from radixflow.bench.command import dry_run, run_bench
from radixflow.bench.errors import BenchError, ServerError
from radixflow.bench.results import verify
from radixflow.bench.runner import start_times
from radixflow.bench.saved import SCHEDULER_KEYS, VLLM_KEYS
from radixflow.bench.server import ServerSpec, free_port, server_spec
from radixflow.bench.settings import checked_settings
from radixflow.bench.workloads import Call, Decision
from radixflow.errors import ConfigError

FAKE = Path(__file__).with_name("bench_fake_server.py")


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("RADIXFLOW_HOME", str(tmp_path / "home"))


def fake_specs(pids):
    def make(arm, model, serve, folder, policy=None):
        real = server_spec(arm, model, serve, folder, policy)
        fake = (sys.executable, str(FAKE), str(real.port), str(pids / f"{arm}.pids"))
        return ServerSpec(arm, fake, real.env, real.port, real.log_path, real.trace_path)

    return make


def settings(tmp_path, **values):
    given = {"decisions": 4, "repeats": 2, "warmup_decisions": 1, "concurrency": [1], "workloads": ["short"]}
    return checked_settings(**{**given, "result_dir": tmp_path / "results", **values})


def test_gaps_have_the_rate_and_the_burstiness_asked_for():
    calm, bursty = (start_times(20_000, 50.0, shape, 1) for shape in (1.0, 0.1))
    assert calm[-1] == pytest.approx(400.0, rel=0.05)
    assert bursty[-1] == pytest.approx(400.0, rel=0.1)
    assert start_times(5, 50.0, 1.0, 1) == calm[:5]

    def spread(times):
        gaps = [after - before for before, after in itertools.pairwise(times)]
        return sum((gap - 0.02) ** 2 for gap in gaps) / len(gaps)

    assert spread(bursty) > 5 * spread(calm)


def test_an_open_loop_is_saved_under_vllms_keys(tmp_path):
    chosen = settings(
        tmp_path, arms=["stock"], request_rate=[40.0], goodput_ms=60_000.0, save_result=True, metadata={"site": "a"}
    )
    outcome = run_bench(chosen, fake_specs(tmp_path))
    (row,) = outcome.rows
    assert row["request_goodput"] == pytest.approx(row["request_throughput"])
    (path,) = outcome.folder.glob("serve_*.json")
    saved = json.loads(path.read_text())
    assert path.name == "serve_short-40-s-stock.json"
    assert (saved["request_rate"], saved["site"], saved["num_prompts"], saved["failed"]) == (40.0, "a", 8, 0)
    assert set(VLLM_KEYS) <= set(saved)
    assert set(SCHEDULER_KEYS) == set(saved["scheduler"])
    assert verify(outcome.folder) == []


def test_a_sweep_goes_on_where_it_was_left(tmp_path):
    first = run_bench(settings(tmp_path, arms=["stock"]), fake_specs(tmp_path))
    wider = settings(tmp_path, arms=["stock"], concurrency=[1, 2], resume=first.folder)
    second = run_bench(wider, fake_specs(tmp_path))
    old, new = second.rows
    assert (old["concurrency"], new["concurrency"]) == (1, 2)
    kept = json.loads((first.folder / "summary.json").read_text())["cells"][0]
    again = json.loads((second.folder / "summary.json").read_text())
    assert again["cells"][0] == kept
    assert again["resumed_from"] == first.folder.name
    assert len((second.folder / "rows.jsonl").read_text().splitlines()) == 16
    assert verify(first.folder) == []


def test_a_dry_run_of_it_says_what_is_kept(tmp_path):
    first = run_bench(settings(tmp_path, arms=["stock"]), fake_specs(tmp_path))
    told = dry_run(settings(tmp_path, arms=["stock"], concurrency=[1, 2], resume=first.folder))
    assert "C1: finished, kept" in told
    assert "C2: 1 arms" in told
    with pytest.raises(BenchError, match="which is no result folder"):
        dry_run(settings(tmp_path, resume=tmp_path / "gone"))


def test_another_run_is_not_gone_on_from(tmp_path):
    first = run_bench(settings(tmp_path, arms=["stock"]), fake_specs(tmp_path))
    with pytest.raises(BenchError, match=r"other settings: seed \(0, now 5\)"):
        run_bench(settings(tmp_path, arms=["stock"], seed=5, resume=first.folder), fake_specs(tmp_path))


def test_a_dry_run_says_what_would_be_sent(tmp_path):
    told = dry_run(settings(tmp_path, concurrency=[1, 8]))
    assert "server of arm planned:" in told
    assert "short C8: 2 arms x 2 repeats x 4 calls" in told
    assert "32 calls in all" in told
    assert not (tmp_path / "results").exists()


def test_a_server_that_runs_is_measured_and_left_running(tmp_path):
    port = free_port()
    trace = tmp_path / "trace.jsonl"
    env = {"RADIXFLOW_CONFIG": json.dumps({"trace_path": str(trace)})}
    server = subprocess.Popen([sys.executable, str(FAKE), str(port), str(tmp_path / "pids")], env=env)
    try:
        url = f"http://127.0.0.1:{port}"
        for _ in range(200):
            try:
                httpx.get(f"{url}/health", trust_env=False)
                break
            except httpx.HTTPError:
                time.sleep(0.05)
        outcome = run_bench(settings(tmp_path, url=url, served_model="any"))
        (row,) = outcome.rows
        assert (row["arm"], row["completed"], row["failed"], row["worker_rounds"]) == ("server", 8, 0, 0)
        assert server.poll() is None
    finally:
        server.kill()
        server.wait()
        os.kill(int((tmp_path / "pids").read_text().split()[1]), signal.SIGKILL)
    with pytest.raises(ServerError, match="neither /health nor /v1/models answers"):
        run_bench(settings(tmp_path, url=url, served_model="any"))


def test_a_decision_is_asked_as_a_state_and_questions():
    call = Call((Decision(3, ((65, 66, 67, 68), (65, 66, 67, 69))),))
    body = SYSTEMONE.body(call, "m", "salt")
    assert body["state"] == "salt ABC"
    assert body["questions"] == {
        "q0": {"type": "noul", "instructions": "D"},
        "q1": {"type": "noul", "instructions": "E"},
    }
    assert SYSTEMONE.read({"answers": {"q0": {}, "q1": {}}}, call) == ((), 8)
    with pytest.raises(ValueError, match="expected 2 answers, got 0"):
        SYSTEMONE.read({"answers": {}}, call)


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"url": "localhost:1"}, "url is 'localhost:1'"),
        ({"url": "http://x"}, "url and served_model go together"),
        ({"api": "systemone"}, "'systemone' is for a server that runs already"),
        ({"request_rate": [0.0]}, "request_rate.0 is 0.0"),
        ({"goodput_ms": -1.0}, "goodput_ms is -1.0"),
    ],
)
def test_bad_settings_are_named(tmp_path, values, told):
    with pytest.raises(ConfigError) as error:
        settings(tmp_path, **values)
    assert told in str(error.value)
