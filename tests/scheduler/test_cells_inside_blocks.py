"""What states inside blocks must show, on vLLM's real scheduler under a virtual clock: the counts are exact."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from vllm.v1.core.sched.scheduler import Scheduler as VllmScheduler

import radixflow
from radixflow.simulate.cells import all_cells, short_state_cells
from radixflow.simulate.table import run_cells, to_markdown, worse_than

UNIT = 16
DOCUMENT = (Path(__file__).parents[2] / "docs/policies.md").read_text()
(TABLE,) = re.findall(r"<!-- cells inside blocks -->\n(.*?)<!-- /cells inside blocks -->", DOCUMENT, re.DOTALL)


def cells(block=528):
    return {one.name: one for one in [*short_state_cells([block]), *all_cells([block])] if one.family == "hybrid"}


def run(one, hints=False, inside=True):
    settings = {"policy": "planned", "partial_states": "on" if inside else "off"}
    return replace(one, match_unit=UNIT if inside else None).run(radixflow.Scheduler, settings, hints)


@pytest.mark.parametrize("hints", [False, True])
def test_sixty_four_questions_about_a_state_below_a_block(hints):
    one, four = cells()["64 branches C1"], cells()["64 branches C4"]
    alone, together = run(one, hints), run(four, hints)
    # 400 shared tokens are a multiple of the unit, so the bound is the number of different tokens.
    assert alone.tokens <= 1.05 * one.lower_bound(one.make_decisions(), UNIT)
    assert together.tokens <= 1.05 * four.lower_bound(four.make_decisions(), UNIT)
    assert alone.mean_ms <= 240
    assert together.per_second >= 8
    if hints:
        # Nobody need be seen first: the state in one round, every question in the next.
        assert len(alone.rounds) == 2 * one.decisions


def test_four_short_branches_cost_what_they_cost_without_a_unit():
    short = cells()["short C1"]
    assert run(short).latencies == run(short, inside=False).latencies
    assert worse_than(run(short), short.run(VllmScheduler)) == []


UNCHANGED = ["short C1", "long C1", "short C8", "wide 16", "short C1, 2 ms apart", "lone"]
BETTER = ["short C32", "burst 16", "burst 32", "nested 64 x 4"]


@pytest.mark.parametrize("name", UNCHANGED)
@pytest.mark.parametrize("hints", [False, True])
def test_cells_where_nothing_is_to_be_had_are_unchanged(name, hints):
    one = cells()[name]
    one = replace(one, decisions=min(one.decisions, 32))
    assert run(one, hints).latencies == run(one, hints, inside=False).latencies


@pytest.mark.parametrize("name", BETTER)
def test_the_others_are_better_in_throughput_mean_and_tail(name):
    one = cells()[name]
    inside, whole = run(one), run(one, inside=False)
    assert inside.per_second >= 1.1 * whole.per_second
    assert inside.mean_ms <= 0.95 * whole.mean_ms
    assert inside.p99_ms <= 0.95 * whole.p99_ms


def test_long_decisions_side_by_side_gain_where_the_client_says_where_they_part():
    one = replace(cells()["long C8"], decisions=32)
    assert run(one).latencies == run(one, inside=False).latencies
    inside, whole = run(one, hints=True), run(one, hints=True, inside=False)
    assert inside.per_second >= 1.15 * whole.per_second
    assert inside.p99_ms <= whole.p99_ms


@pytest.mark.parametrize("block", [32, 64])
@pytest.mark.parametrize("name", ["short C8", "short C32", "burst 16"])
def test_small_blocks_lose_nothing(name, block):
    one = cells(block)[name]
    assert worse_than(run(one), run(one, inside=False)) == []


@pytest.mark.parametrize("name", ["64 branches C1", "16 questions x 4", "burst 16", "lone"])
def test_a_row_of_the_table_is_reproduced_to_the_digit(name):
    printed = to_markdown(list(run_cells([cells()[name]], {"planned": {"policy": "planned"}}, unit=UNIT))).splitlines()
    assert printed[0] in TABLE.splitlines()
    assert printed[-1] in TABLE.splitlines()


def test_every_cell_is_in_the_table_and_none_is_worse():
    rows = [line for line in TABLE.splitlines() if re.match(r"\| \w+.* \| \d+ \|", line)]
    assert {row.split("|")[1].strip() for row in rows} == set(cells())
    assert {row.split("|")[-2].strip() for row in rows} == {"-"}
