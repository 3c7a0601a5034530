"""What a person reads: figures, changed answers with their margins, and the note on random weights."""

import io

from rich.console import Console

from radixflow.bench.cell import CellRun, summarise
from radixflow.bench.client import CallResult
from radixflow.bench.plot import draw
from radixflow.bench.report import changed_lines, markdown, print_report
from radixflow.bench.rounds import RoundTotals
from radixflow.bench.settings import Cell
from radixflow.bench.workloads import Call, Decision

CELL = Cell(workload="long", concurrency=8)


def rows(changed=1):
    calls = tuple(Call((Decision(1, ((1, 2), (1, 3))),)) for _ in range(16))

    def run(arm, seconds, flipped):
        results = []
        for index in range(16):
            second = (-2.0, -1.0 - index / 64) if index < flipped else (-1.5, -2.0)
            results.append(CallResult(index, index, index + seconds, ((-1.0, -2.0), second), 4))
        totals = RoundTotals(worker_rounds=48, tokens_computed=64, host_us=(250.0,), telemetry_us=(30.0,))
        return CellRun(CELL, arm, 0, calls, tuple(results), totals)

    return summarise(CELL, {"stock": [run("stock", 0.5, 0)], "planned": [run("planned", 0.25, changed)]}, "stock")


def printed(made, width=120):
    console = Console(file=io.StringIO(), width=width)
    print_report(console, "stock", made, random_weights=True)
    return console.file.getvalue()


def test_both_tables_hold_every_arm_and_fit_a_terminal():
    text = printed(rows())
    assert text.count("planned") == 3
    assert text.count("long C8") == 5
    assert "250" in text
    assert "30.0" in text
    assert "3.00" in text
    assert max(len(line) for line in text.splitlines()) <= 120


def test_changed_answers_are_listed_with_margin_and_difference():
    (line,) = changed_lines(rows())
    assert line == (
        "long C8, planned: decision 0 branch 1: label 0 -> 1; margin 0.5000 nats, log-probability difference -0.5000"
    )
    assert line in printed(rows(), width=200)


def test_many_changed_answers_are_cut_and_counted():
    lines = changed_lines(rows(changed=16))
    assert len(lines) == 13
    assert lines[-1] == "long C8, planned: 4 more with smaller margins"


def test_random_weights_are_said():
    assert "random weights" in printed(rows())
    assert "random weights" not in markdown("stock", rows(), random_weights=False)


def test_markdown_tables_are_even():
    for block in markdown("stock", rows(), random_weights=True).split("\n\n"):
        lines = [line for line in block.splitlines() if line.startswith("|")]
        assert len({line.replace("\\|", "").count("|") for line in lines}) <= 1


def test_the_picture_is_a_png(tmp_path):
    draw(tmp_path / "a.png", rows(), "title")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
