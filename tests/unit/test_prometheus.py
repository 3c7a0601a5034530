"""Prometheus series: what a scrape shows, in one process and of several, and what happens where it can't."""

from __future__ import annotations

import gc
import itertools
import logging
import os
import subprocess
import sys
import textwrap
import threading
import time
from collections import Counter

import pytest
from prometheus_client import REGISTRY

from radixflow.config import RadixFlowConfig
from radixflow.engine.recorder import Recorder
from radixflow.telemetry import prometheus
from radixflow.telemetry.decision_metrics import DECISION_SERIES, DecisionMetrics
from radixflow.telemetry.prometheus import (
    COUNTERS,
    HOLD_SECONDS,
    SCHEDULE_SECONDS,
    SCHEDULER_SERIES,
    close_series,
    open_series,
)
from radixflow.telemetry.series import FOLDER_VARIABLE, Series, Tally, family


def value(name, **labels):
    return REGISTRY.get_sample_value(name, labels)


_RANKS = itertools.count(1000)


@pytest.fixture
def engine():
    """Return a rank that no other test counts for."""
    return str(next(_RANKS))


@pytest.fixture
def warned():
    """Return what RadixFlow warned about."""
    lines = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: lines.append(record.getMessage())
    logger = logging.getLogger("vllm.radixflow")
    logger.addHandler(handler)
    yield lines
    logger.removeHandler(handler)


