"""The claims of docs/threat-model.md that no other test has."""

from __future__ import annotations

import dataclasses
import json

import pytest

from radixflow.engine import hints
from radixflow.policies import PRESETS

OURS = [name for name in PRESETS if name != "native"]


def group(name, size, shared=0):
    given = {"radixflow_group": name, "radixflow_group_size": size}
    return {**given, "radixflow_shared_tokens": shared} if shared else given


def test_a_group_of_the_same_name_under_another_salt_is_another_group(make_bench, tokens):
    bench = make_bench("planned", block_size=16, settings={"wait_ms": 5})
    bench.add("mine", tokens("p", 80), salt="mine", extra_args=group("g", 4))
    for number in range(3):
        bench.add(f"theirs{number}", tokens("p", 80), salt="theirs", extra_args=group("g", 1))
    entries = bench.scheduler.controller.book.entries
    assert entries["mine"].group is not entries["theirs0"].group
    assert (entries["mine"].group.size, entries["mine"].group.to_come) == (4, 3)
    assert not entries["mine"].group.is_complete
    bench.stepper.run()
    bench.assert_clean()


def rounds_of_a_probe(make_bench, tokens, preset, salt, victims_prompt):
    """Return what two probes of one secret are given while a victim waits, whose prompt may begin with it too."""
    bench = make_bench(preset, block_size=16, settings={"wait_ms": 0})
    # Long enough that a junction is worth a round with one sibling more, and not without.
    secret = tokens("secret", 1_600)
    bench.add("victim", [*tokens(victims_prompt, 1_600), *tokens("v", 20)], salt=salt)
    for name in ("probe0", "probe1"):
        bench.add(name, [*secret, *tokens(name, 20)], salt="probe")
    bench.stepper.run()
    return [{name: count for name, count in got.items() if name != "victim"} for got in bench.stepper.rounds]


@pytest.mark.parametrize("preset", list(PRESETS))
def test_with_salts_a_probe_cannot_tell_what_a_victim_sent(make_bench, tokens, preset):
    seen = [rounds_of_a_probe(make_bench, tokens, preset, "victim", prompt) for prompt in ("secret", "other")]
    assert seen[0] == seen[1]


@pytest.mark.parametrize("preset", list(PRESETS))
def test_without_salts_a_probe_can_tell(make_bench, tokens, preset):
    seen = [rounds_of_a_probe(make_bench, tokens, preset, "probe", prompt) for prompt in ("secret", "other")]
    assert seen[0] != seen[1]


def test_groups_are_bounded_and_go_with_their_members(make_bench, tokens, monkeypatch):
    monkeypatch.setattr(hints, "_MOST_GROUPS", 8)
    bench = make_bench("planned", block_size=16)
    for number in range(20):
        bench.add(f"{number}", tokens(f"{number}", 20), extra_args=group(f"group {number}", 4096))
    assert len(bench.scheduler.controller.book.groups) == 8
    bench.stepper.run()
    assert len(bench.scheduler.controller.book.groups) == 0
    bench.assert_clean()


def test_a_false_announcement_costs_no_stranger_a_token(make_bench, tokens):
    given = {}
    for announced in (None, group("g", 4096, 64)):
        bench = make_bench("planned", block_size=16, settings={"wait_ms": 0})
        bench.add("liar", tokens("l", 120), extra_args=announced)
        for number in range(4):
            bench.add(f"{number}", [*tokens("s", 64), *tokens(f"{number}", 20)])
        bench.stepper.run()
        given[announced is None] = [sum(got.get(f"{number}", 0) for got in bench.stepper.rounds) for number in range(4)]
        bench.assert_clean()
    assert given[True] == given[False]


@pytest.mark.parametrize("preset", ["rows", "flex", "radixflow", "radixflow_frag", "planned"])
def test_a_stream_of_arrivals_renews_no_hold(make_bench, tokens, preset):
    bench = make_bench(preset, block_size=16, settings={"wait_ms": 5})
    bench.add("first", tokens("first", 40))
    calls = 0
    while "first" not in bench.step():
        bench.clock.now += 0.001
        bench.add(f"stranger{calls}", tokens(f"stranger{calls}", 40))
        calls += 1
        assert calls <= 5
    bench.stepper.run()
    bench.clock.now += 1.0
    bench.assert_clean()


def test_a_record_names_nobody_and_quotes_nothing(make_bench, tokens):
    bench = make_bench("planned", block_size=16, settings={"ring_size": 50})
    for number in range(4):
        bench.add(f"tenant-{number}", [*tokens("s", 64), *tokens(f"{number}", 20)], salt="secret-salt")
    bench.stepper.run()
    records = [dataclasses.asdict(record) for record in bench.scheduler.recorder.ring.records]
    assert records
    text = json.dumps(records)
    assert "tenant" not in text
    assert "secret" not in text
    assert not [value for record in records for value in record.values() if isinstance(value, list | tuple)]
