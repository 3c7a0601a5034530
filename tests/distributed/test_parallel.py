"""Two tensor-parallel workers, and two data-parallel engines, of a hybrid model on a CPU. Not part of `make test`.

    make distributed

One scheduler decides for all tensor-parallel workers; with data parallelism every engine has one of its own.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from radixflow.bench.server import HOST, Server, ServerSpec, free_port, wait_healthy
from radixflow.config import ENVIRONMENT_VARIABLE
from radixflow.models.families import family_model, family_settings

ENGINE = Path(__file__).with_name("engine.py")
OURS = "radixflow.Scheduler"


@pytest.fixture(scope="module")
def engines():
    found = {}
    for workers, scheduler in ((1, OURS), (2, OURS), (2, "stock")):
        done = subprocess.run(
            [sys.executable, str(ENGINE), str(workers), scheduler],
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        (line,) = re.findall(r"^RESULT (.*)$", done.stdout, re.MULTILINE)
        found[workers, scheduler] = json.loads(line)
    return found


def largest(one, other):
    return max(abs(a - b) for left, right in zip(one, other, strict=True) for a, b in zip(left, right, strict=True))


def test_two_workers_answer_as_stock_does_with_two(engines):
    ours, stock = engines[2, OURS], engines[2, "stock"]
    assert ours["kind"].startswith("radixflow.")
    assert stock["kind"].startswith("vllm.")
    # Other chunks, other rounding; a wrong state moves these by whole units.
    assert largest(ours["answers"], stock["answers"]) < 0.1
    assert sum(ours["cached"]) >= sum(stock["cached"])


def test_two_workers_take_the_rounds_and_answers_of_one(engines):
    """What the scheduler sees doesn't depend on how many workers compute it."""
    one, two = engines[1, OURS], engines[2, OURS]
    assert two["totals"]["deferrals.pending"] > 0
    assert two["totals"] == one["totals"]
    assert two["cached"] == one["cached"]
    assert largest(one["answers"], two["answers"]) < 0.1


def test_two_engines_each_have_a_scheduler_and_answer_everybody(tmp_path):
    """Granite, which is dense: with experts, data-parallel engines run in step."""
    settings = family_settings("granite-moe-hybrid", device="cpu")
    port = free_port()
    command = (
        *(sys.executable, "-m", "vllm.entrypoints.cli.main", "serve", str(family_model("granite-moe-hybrid"))),
        *("--host", HOST, "--port", str(port), "--served-model-name", "granite", "--scheduler-cls", OURS),
        *("--data-parallel-size", "2", *settings.flags),
    )
    metrics = tmp_path / "metrics"
    metrics.mkdir()
    env = {
        **settings.env,
        "PROMETHEUS_MULTIPROC_DIR": str(metrics),
        ENVIRONMENT_VARIABLE: json.dumps({"policy": "planned"}),
    }
    spec = ServerSpec("planned", command, env, port, tmp_path / "log", tmp_path / "unused")
    with Server(spec) as server:
        wait_healthy([server], 900.0, lambda *_: None)
        with httpx.Client(base_url=spec.url, timeout=120, trust_env=False) as client:
            for number in range(8):
                state = [3 + (number * 7 + place) % 200 for place in range(200)]
                prompts = [[*state, *range(10 + branch, 40 + branch)] for branch in range(4)]
                body = {"model": "granite", "prompt": prompts, "max_tokens": 1}
                reply = client.post("/v1/completions", json=body)
                assert reply.status_code == 200, reply.text[:500]
                assert len(reply.json()["choices"]) == 4
            text = client.get("/metrics").text
        rounds = dict(re.findall(r'^radixflow_rounds_total\{engine="(\d)"\} (\S+)$', text, re.MULTILINE))
        assert set(rounds) == {"0", "1"}, (rounds, os.listdir(metrics))
        assert all(float(count) > 0 for count in rounds.values())
