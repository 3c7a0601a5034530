"""Recorded traffic and recorded rounds: what is read, what is refused, what is learned."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("vllm")

from radixflow.errors import ConfigError
from radixflow.simulate.cost import CostModel, read_cost
from radixflow.simulate.fit import fit_cost, read_records, step_seconds
from radixflow.simulate.trace import read_trace


def write(tmp_path, *lines):
    path = tmp_path / "traffic.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_segments_of_one_name_are_the_same_tokens(tmp_path):
    state = {"id": "state", "length": 50}
    path = write(
        tmp_path,
        {"arrival": 0.0, "group": "a", "segments": [state, {"id": "x", "length": 5}]},
        {"arrival": 0.002, "group": "a", "segments": [state, {"id": "y", "length": 5}], "salt": "s"},
        {"arrival": 0.5, "length": 7, "max_tokens": 3},
        {"arrival": 9.0, "group": "a", "tokens": [5, 6, 7]},
    )
    (first, one), (second, two), (third, three) = read_trace(path)
    assert (first, second, third) == (0.0, 0.5, 9.0)
    assert one[0].tokens[:50] == one[1].tokens[:50] != one[0].tokens[5:55]
    assert (one[1].offset_s, one[1].salt) == (0.002, "s")
    assert (len(two[0].tokens), two[0].max_tokens) == (7, 3)
    assert three[0].tokens == [5, 6, 7]
    assert [start for start, _ in read_trace(path, speed=2.0)] == [0.0, 0.25, 4.5]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ({"arrival": -1.0, "length": 5}, "line 2: field 'arrival' is -1"),
        ({"arrival": 1.0}, "give exactly one of tokens, segments and length"),
        ({"arrival": 1.0, "length": 5, "tokens": [4]}, "give exactly one of"),
        ({"arrival": 1.0, "lenght": 5}, "field 'lenght' is 5"),
        ({"arrival": 1.0, "segments": [{"id": "", "length": 4}]}, "field 'segments.0.id' is ''"),
        ({"arrival": 0.5, "length": 5}, "'arrival' is 0.5, before the line above it (1)"),
        ({"arrival": float("inf"), "length": 5}, "'arrival' is inf"),
    ],
)
def test_a_bad_line_is_named(tmp_path, line, told):
    path = write(tmp_path, {"arrival": 1.0, "length": 4}, line)
    with pytest.raises(ConfigError) as error:
        list(read_trace(path))
    assert told in str(error.value)


def rounds(cost, sizes):
    """A trace as an engine with such a cost would write it."""
    now, records = 0.0, []
    for number, (tokens, rows) in enumerate(sizes):
        now += 300e-6
        records.append(
            {"t": now, "seq": number, "tokens": tokens, "rows": rows, "host_us": 300.0, "waiting": 3, "empty_steps": 0}
        )
        now += cost.seconds(tokens, rows)
    return records


def test_a_fit_finds_the_cost_that_made_the_rounds(tmp_path):
    cost = CostModel(fixed_s=0.02, per_token_s=30e-6, per_row_s=0.4e-3)
    records = rounds(cost, [(100 + 37 * (number % 11), 1 + number % 7) for number in range(60)])
    path = tmp_path / "rounds.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    found = fit_cost(step_seconds(read_records(path)))
    assert found.cost.fixed_s == pytest.approx(0.02, rel=1e-6)
    assert found.cost.per_token_s == pytest.approx(30e-6, rel=1e-6)
    assert found.cost.per_row_s == pytest.approx(0.4e-3, rel=1e-6)
    assert found.cost.schedule_s == pytest.approx(300e-6)
    assert found.median_error < 1e-9
    model = tmp_path / "cost.json"
    model.write_text(found.cost.model_dump_json())
    assert read_cost(str(model)) == found.cost


def test_one_stalled_round_does_not_move_the_fit():
    cost = CostModel(fixed_s=0.02, per_token_s=30e-6)
    records = rounds(cost, [(100 + 37 * (number % 11), 4) for number in range(60)])
    for record in records[20:]:
        record["t"] += 2.0
    found = fit_cost(step_seconds(records))
    assert found.dropped == 1
    assert found.cost.seconds(300, 4) == pytest.approx(cost.seconds(300, 4), rel=1e-6)


def test_what_cannot_be_fitted_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="only 9 rounds"):
        fit_cost(step_seconds(rounds(CostModel(), [(100 + n, 1) for n in range(10)])))
    with pytest.raises(ConfigError, match="every round has 100 tokens"):
        fit_cost(step_seconds(rounds(CostModel(), [(100, 1)] * 30)))
    path = tmp_path / "no.jsonl"
    path.write_text('{"t": 1}\n')
    with pytest.raises(ConfigError, match="line 1: no round record"):
        read_records(path)


def test_a_cost_file_with_a_wrong_field_is_refused(tmp_path):
    path = tmp_path / "cost.json"
    path.write_text('{"fixed": 1}')
    with pytest.raises(ConfigError, match="field 'fixed' is 1"):
        read_cost(str(path))
