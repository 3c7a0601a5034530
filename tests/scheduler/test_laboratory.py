"""The laboratory: simulated runs are exact and repeatable, arrivals and bounds are what they say."""

from __future__ import annotations

import json
import logging
import re
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from radixflow.cli import app
from radixflow.errors import RadixFlowError
from radixflow.simulate.ablation import STEPS
from radixflow.simulate.arms import GATHER, STOCK, make_arm
from radixflow.simulate.arrivals import Branch
from radixflow.simulate.attribution import attribute, shares
from radixflow.simulate.bounds import BoundCounter
from radixflow.simulate.calibrate import Calibration
from radixflow.simulate.cost import CostModel
from radixflow.simulate.experiment import Traffic, run
from radixflow.simulate.geometry import geometry
from radixflow.simulate.published import FIGURES, VARIANTS
from radixflow.simulate.ranks import ROUTERS
from radixflow.simulate.scale import waiting_cost
from radixflow.simulate.workloads import WORKLOADS, workload

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _quiet():
    level = logging.getLogger("vllm").level
    yield
    logging.getLogger("vllm").setLevel(level)


def simulate(*arguments):
    result = CliRunner().invoke(app, ["simulate", *arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def result_of(name, arm, where="gdn-528", **traffic):
    given = {"decisions": 12, "concurrency": 2, **traffic}
    return run(Traffic(workload(name), **given), geometry(where), make_arm(arm), CostModel(), 1)


def test_the_same_command_gives_the_same_bytes(tmp_path):
    arguments = ["--workloads", "short,long", "--decisions", "8", "--concurrency", "2", "--name", "same"]
    first = simulate(*arguments, "--result-dir", str(tmp_path / "a"))
    second = simulate(*arguments, "--result-dir", str(tmp_path / "b"))
    assert first == second
    (left,), (right,) = (list((tmp_path / side).iterdir()) for side in "ab")
    assert {path.name for path in left.iterdir()} >= {"rows.jsonl", "rounds.jsonl", "summary.json", "SHA256SUMS"}
    for path in left.iterdir():
        assert path.read_bytes() == (right / path.name).read_bytes()


@pytest.mark.parametrize("where", ["gdn-528", "gdn-64", "mamba2-400", "attention-16"])
@pytest.mark.parametrize("name", ["short", "long", "tenants", "hot-cold", "decode", "one-branch"])
def test_no_run_beats_its_lower_bounds_and_everybody_is_answered(name, where):
    for arm in (STOCK, "planned"):
        result = result_of(name, arm, where)
        assert result.tally.decisions == 12
        assert result.tally.tokens >= result.bounds.tokens
        assert result.tally.rounds >= result.bounds.rounds
        assert result.row()["failures"] == 0


def test_tenants_share_nothing_across_salts():
    few = replace(WORKLOADS["tenants"], kind="hot", name="one tenant")
    salted = result_of("tenants", "planned", decisions=64)
    plain = run(Traffic(few, 64, concurrency=2), geometry("gdn-528"), make_arm("planned"), CostModel(), 1)
    assert salted.bounds.tokens > plain.bounds.tokens
    assert salted.tally.tokens > plain.tally.tokens


def test_branches_that_repeat_less_than_a_round_costs_start_together():
    """A block of 528 tokens, four branches: computed four times it takes less than another round of 45 ms."""
    traffic = Traffic(workload("burst"), 8, concurrency=1)
    stock, ours = (
        run(traffic, geometry("gdn-528"), make_arm(arm), CostModel(), 1).tally for arm in ("stock", "planned")
    )
    assert stock.rounds == 2 * 8
    # The first decisions are those from which the round's cost is learned.
    assert ours.rounds <= 8 + 3
    assert sum(ours.latencies) < 0.97 * sum(stock.latencies)


def test_the_cost_of_waiting_is_fitted_where_somebody_still_waits():
    where, arm = geometry("gdn-528"), make_arm("planned")
    assert waiting_cost(workload("short"), where, arm, [8, 16], rounds=2)["exponent"] is None
    told = waiting_cost(workload("short"), where, arm, [600, 1200], rounds=2)
    assert all(0 < row["rows"] < row["waiting"] for row in told["rows"])
    assert told["exponent"] is not None


@pytest.mark.parametrize("order", [(8, 16), (16, 8)])
def test_the_fewest_tokens_do_not_depend_on_the_order_of_prompts(order):
    prompt = list(range(16))
    counter = BoundCounter(unit=4, budget=100, rows=10, clients=None, recurrent=True, independent=False)
    counter.add([Branch(prompt[:length]) for length in order])
    assert counter.bounds.tokens == 16
    # The same once more: its last token is computed again.
    counter.add([Branch(prompt[:8])])
    assert counter.bounds.tokens == 17


def test_bounds_by_hand():
    # 4 branches: 2,500 shared are 4 blocks of 528; each has at least 388 of the shared remainder left.
    result = result_of("long", "planned", decisions=1, concurrency=1)
    lengths = [len(branch.tokens) for branch in next(workload("long").decisions(1))]
    assert result.bounds.tokens == 4 * 528 + sum(length - 4 * 528 for length in lengths)
    assert (result.bounds.rounds, result.bounds.rounds_with_reuse) == (1, 2)


def test_a_gathering_client_sends_siblings_together():
    assert result_of("short", GATHER).tally.rounds < result_of("short", STOCK).tally.rounds
    assert result_of("one-branch", GATHER).tally.mean_ms > result_of("one-branch", STOCK).tally.mean_ms + 4.9


def test_open_loops_are_answered_whatever_the_load():
    for traffic in ({"rate": 20.0}, {"rate": 500.0, "burstiness": 0.3}, {"burst": 6}):
        assert result_of("long", "planned", concurrency=None, **traffic).tally.decisions == 12


def test_host_time_rows_and_cached_tokens_cost_what_the_model_says():
    def seconds(**terms):
        cost = CostModel(fixed_s=0.01, per_token_s=0.0, **terms)
        return run(
            Traffic(workload("one-branch"), 8, concurrency=1), geometry("gdn-32"), make_arm(STOCK), cost, 1
        ).tally

    plain = seconds()
    rows = plain.rounds  # one row a round
    assert seconds(per_row_s=0.001).seconds == pytest.approx(plain.seconds + 0.001 * rows)
    assert seconds(schedule_s=0.002).seconds == pytest.approx(plain.seconds + 0.002 * rows)
    assert seconds(per_cached_token_s=1e-5).seconds > plain.seconds


def test_the_last_step_of_the_ablation_is_the_default_policy():
    arms = dict(STEPS)
    assert result_of("long", arms["+round size"]).row() == result_of("long", "planned").row()
    (row, _) = attribute([Traffic(workload("long"), 12, concurrency=2)], [geometry("gdn-528")], CostModel(), [1, 2])
    assert sum(step["share"] for step in row["steps"]) == pytest.approx(1.0)
    assert row["ratio"] > 1.2


def test_shares_of_nothing_are_not_shown():
    rows = shares({"stock": [0.0, 0.0], "+a": [0.001, 0.002], "+b": [0.0, 0.001]})
    assert [row["share"] for row in rows] == [None, None]


def test_sending_siblings_to_several_ranks_computes_the_shared_part_again():
    def tokens(router):
        traffic = Traffic(workload("long"), 16, concurrency=8)
        made = run(traffic, geometry("gdn-528"), make_arm("planned"), CostModel(), 1, ranks=4, route=ROUTERS[router]())
        return made.tally.tokens

    assert tokens("least-loaded") > 1.2 * tokens("affine")


def test_the_fitted_cells_are_fitted_and_the_rest_is_predicted():
    calibration = Calibration(VARIANTS[0])
    calibration.fit()
    by_key = {(one.figure.cell, one.figure.arm, one.figure.measure): one for one in calibration.predictions()}
    assert len(by_key) == len(FIGURES)
    for one in by_key.values():
        if one.figure.fitted:
            assert not one.missed, one
        assert bool(one.reason) == one.missed
    assert abs(by_key["short C1", "radixflow", "rounds"].predicted - 48) <= 5


def test_a_policy_of_fifteen_lines_runs_as_the_readme_has_it(tmp_path):
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    path = tmp_path / "patient.py"
    path.write_text(code)
    told = json.loads(
        simulate("--arms", f"stock,{path}:Patient", "--workloads", "short", "--concurrency", "1", "--json",
                 "--decisions", "8")
    )  # fmt: skip
    assert [one["completed"] for one in told["runs"]] == [8, 8]


def test_a_recorded_trace_gives_the_rounds_of_the_workload_it_records(tmp_path):
    """The closed loop of one client, written down with its arrivals and replayed."""
    starts = []

    class Starts:
        def on_round(self, one):
            pass

        def on_decision(self, number, start, end):
            starts.append(start)

    where, arm = geometry("gdn-528"), make_arm("planned")
    looped = run(Traffic(workload("long"), 6, concurrency=1), where, arm, CostModel(), 1, observers=[Starts()])
    path = tmp_path / "recorded.jsonl"
    lines = [
        {"arrival": start + branch.offset_s, "group": str(start), "tokens": branch.tokens}
        for start, decision in zip(starts, workload("long").decisions(1, 6), strict=True)
        for branch in decision
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    replayed = run(Traffic(trace=path), where, arm, CostModel(), 1)
    assert (replayed.tally.rounds, replayed.tally.tokens) == (looped.tally.rounds, looped.tally.tokens)
    assert list(replayed.tally.latencies) == pytest.approx(list(looped.tally.latencies))
    assert replayed.bounds.tokens == looped.bounds.tokens


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--geometries", "gdn-5"], "geometry: 'gdn-5' is unknown; known: gdn-528"),
        (["--workloads", "lnog"], "workload: 'lnog' is unknown; known: short"),
        (["--concurrency", "1", "--rate", "2"], "concurrency and rate are both given"),
        (["--concurrency", "0"], "concurrency.0 is 0"),
        (["--cost", "none.json"], "cost: 'none.json' is neither a preset"),
        (["--arms", "palnned"], "'palnned', which is unknown"),
        (["--goodput", "ttft:5"], "goodput: 'ttft:5' is not e2el:MS"),
        (["--reproduce", "x"], "reproduce: 'x' is unknown"),
    ],
)
def test_bad_input_is_named(arguments, told):
    result = CliRunner().invoke(app, ["simulate", *arguments])
    assert isinstance(result.exception, RadixFlowError)
    assert told in str(result.exception)
