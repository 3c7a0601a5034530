"""`radixflow report`: what it shows is in the folders, its page needs nothing beside it, and a browser can draw it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess

import pytest
from typer.testing import CliRunner

from radixflow.bench import results
from radixflow.cli import app
from radixflow.errors import ConfigError
from radixflow.report.cells import ratio_interval, series
from radixflow.report.load import load
from radixflow.report.page import write_report
from radixflow.report.perfetto import write_trace

ARMS = {"stock": 10.0, "planned": 15.0}


def run_row(cell, arm, seed):
    rate = ARMS[arm] + 0.1 * seed
    return {
        "cell": cell, "geometry": "gdn-528", "arm": arm, "seed": seed, "request_throughput": rate,
        "mean_e2el_ms": 1e3 / rate, "rounds_per_decision": 20.0 / rate,
    }  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    """A simulated result folder with two cells, two arms, three seeds."""
    made = results.create_folder(tmp_path, "lab")
    runs = [run_row(f"long C{level}", arm, seed) for level in (1, 8) for arm in ARMS for seed in (1, 2, 3)]
    rows, rounds = [], []
    for run in runs:
        cell = {key: run[key] for key in ("cell", "geometry", "arm", "seed")}
        for number in range(3):
            rows.append({**cell, "decision": number, "started_s": 0.1 * number, "latency_ms": 90.0 + number})
            rounds.append(
                {**cell, "round": number, "start_s": 0.1 * number, "end_s": 0.1 * number + 0.09, "waiting": 1,
                 "tokens": {f"{number}-0": 40, f"{number}-1": 30}, "deferrals": {"pending": 2},
                 "hold_ms": 5.0 if number else 0.0, "release": "deadline", "held": 2}
            )  # fmt: skip
    results.write_json(made / "environment.json", {"cpu": "x", "versions": {"vllm": "0.29.0"}})
    results.write_json(made / "summary.json", {"kind": "simulate", "status": "ok", "runs": runs})
    results.write_rows(made / "rows.jsonl", rows)
    results.write_rows(made / "rounds.jsonl", rounds)
    (made / "table.md").write_text("| cell | /s |\n| --- | ---: |\n| long C1 \\| a | 10 |\n\nA <note> with `code`.\n")
    results.seal(made)
    return made


def test_the_page_needs_nothing_beside_it(folder, tmp_path):
    written = {path.name for path in write_report(load([folder]), tmp_path / "out")}
    page = (tmp_path / "out/report.html").read_text()
    assert {"report.md", "report.html", "trace.json"} <= written
    assert not re.findall(r'(?:src|href)="(?!#)[^"]*"', page)
    assert "<script" not in page
    assert page.count("<svg") == 4
    assert "simulated" in page
    assert "<note>" not in page
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    assert all(target in ids for target in re.findall(r'href="#([^"]+)"', page))


def test_the_same_folders_give_the_same_bytes(folder, tmp_path):
    first = [path.read_bytes() for path in write_report(load([folder]), tmp_path / "a")]
    second = [path.read_bytes() for path in write_report(load([folder]), tmp_path / "b")]
    assert first == second


def test_figures_in_markdown_are_files_beside_it(folder, tmp_path):
    write_report(load([folder]), tmp_path / "out")
    names = re.findall(r"!\[[^]]*\]\(([^)]+)\)", (tmp_path / "out/report.md").read_text())
    assert len(names) == 4
    assert all((tmp_path / "out" / name).is_file() for name in names)


def test_rounds_holds_deferrals_and_decisions_are_in_the_trace(folder, tmp_path):
    write_report(load([folder]), tmp_path / "out")
    events = json.loads((tmp_path / "out/trace.json").read_text())["traceEvents"]
    kinds = {(event["ph"], event.get("cat")) for event in events}
    assert {("X", "round"), ("X", "hold"), ("i", "deferral"), ("X", "decision"), ("X", "branch")} <= kinds
    assert all(event["dur"] > 0 for event in events if event["ph"] == "X")
    tracks = {(event["pid"], event["tid"]) for event in events if event.get("cat") == "decision"}
    assert len(tracks) == 12 * 3
    hold = next(event for event in events if event.get("cat") == "hold")
    first = next(e for e in events if e.get("cat") == "round" and e["name"] == "round 1" and e["pid"] == hold["pid"])
    assert hold["ts"] + hold["dur"] == pytest.approx(first["ts"])


def test_a_decision_that_failed_has_no_track():
    text = write_trace({"a": ([], [{"decision": 0, "started_s": 0.0, "latency_ms": None}])})
    assert "decision 0" not in text


def test_ratios_are_paired_and_their_interval_holds_the_mean():
    middle, low, high = ratio_interval([11.0, 24.0, 36.0], [10.0, 20.0, 30.0])
    assert 1.1 <= low <= middle <= high <= 1.2
    assert ratio_interval([], []) is None


def test_a_folder_that_was_changed_is_refused(folder):
    (folder / "table.md").write_text("better\n")
    with pytest.raises(ConfigError, match=r"table.md: changed"):
        load([folder])


def test_what_is_no_folder_is_named(tmp_path):
    result = CliRunner().invoke(app, ["report", str(tmp_path / "nothing")])
    assert isinstance(result.exception, ConfigError)
    assert "nothing" in str(result.exception)


def test_measured_and_simulated_cells_have_one_shape(folder):
    found = series(load([folder])[0])
    assert {one.concurrency for one in found.values()} == {1, 8}
    assert all(len(one.throughput) == 3 and len(one.latencies) == 9 for one in found.values())


CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium (Debian package chromium)")
def test_a_browser_draws_tables_and_figures(folder, tmp_path):
    from matplotlib.image import imread

    write_report(load([folder]), tmp_path / "out")
    picture = tmp_path / "page.png"
    subprocess.run(
        [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1000,2400",
         f"--user-data-dir={tmp_path / 'profile'}", f"--screenshot={picture}",
         f"file://{tmp_path / 'out/report.html'}"],
        check=True, capture_output=True, timeout=300,
    )  # fmt: skip
    pixels = imread(picture)[..., :3]
    assert pixels.shape == (2400, 1000, 3)
    # Figures are the only coloured thing on the page: matplotlib's blue and orange.
    for red, green, blue in ((31, 119, 180), (255, 127, 14)):
        near = abs(pixels - [red / 255, green / 255, blue / 255]).max(axis=2) < 0.02
        assert near.sum() > 200
