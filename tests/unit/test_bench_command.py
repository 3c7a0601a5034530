"""The whole benchmark against a stand-in for vLLM: measured, kept and said, also when it goes wrong."""

import json
import sys
from pathlib import Path

import pytest

from radixflow.bench import command, environment
from radixflow.bench.cell import CellRun, agreement_with, summarise
from radixflow.bench.client import CallResult, read_logprobs
from radixflow.bench.command import run_bench
from radixflow.bench.errors import BenchError, ServerError
from radixflow.bench.results import verify
from radixflow.bench.rounds import RoundTotals
from radixflow.bench.runner import repeat_order
from radixflow.bench.server import ServerSpec, free_port, server_spec
from radixflow.bench.settings import Cell, checked_settings
from radixflow.bench.workloads import Call, Decision
from radixflow.models import serve_settings

FAKE = Path(__file__).with_name("bench_fake_server.py")


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("RADIXFLOW_HOME", str(tmp_path / "home"))


def fake_specs(pids, *modes, only=None):
    def make(arm, model, serve, folder, policy=None):
        real = server_spec(arm, model, serve, folder, policy)
        extra = modes if only in (None, arm) else ()
        fake = (sys.executable, str(FAKE), str(real.port), str(pids / f"{arm}.pids"), *extra)
        return ServerSpec(arm, fake, real.env, real.port, real.log_path, real.trace_path)

    return make


def settings(tmp_path, **values):
    defaults = {
        "decisions": 4,
        "burst_decisions": 2,
        "repeats": 2,
        "warmup_decisions": 1,
        "concurrency": [1, 2],
        "arms": ["stock", "radixflow"],
    }
    return checked_settings(**{**defaults, "result_dir": tmp_path / "results", **values})


def summary_of(folder):
    return json.loads((folder / "summary.json").read_text())


def test_a_run_measures_every_cell_and_keeps_it_sealed(tmp_path, capsys):
    outcome = run_bench(settings(tmp_path), fake_specs(tmp_path))
    assert outcome.status == "ok"
    assert set(outcome.startup_s) == {"stock", "radixflow"}
    assert verify(outcome.folder) == []
    names = {path.name for path in outcome.folder.iterdir()}
    assert names == {*("environment.json", "rows.jsonl", "summary.json", "table.md", "comparison.png", "SHA256SUMS")}
    cells = [(row["workload"], row["concurrency"], row["arm"]) for row in outcome.rows]
    assert cells == [
        (workload, level, arm)
        for workload, level in (("short", 1), ("short", 2), ("long", 1), ("long", 2), ("burst", 1))
        for arm in ("stock", "radixflow")
    ]
    for row in outcome.rows:
        decisions = 6 if row["workload"] == "burst" else 4
        calls = 2 * (3 if row["workload"] == "burst" else 4)
        assert (row["completed"], row["failed"], row["calls"]) == (2 * decisions, 0, calls)
        assert row["worker_rounds"] == 2 * calls
        assert row["rounds_per_decision"] == pytest.approx(2 * calls / (2 * decisions))
        assert row["tokens_computed"] == row["total_input"]
        assert row["pending_deferrals"] == calls
        assert row["holds"] == {"rows": calls}
        assert row["schedule_host_us"]["p50"] == 10.0
        repeats = 1 if row["arm"] == "stock" else 2
        assert row["agreement"]["compared"] == row["agreement"]["equal"] == repeats * decisions * 4
        assert row["agreement"]["max_delta_p"] == 0.0
    rows = [json.loads(line) for line in (outcome.folder / "rows.jsonl").read_text().splitlines()]
    assert len(rows) == sum(row["completed"] for row in outcome.rows)
    assert {len(row["logprobs"]) for row in rows} == {4}
    assert rows[0]["started_s"] > 0
    captured = capsys.readouterr()
    assert "RadixFlow benchmark" in captured.out
    assert "random weights" in captured.out
    assert "burst C1" in captured.err
    assert str(tmp_path) not in "".join((outcome.folder / name).read_text() for name in names - {"comparison.png"})


