"""Rounds are cut by time and counted once, also from a trace that is still being written."""

import json
import math

import pytest

from radixflow.bench.rounds import TraceReader, merge_totals, total_rounds


def record(t, rows=1, **fields):
    return {"t": t, "rows": rows, "new_rows": rows, "tokens": 10 * rows, **fields}


def write(path, *records, end="\n"):
    with path.open("a") as stream:
        stream.write("\n".join(json.dumps(item) if isinstance(item, dict) else item for item in records) + end)


@pytest.fixture
def reader(tmp_path):
    return TraceReader(tmp_path / "trace.jsonl")


def test_a_window_holds_the_rounds_between_its_ends(reader):
    write(reader.path, *(record(t) for t in (1.0, 2.0, 2.5, 3.0, 4.0)))
    assert [item["t"] for item in reader.window(2.0, 3.0, prompts=3)] == [2.0, 2.5, 3.0]
    assert [item["t"] for item in reader.window(3.5, 9.0, prompts=1)] == [4.0]


def test_a_half_written_line_waits_for_its_end(reader):
    write(reader.path, record(1.0), '{"t": 2.0, "ro', end="")
    assert reader.poll() == 1
    write(reader.path, 'ws": 3}')
    assert reader.poll() == 1
    assert reader.records[1] == {"t": 2.0, "rows": 3}


def test_lines_that_are_no_records_are_skipped(reader):
    write(reader.path, '{"kind": "header"}', "not json", "[1]", '{"t": null}', record(1.0))
    assert reader.poll() == 1


def test_a_missing_trace_gives_nothing_once_patience_ends(reader):
    now = [0.0]

    def sleep(seconds):
        now[0] += seconds

    assert reader.window(0.0, 1.0, prompts=1, patience_s=2.0, clock=lambda: now[0], sleep=sleep) == []
    assert 2.0 <= now[0] < 2.2


def test_a_window_waits_for_a_writer_that_is_behind(reader):
    late = [record(1.1), record(1.2)]
    write(reader.path, record(1.0))

    def sleep(_):
        if late:
            write(reader.path, late.pop(0))

    assert len(reader.window(0.0, 2.0, prompts=3, clock=lambda: 0.0, sleep=sleep)) == 3


def test_totals_by_hand():
    totals = total_rounds(
        [
            record(1, 1, cached_tokens=0, host_us=100, telemetry_us=1, deferrals={"pending": 2}, empty_steps=3),
            record(2, 3, cached_tokens=96, host_us=300, hold_ms=4.5, release="rows", barriers={"zero": 1}),
            record(3, 0, host_us=9999),
            record(4, 2, host_us=200, telemetry_us=3, deferrals={"pending": 1, "zero": 1}, release="rows"),
        ]
    )
    assert totals.worker_rounds == 3
    assert totals.tokens_computed == 60
    assert totals.prefix_hit_tokens == 96
    assert totals.deferrals == {"pending": 3, "zero": 1}
    assert totals.pending_deferrals == 4
    assert totals.barrier_breaks == {"zero": 1}
    assert totals.holds == {"rows": 2}
    assert totals.hold_ms == 4.5
    assert totals.empty_steps == 3
    assert totals.schedule_host_us_p50 == 200
    assert totals.telemetry_us_p50 == 2


def test_unknown_and_missing_fields_are_taken_leniently():
    totals = total_rounds([{"t": 1, "rows": 2, "future": {"a": 1}, "deferrals": None, "tokens": True}])
    assert totals.worker_rounds == 1
    assert totals.tokens_computed == 0
    assert math.isnan(totals.telemetry_us_p50)


def test_repeats_add_up():
    one = total_rounds([record(1, 1, host_us=1, deferrals={"pending": 1}, release="running")])
    two = total_rounds([record(2, 4, host_us=3, deferrals={"zero": 1}, release="running")])
    both = merge_totals([one, two])
    assert (both.worker_rounds, both.tokens_computed) == (2, 50)
    assert both.deferrals == {"pending": 1, "zero": 1}
    assert both.holds == {"running": 2}
    assert both.host_us == (1.0, 3.0)
    assert merge_totals([]).worker_rounds == 0
