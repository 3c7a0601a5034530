"""Round records and their sinks."""

from __future__ import annotations

import json
import logging

import pytest

from radixflow.errors import ConfigError
from radixflow.telemetry import JsonLinesSink, RingSink, RoundRecord


def record(seq: int) -> RoundRecord:
    return RoundRecord(
        t=1.5,
        seq=seq,
        rows=4,
        new_rows=3,
        tokens=128,
        cached_tokens=64,
        waiting=2,
        running=4,
        preset="radixflow",
        schedule_sha256="ab",
        deferrals={"pending": 2},
        release="deadline",
    )


def test_the_ring_keeps_the_last_rounds():
    ring = RingSink(3)
    for seq in range(5):
        ring.write(record(seq))
    assert [kept.seq for kept in ring.records] == [2, 3, 4]


def test_the_trace_holds_one_json_object_a_round(tmp_path):
    path = tmp_path / "rounds.jsonl"
    sink = JsonLinesSink(str(path))
    for seq in range(100):
        sink.write(record(seq))
    sink.close()
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert [row["seq"] for row in rows] == list(range(100))
    assert rows[0]["deferrals"] == {"pending": 2}
    assert set(rows[0]) >= {"t", "rows", "tokens", "held", "hold_ms", "release", "empty_steps", "host_us", "preset"}


def test_closing_twice_is_fine_and_the_trace_is_appended_to(tmp_path):
    path = tmp_path / "rounds.jsonl"
    for seq in range(2):
        sink = JsonLinesSink(str(path))
        sink.write(record(seq))
        sink.close()
        sink.close()
    assert len(path.read_text().splitlines()) == 2


def test_a_path_that_cannot_be_opened_is_refused_with_field_and_fix(tmp_path):
    with pytest.raises(ConfigError, match=r"'trace_path' is '.*gone/rounds.jsonl'.*folder that exists"):
        JsonLinesSink(str(tmp_path / "gone" / "rounds.jsonl"))


def test_a_full_disk_ends_the_trace_with_one_line_and_counts_what_is_lost():
    lines = []
    handler = logging.Handler()
    handler.emit = lambda message: lines.append(message.getMessage())
    logger = logging.getLogger("vllm.radixflow")
    logger.addHandler(handler)
    try:
        sink = JsonLinesSink("/dev/full")
        for seq in range(1000):
            sink.write(record(seq))
        sink._thread.join(timeout=5.0)
        sink.write(record(1000))
        sink.close()
    finally:
        logger.removeHandler(handler)
    assert sink.lost >= 1
    assert len(lines) == 1
    assert "serving goes on" in lines[0]