def test_fresh_starts_every_server_anew_for_each_repeat(tmp_path, monkeypatch):
    started = []
    real = command.Server.start
    monkeypatch.setattr(command.Server, "start", lambda server: started.append(server.spec.arm) or real(server))
    chosen = settings(tmp_path, workloads=["short", "long"], concurrency=[1], repeats=3, fresh=True)
    outcome = run_bench(chosen, fake_specs(tmp_path))
    assert started == ["stock", "radixflow"] * 3
    assert [(row["workload"], row["arm"], row["repeats"]) for row in outcome.rows] == [
        (workload, arm, 3) for workload in ("short", "long") for arm in ("stock", "radixflow")
    ]
    for row in outcome.rows:
        assert (row["completed"], row["worker_rounds"]) == (12, 2 * 12)
        assert len(row["versus_baseline"]["request_throughput"]) == 3


def test_json_is_the_only_thing_on_standard_output(tmp_path, capsys):
    run_bench(settings(tmp_path, json_output=True, workloads=["short"], concurrency=[1]), fake_specs(tmp_path))
    captured = capsys.readouterr()
    document = json.loads(captured.out)
    assert document["status"] == "ok"
    assert [cell["arm"] for cell in document["cells"]] == ["stock", "radixflow"]
    assert "RadixFlow benchmark" in captured.err


def test_a_server_that_dies_at_the_start_is_kept_as_a_failed_run(tmp_path):
    with pytest.raises(ServerError, match="the fake engine has no model"):
        run_bench(settings(tmp_path), fake_specs(tmp_path, "die", only="radixflow"))
    (folder,) = (tmp_path / "results").iterdir()
    summary = summary_of(folder)
    assert summary["status"] == "failed"
    assert "the fake engine has no model" in summary["error"]
    assert summary["cells"] == []
    assert verify(folder) == []


def test_a_server_that_dies_in_the_middle_ends_the_run_with_its_log(tmp_path):
    with pytest.raises(ServerError, match="the fake engine fell over"):
        run_bench(settings(tmp_path), fake_specs(tmp_path, "crash", only="radixflow"))
    (folder,) = (tmp_path / "results").iterdir()
    assert summary_of(folder)["status"] == "failed"


def test_refused_calls_are_counted_and_named(tmp_path):
    chosen = settings(tmp_path, workloads=["short"], concurrency=[1])
    outcome = run_bench(chosen, fake_specs(tmp_path, "reject", only="radixflow"))
    stock, other = outcome.rows
    assert (stock["completed"], stock["failed"]) == (8, 0)
    assert (other["completed"], other["failed"]) == (0, 8)
    assert other["errors"][0].startswith("HTTP 400")
    assert other["agreement"]["compared"] == 0
    rows = [json.loads(line) for line in (outcome.folder / "rows.jsonl").read_text().splitlines()]
    assert sum(row["error"] is not None for row in rows) == 8