def run_code(code, **environment):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={**{name: text for name, text in os.environ.items() if name != FOLDER_VARIABLE}, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done


# Plain numbers


def test_a_bucket_includes_its_upper_bound():
    tally = Tally((0.001, 0.002))
    for seconds in (0.0, 0.001, 0.0011, 0.002, 0.0021, 5.0):
        tally.add(seconds)
    assert tally.counts == [2, 2, 2]
    assert tally.total == pytest.approx(5.0062)


def test_names_are_ours_and_unique():
    names = [series.name for series in (*SCHEDULER_SERIES, *DECISION_SERIES)]
    assert len(set(names)) == len(names)
    for series in (*SCHEDULER_SERIES, *DECISION_SERIES):
        assert series.name.startswith("radixflow_")
        assert series.name.endswith("_seconds" if series.bounds else "_total")
        assert list(series.bounds) == sorted(set(series.bounds))
        assert series.help.endswith(".")


# One process


def test_totals_become_counters_and_only_differences_are_added(engine):
    totals, holds = Counter(), Tally(HOLD_SECONDS.bounds)
    opened = open_series(engine, totals, {HOLD_SECONDS: holds})
    # What is known beforehand is there, at 0.
    assert value("radixflow_rounds_total", engine=engine) == 0
    assert value("radixflow_deferrals_total", engine=engine, reason="promise") == 0
    totals.update({"rounds": 3, "deferrals.pending": 7, "deferrals.own": 1, "hints.ignored": 2, "uncomputed_blocks": 9})
    holds.add(0.0045)
    opened.publish()
    opened.publish()
    totals["rounds"] += 1
    holds.add(0.02)
    close_series(opened)
    close_series(opened)
    assert value("radixflow_rounds_total", engine=engine) == 4
    assert value("radixflow_deferrals_total", engine=engine, reason="pending") == 7
    assert value("radixflow_deferrals_total", engine=engine, reason="own") == 1
    assert value("radixflow_hints_ignored_total", engine=engine) == 2
    buckets = [
        value("radixflow_hold_seconds_bucket", engine=engine, le=le) for le in ("0.004", "0.005", "0.01", "+Inf")
    ]
    assert buckets == [0, 1, 1, 2]
    assert value("radixflow_hold_seconds_count", engine=engine) == 2
    assert value("radixflow_hold_seconds_sum", engine=engine) == pytest.approx(0.0245)


def test_schedulers_of_a_process_add_up_and_ranks_stay_apart(engine):
    other = f"{engine}x"
    for rank, rounds in ((engine, 2), (engine, 3), (other, 10)):
        totals = Counter(rounds=rounds)
        close_series(open_series(rank, totals, {}))
    assert value("radixflow_rounds_total", engine=engine) == 5
    assert value("radixflow_rounds_total", engine=other) == 10


def test_changes_are_published_without_a_word(engine, monkeypatch):
    monkeypatch.setattr(prometheus, "PERIOD_S", 0.01)
    totals = Counter()
    opened = open_series(engine, totals, {})
    totals["rounds"] = 5
    deadline = time.monotonic() + 10
    while value("radixflow_rounds_total", engine=engine) != 5 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert value("radixflow_rounds_total", engine=engine) == 5
    close_series(opened)


def test_who_is_dropped_is_forgotten_and_the_thread_ends(engine, monkeypatch):
    monkeypatch.setattr(prometheus, "PERIOD_S", 0.01)
    publisher = prometheus._Publisher()
    monkeypatch.setattr(prometheus, "_PUBLISHER", publisher)
    opened = [open_series(engine, Counter(), {}) for _ in range(3)]
    thread = publisher._thread
    assert thread.is_alive()
    close_series(opened.pop())
    opened.clear()
    gc.collect()
    thread.join(5)
    assert not thread.is_alive()
    # Another one starts it again.
    again = open_series(engine, Counter(), {})
    assert publisher._thread.is_alive()
    close_series(again)


def test_two_recorders_share_names_and_one_thread():
    recorders = [Recorder(RadixFlowConfig(), "planned", "ab", engine=77) for _ in range(20)]
    assert sum(thread.name == "radixflow-series" for thread in threading.enumerate()) <= 2
    for recorder in recorders:
        recorder.failed("index")
        recorder.released("rows", 3, 0.004)
        recorder.close()
        recorder.close()
    assert value("radixflow_failures_total", engine="77", where="index") == 20
    assert value("radixflow_fallbacks_total", engine="77") == 20
    assert value("radixflow_holds_total", engine="77", reason="rows") == 20
    assert value("radixflow_hold_seconds_bucket", engine="77", le="0.004") == 20


# Failures


def test_a_registry_that_fails_ends_the_series_and_nothing_else(engine, warned):
    totals = Counter()
    opened = open_series(engine, totals, {})

    class Broken:
        def inc(self, amount):
            raise OSError("no space left")

    opened._children["rounds"] = Broken()
    totals["rounds"] += 1
    assert not opened.publish()
    totals["rounds"] += 1
    assert not opened.publish()
    close_series(opened)
    assert totals["failures.telemetry"] == 1
    assert len(warned) == 1
    assert "no space left" in warned[0]


def test_a_name_that_is_taken_is_one_line_a_process(engine, warned, monkeypatch):
    def taken(series):
        raise ValueError("Duplicated timeseries")

    monkeypatch.setattr(prometheus, "family", taken)
    monkeypatch.setattr(prometheus, "_told", set())
    for _ in range(3):
        totals = Counter()
        assert open_series(engine, totals, {}) is None
        assert totals["failures.telemetry"] == 1
    assert len(warned) == 1
    close_series(None)


def test_without_prometheus_client_there_are_no_series_and_no_complaint():
    run_code(
        """
        import logging, sys
        sys.modules["prometheus_client"] = None
        from collections import Counter
        from radixflow.telemetry.decision_metrics import DecisionMetrics
        from radixflow.telemetry.prometheus import open_series
        logging.getLogger("vllm.radixflow").addFilter(lambda record: sys.exit(record.getMessage()))
        totals = Counter()
        assert open_series("0", totals, {}) is None
        assert not totals
        metrics = DecisionMetrics()
        metrics.answered([("noul", True)], 0.5)
        assert metrics.snapshot()["answered"] == 1
        assert metrics.failures == 0
        """
    )


# Several processes

ENGINE = """
    from collections import Counter
    from radixflow.telemetry.prometheus import HOLD_SECONDS, close_series, open_series
    from radixflow.telemetry.series import Tally
    totals, holds = Counter({"rounds": 4, "barriers.zero": 2}), Tally(HOLD_SECONDS.bounds)
    holds.add(0.003)
    opened = open_series("%s", totals, {HOLD_SECONDS: holds})
    assert opened is not None
    close_series(opened)
"""
SCRAPE = """
    import sys
    from prometheus_client import CollectorRegistry, generate_latest, multiprocess
    registry = CollectorRegistry()
    multiprocess.MultiProcessCollector(registry)
    sys.stdout.write(generate_latest(registry).decode())
"""


def test_another_process_sees_the_series_through_the_folder(tmp_path):
    folder = {FOLDER_VARIABLE: str(tmp_path)}
    for rank in ("0", "0", "1"):
        run_code(ENGINE % rank, **folder)
    run_code(
        """
        from radixflow.telemetry.decision_metrics import DecisionMetrics
        metrics = DecisionMetrics()
        metrics.answered([("choice", True)], 0.3)
        metrics.failed(413)
        """,
        **folder,
    )
    lines = run_code(SCRAPE, **folder).stdout.splitlines()
    assert 'radixflow_rounds_total{engine="0"} 8.0' in lines
    assert 'radixflow_rounds_total{engine="1"} 4.0' in lines
    assert 'radixflow_barriers_total{engine="1",reason="zero"} 2.0' in lines
    assert 'radixflow_hold_seconds_bucket{engine="0",le="0.002"} 0.0' in lines
    assert 'radixflow_hold_seconds_bucket{engine="0",le="0.003"} 2.0' in lines
    assert 'radixflow_hold_seconds_count{engine="0"} 2.0' in lines
    assert 'radixflow_near_ties_total{type="choice"} 1.0' in lines
    assert 'radixflow_decision_errors_total{status="413"} 1.0' in lines
    for series in (*SCHEDULER_SERIES, *DECISION_SERIES):
        # The engines above gave no tally for the host time.
        if series is not SCHEDULE_SECONDS:
            assert any(line.startswith(f"# TYPE {series.name} ") for line in lines), series.name


def test_the_space_of_the_files_is_taken_at_the_start_and_suffices(tmp_path):
    run_code(ENGINE % "0", **{FOLDER_VARIABLE: str(tmp_path)})
    files = sorted(tmp_path.glob("*.db"))
    assert [path.name.split("_")[0] for path in files] == ["counter", "histogram"]
    for path in files:
        status = path.stat()
        assert status.st_size == 1 << 16
        assert status.st_blocks * 512 >= 1 << 16


@pytest.mark.parametrize("kind", ["missing", "file"])
def test_a_folder_that_cannot_be_used_stops_nothing(tmp_path, kind):
    folder = tmp_path / "folder"
    if kind == "file":
        folder.write_text("")
    done = run_code(
        """
        import logging
        logging.basicConfig()
        from radixflow.config import RadixFlowConfig
        from radixflow.engine.recorder import Recorder
        from radixflow.telemetry.decision_metrics import DecisionMetrics
        for _ in range(2):
            recorder = Recorder(RadixFlowConfig(), "planned", "ab")
            assert recorder.totals["failures.telemetry"] == 1
            recorder.released("rows", 1, 0.001)
            recorder.close()
        metrics = DecisionMetrics()
        metrics.answered([("choice", True)], 0.3)
        assert metrics.snapshot()["near_ties"] == {"choice": 1}
        assert metrics.failures == 1
        """,
        **{FOLDER_VARIABLE: str(folder)},
    )
    assert done.stderr.count("no Prometheus series") == 1
    assert done.stderr.count("series of decisions stop here") == 1


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="this system takes no space beforehand")
def test_a_full_disk_is_an_error_at_the_start(tmp_path):
    run_code(
        """
        import os
        from collections import Counter
        def full(*_):
            raise OSError(28, "No space left on device")
        os.posix_fallocate = full
        from radixflow.telemetry.prometheus import open_series
        totals = Counter()
        assert open_series("0", totals, {}) is None
        assert totals["failures.telemetry"] == 1
        """,
        **{FOLDER_VARIABLE: str(tmp_path)},
    )


