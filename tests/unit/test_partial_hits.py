"""Hits inside blocks: what is asked, what follows from what was measured, and where that is kept. No engine."""

from __future__ import annotations

import re

import pytest
from typer.testing import CliRunner

from radixflow.cli import app
from radixflow.errors import RadixFlowError
from radixflow.partial_hits import check as checking
from radixflow.partial_hits import records
from radixflow.partial_hits.cases import PromptFamily, prompt_families
from radixflow.partial_hits.check import check, measure
from radixflow.partial_hits.command import to_text
from radixflow.partial_hits.everywhere import EveryJunction
from radixflow.partial_hits.verdict import UnitMeasures, Verdict
from radixflow.partial_hits.worker import Result, Spec, Values
from radixflow.policies import JunctionSnapshot

GOOD = {
    "unit": 16,
    "expected_hits": 18,
    "hits": 18,
    "state_delta": 0.0,
    "plain_delta": 0.0,
    "chunk_delta": 0.0,
    "crowd_delta": 0.0,
    "batch_delta": 0.0,
    "answers_changed": 0,
}


def measured(**changes):
    return UnitMeasures(**{**GOOD, **changes})


def verdict(*units, **changes):
    return Verdict(**{"fingerprint": "f", "about": {"vllm": "0.29.0"}, "block_size": 128, "units": units, **changes})


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("RADIXFLOW_HOME", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(("unit", "block"), [(16, 128), (64, 128), (16, 528), (1, 4)])
def test_prompts_part_at_the_junction_and_the_junction_lies_inside_a_block(unit, block):
    families = prompt_families(unit, block, 320, 4_000)
    assert families
    assert families == prompt_families(unit, block, 320, 4_000)
    for family in families:
        assert family.junction % unit == 0
        assert family.junction % block
        assert len({prompt[: family.junction] for prompt in family.prompts}) == 1
        assert len({prompt[family.junction] for prompt in family.prompts}) == len(family.prompts)
    assert len({family.prompts[0][0] for family in families}) > 1 or len(families) == 1


def test_a_model_with_room_for_less_than_a_unit_gets_no_prompts():
    assert prompt_families(64, 128, 320, 60) == []


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"hits": 17}, "1 of 18 requests did not start there"),
        ({"state_delta": 0.01}, "a copied state moves a value by 0.0100"),
        ({"plain_delta": 0.03}, r"by 0.0300, more than 0.02 \(not explained\)"),
        ({"plain_delta": 0.03, "chunk_delta": 0.05}, "chunks that end there without any cache do as much"),
        ({"crowd_delta": 0.08, "batch_delta": 0.05}, "by 0.0300, more than 0.02"),
        ({"plain_delta": float("inf")}, "by inf"),
    ],
)
def test_each_way_to_be_wrong_is_a_reason(changes, reason):
    (found,) = measured(**changes).reasons(0.02)
    assert re.search(reason, found)


def test_what_a_batch_does_without_a_cache_is_not_held_against_it():
    assert measured(crowd_delta=0.05, batch_delta=0.05).reasons(0.02) == []


def test_the_finest_unit_that_passed_is_used():
    fine, middle, coarse = measured(plain_delta=0.5), measured(unit=32), measured(unit=64)
    assert verdict(coarse, fine, middle).unit() == 32
    assert verdict(fine).unit() is None


def test_an_engine_may_use_what_was_checked_and_nothing_else():
    known = verdict(measured(unit=32), measured(plain_delta=0.5))
    assert known.reasons(32, 128) == []
    assert "more than 0.02" in known.reasons(16, 128)[0]
    assert known.reasons(64, 128) == ["units of 32, 16 tokens were checked, this engine has 64"]
    assert known.reasons(32, 528) == ["it was checked with blocks of 128 tokens, this engine has 528"]


def family():
    return PromptFamily(16, ((1, 2), (1, 3)))