def test_ctrl_c_keeps_what_was_measured(tmp_path, monkeypatch):
    def interrupted(self):
        raise KeyboardInterrupt

    monkeypatch.setattr(command.Runner, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_bench(settings(tmp_path), fake_specs(tmp_path))
    (folder,) = (tmp_path / "results").iterdir()
    assert summary_of(folder)["status"] == "interrupted"
    for arm in ("stock", "radixflow"):
        for pid in (tmp_path / f"{arm}.pids").read_text().split():
            assert not Path(f"/proc/{pid}/cmdline").exists() or not Path(f"/proc/{pid}/cmdline").read_bytes()


def test_more_servers_than_memory_are_refused():
    with pytest.raises(BenchError, match=r"arms is \['stock', 'flex'\].* 2\.0 GiB is available; name fewer arms"):
        command.check_memory(["stock", "flex"], 2.0)
    command.check_memory(["stock", "flex"], 60.0)
    command.check_memory(["stock", "flex"], None)
    assert environment.available_gib() is None or environment.available_gib() > 0


def test_arms_alternate():
    assert [repeat_order(["A", "B"], repeat) for repeat in range(3)] == [["A", "B"], ["B", "A"], ["A", "B"]]


def test_an_arm_s_server_is_told_its_scheduler_policy_and_trace(tmp_path):
    serve = serve_settings(device="cpu")
    stock = server_spec("stock", tmp_path / "m", serve, tmp_path, {"wait_ms": 3})
    preset = server_spec("radixflow", tmp_path / "m", serve, tmp_path, {"wait_ms": 3})
    own = server_spec("mine:Policy", tmp_path / "m", serve, tmp_path)
    assert "radixflow.engine.stock.CountingScheduler" in stock.command
    assert "radixflow.Scheduler" in preset.command
    assert json.loads(stock.env["RADIXFLOW_CONFIG"]) == {"trace_path": str(stock.trace_path)}
    assert json.loads(preset.env["RADIXFLOW_CONFIG"]) == {
        "policy": "radixflow",
        "wait_ms": 3,
        "trace_path": str(preset.trace_path),
    }
    assert own.trace_path.name == "mine_Policy.trace.jsonl"
    assert len({stock.port, preset.port, own.port}) == 3
    assert "127.0.0.1" in stock.command
    assert free_port() > 0


def run_of(arm, repeat, seconds, logprobs, rounds):
    call = Call((Decision(1, ((1, 2), (1, 3))),))
    result = CallResult(0, 10.0, 10.0 + seconds, logprobs, 4)
    return CellRun(Cell(workload="short", concurrency=1), arm, repeat, (call,), (result,), rounds)


def test_a_summary_by_hand():
    answers = ((-1.0, -2.0), (-2.0, -1.0))
    changed = ((-1.0, -2.0), (-1.0, -2.0))
    stock = [run_of("stock", index, 0.2, answers, RoundTotals(worker_rounds=2)) for index in range(2)]
    fast = [
        run_of("fast", 0, 0.1, answers, RoundTotals(worker_rounds=1)),
        run_of("fast", 1, 0.2, changed, RoundTotals(worker_rounds=1)),
    ]
    base, row = summarise(Cell(workload="short", concurrency=1), {"stock": stock, "fast": fast}, "stock")
    assert base["request_throughput"] == pytest.approx(5.0)
    assert base["rounds_per_decision"] == 2.0
    assert (base["agreement"]["compared"], base["agreement"]["equal"]) == (2, 2)
    assert row["mean_e2el_ms"] == pytest.approx(150.0)
    assert row["request_throughput"] == pytest.approx(2 / 0.3)
    assert row["versus_baseline"]["request_throughput"] == pytest.approx([2.0, 1.0])
    assert row["versus_baseline"]["request_throughput_median"] == pytest.approx(1.5)
    assert row["versus_baseline"]["mean_e2el"] == pytest.approx([0.5, 1.0])
    assert (row["agreement"]["compared"], row["agreement"]["equal"]) == (4, 3)
    assert row["agreement"]["changed"][0]["branch"] == 1
    assert agreement_with(stock, stock[0]).compared == 2


def test_answers_are_read_by_index_and_label():
    top = {f"token_id:{label}": -float(label) for label in (65, 66, 67, 68, 3)}
    second = {**top, "token_id:65": -0.5}
    document = {
        "choices": [
            {"index": 1, "logprobs": {"top_logprobs": [second]}},
            {"index": 0, "logprobs": {"top_logprobs": [top]}},
        ]
    }
    assert read_logprobs(document, 2) == ((-65.0, -66.0, -67.0, -68.0), (-0.5, -66.0, -67.0, -68.0))
    with pytest.raises(ValueError, match="expected 3 choices, got 2"):
        read_logprobs(document, 3)
    del top["token_id:66"]
    with pytest.raises(ValueError, match="choice 0 lacks"):
        read_logprobs(document, 2)


def test_a_result_folder_that_cannot_be_made_starts_no_server(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(BenchError, match="result_dir"):
        run_bench(settings(tmp_path, result_dir=tmp_path / "file"), fake_specs(tmp_path))
    assert not list(tmp_path.glob("*.pids"))