# Decisions


def test_decisions_by_hand():
    before = {
        name: value("radixflow_decisions_total", outcome=name) or 0 for name in ("answered", "failed", "disconnected")
    }
    metrics = DecisionMetrics()
    metrics.answered([("choice", True), ("noul", False), ("choice", False)], 0.25)
    metrics.answered([("score", False)], 0.75)
    metrics.failed(400)
    metrics.failed(400)
    metrics.failed(503)
    metrics.disconnected()
    assert metrics.snapshot() == {
        "answered": 2,
        "failed": 3,
        "disconnected": 1,
        "questions": {"choice": 2, "noul": 1, "score": 1},
        "near_ties": {"choice": 1},
        "errors": {"400": 2, "503": 1},
        "mean_seconds": 0.5,
    }
    after = {name: value("radixflow_decisions_total", outcome=name) - count for name, count in before.items()}
    assert after == {"answered": 2, "failed": 3, "disconnected": 1}
    assert DecisionMetrics().snapshot()["mean_seconds"] is None


def test_a_decision_that_cannot_be_counted_is_answered_all_the_same(warned):
    metrics = DecisionMetrics()

    class Broken:
        def inc(self):
            raise OSError("no space left")

    metrics._children = dict.fromkeys(metrics._children, Broken())
    metrics.failed(400)
    metrics.failed(400)
    metrics.answered([("noul", True)], 0.1)
    assert metrics.snapshot()["errors"] == {"400": 2}
    assert metrics.failures == 1
    assert len(warned) == 1


def test_a_series_is_registered_once():
    series = Series("radixflow_test_total", "Nothing.")
    assert family(series) is family(Series("radixflow_test_total", "Nothing."))
    assert {counted.series.labels[0] for counted in COUNTERS} == {"engine"}