def test_differences_are_taken_of_the_right_pairs():
    cached = Values(
        alone=[[0.0, -5.0], [1.0, 2.0]], cold=[[0.0, -5.0], [1.0, 2.5]], crowd=[[0, 0], [0, 0]], starts=[0, 16]
    )
    plain = Values(alone=[[9.0, -5.0], [1.0, 0.0]], crowd=[[9.0, -5.0], [1.0, 0.25]])
    one = measure(16, [family()], cached, plain)
    # The first prompt of a family stores the state, and starts from none.
    assert (one.expected_hits, one.hits) == (1, 1)
    assert (one.state_delta, one.plain_delta, one.batch_delta) == (0.5, 2.0, 0.25)
    assert (one.chunk_delta, one.crowd_delta) == (9.0, 9.0)
    assert one.answers_changed == 1


def test_a_value_that_is_no_number_is_infinitely_far_from_one():
    nothing = float("nan")
    cached = Values(alone=[[0.0], [nothing]], cold=[[0.0], [nothing]], crowd=[[0.0], [0.0]], starts=[0, 16])
    one = measure(16, [family()], cached, Values(alone=[[0.0], [0.0]], crowd=[[0.0], [0.0]]))
    assert one.state_delta == 0.0
    assert one.plain_delta == float("inf")


def test_a_units_engine_that_fails_leaves_the_others_to_be_checked(monkeypatch):
    asked = []

    def run(spec: Spec) -> Result:
        asked.append(spec.unit)
        if spec.unit == 48:
            raise RadixFlowError("must divide")
        values = Values(alone=[[0.0]] * 2, crowd=[[0.0]] * 2, cold=[[0.0]] * 2, starts=[0, 16])
        return Result(fingerprint="f", about={}, block_size=128, partial=True, families=[family()], values=values)

    monkeypatch.setattr(checking, "run_engine", run)
    found = check(["model"], [48, 16])
    assert asked == [16, 48, None]
    assert [one.unit for one in found.units] == [16]
    with pytest.raises(RadixFlowError, match=r"none of these units .* 48: must divide"):
        check(["model"], [48])


def test_a_verdict_is_kept_and_found_and_the_users_own_counts_first(monkeypatch):
    assert records.find("f") is None
    monkeypatch.setattr(records, "shipped", lambda: [verdict(measured(unit=64))])
    assert records.find("f").unit() == 64
    path = records.keep(verdict(measured(unit=32)))
    assert path == records.path_of("f")
    assert records.find("f").unit() == 32


def test_a_damaged_record_is_as_good_as_none(caplog):
    path = records.path_of("f")
    path.parent.mkdir(parents=True)
    path.write_text("{")
    assert records.find("f") is None


def test_a_folder_that_cant_be_written_is_an_error_with_a_fix(home):
    (home / "partial_hits").write_text("a file in the way")
    with pytest.raises(RadixFlowError, match="set RADIXFLOW_HOME to a folder that can be written"):
        records.keep(verdict(measured()))


def test_shipped_verdicts_can_be_read():
    for one in records.shipped():
        assert one.about["device"] == "cpu"


def test_the_table_shows_every_unit_and_what_to_do():
    text = to_text(verdict(measured(), measured(unit=64, plain_delta=0.5)))
    assert "unit   16  passed" in text
    assert "unit   64  refused" in text
    assert text.endswith("use --prefix-match-unit 16")
    assert to_text(verdict(measured(hits=0))).endswith("leave --prefix-match-unit out")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--check-partial-hits"], "no model is named first"),
        (["model", "--check-partial-hits", "--units", "0"], "holds no number of tokens above 0"),
        (["model", "--check-partial-hits", "--units", "x"], "'x' is not a list of whole numbers"),
    ],
)
def test_bad_input_is_refused_before_anything_is_loaded(arguments, message):
    result = CliRunner().invoke(app, ["doctor", *arguments])
    assert message in str(result.exception)


def test_every_unit_where_a_peer_parts_is_a_junction():
    snapshot = JunctionSnapshot("r", 100, 0, 0, 32, ((17, 3), (40, 1)), unit=4)
    assert EveryJunction().plan(snapshot) == [16, 40]
