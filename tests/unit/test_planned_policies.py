"""The default preset's policies, by hand: junctions, tails, round size, round cost and what a hold is worth."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixflow.policies import (
    AdmissionSnapshot,
    JunctionSnapshot,
    Release,
    RoundCost,
    RoundCostLearner,
    RoundSnapshot,
    StartObservation,
)
from radixflow.policies.learned_admission import LearnedAdmission, gain_of
from radixflow.policies.planned_junctions import PlannedJunctions
from radixflow.policies.planned_traversal import PlannedTraversal
from radixflow.policies.tail_states import AccountedTails, TailSnapshot

COST = RoundCost(fixed_s=0.045, per_token_s=25e-6)


def junctions(peers, **changes):
    values = {
        "request_id": "a",
        "prompt_tokens": 2_700,
        "cached_tokens": 0,
        "native_junction": 0,
        "block_size": 528,
        "peers": tuple(peers),
        "stored_anyway": 2_640,
        "unfinished": 4,
        "cost": COST,
    }
    return list(PlannedJunctions().plan(JunctionSnapshot(**{**values, **changes})))


def test_the_examples_of_the_document():
    assert COST.balance_tokens == pytest.approx(1_800)
    assert junctions([(2_500, 3)]) == [2_112]
    short = {"prompt_tokens": 110, "block_size": 32, "stored_anyway": 96}
    assert junctions([(80, 3)], **short) == []
    nested = {"prompt_tokens": 3_240, "block_size": 64, "stored_anyway": 3_200, "unfinished": 256}
    assert junctions([(3_000, 255), (3_200, 3)], **nested) == [2_944, 3_200]


def test_without_peers_nothing_is_planned():
    assert junctions([]) == []
    assert junctions([(500, 9)]) == []


def test_company_shares_the_round():
    # 528 tokens for three peers are no round of 1,800 tokens; with sixteen such decisions at work they are.
    shape = {"prompt_tokens": 1_100, "stored_anyway": 1_056}
    assert junctions([(600, 3)], **shape, unfinished=4) == []
    assert junctions([(600, 3)], **shape, unfinished=64) == [528]


def test_a_small_budget_makes_tokens_dearer_than_rounds():
    shape = {"prompt_tokens": 1_100, "stored_anyway": 1_056, "unfinished": 4}
    assert junctions([(600, 3)], **shape, token_budget=1_000) == [528]


def test_what_peers_can_start_from_counts_not_where_the_chunk_starts():
    # A chunk that ended inside a block, or at a boundary whose state was not kept, is of no use to anybody.
    shape = {"cached_tokens": 2_096}
    assert junctions([(2_500, 3)], **shape) == []
    assert junctions([(2_500, 3)], **shape, stored_tokens=0) == [2_112]


def test_the_last_stop_is_free_unless_it_may_be_left_out():
    shape = {"prompt_tokens": 110, "block_size": 64, "stored_anyway": 64}
    assert junctions([(80, 3)], **shape) == [64]
    assert junctions([(80, 3)], **shape, is_tail_optional=True) == []


def test_vllms_own_junction_is_kept_once_its_absence_has_cost_a_round():
    shape = {"prompt_tokens": 1_100, "stored_anyway": 1_056, "native_junction": 528, "unfinished": 1}
    assert junctions([], **shape) == []
    assert junctions([], **shape, repeated_tokens=1_000) == []
    assert junctions([], **shape, repeated_tokens=1_400) == [528]
    assert junctions([], **shape, owed_tokens=1_400.0) == [528]
    assert junctions([], **shape, owed_tokens=-5_000.0, repeated_tokens=1_400) == [528]


@st.composite
def shared_prefixes(draw):
    positions = draw(st.lists(st.integers(1, 39), min_size=1, max_size=6, unique=True))
    fan_outs = sorted(draw(st.lists(st.integers(1, 40), min_size=len(positions), max_size=len(positions))))
    return tuple(zip(sorted(positions), fan_outs[::-1], strict=True))


@given(peers=shared_prefixes(), tail=st.integers(0, 9), unfinished=st.integers(1, 64), balance=st.integers(1, 500))
def test_no_other_set_of_positions_saves_more(peers, tail, unfinished, balance):
    block, start = 4, 0
    free = 40 if tail < 5 else 0
    cost = RoundCost(balance * 1e-3, 1e-3)
    snapshot = JunctionSnapshot("a", 44, start, 0, block, peers, stored_anyway=free, unfinished=unfinished, cost=cost)
    company = 1 + max((fan_out for position, fan_out in peers if position >= block), default=0)
    price = cost.balance_tokens / max(1.0, unfinished / company)

    def fan_out_at(at):
        return max((fan_out for position, fan_out in peers if position >= at), default=0)

    def saves(chosen):
        steps = zip([start, *chosen], chosen, strict=False)
        return sum((at - before) * fan_out_at(at) - (at != free) * price for before, at in steps)

    candidates = sorted({position // block * block for position, _ in peers} - {0} | ({free} - {0}))
    subsets = itertools.chain.from_iterable(itertools.combinations(candidates, n) for n in range(len(candidates) + 1))
    best = max(saves(subset) for subset in subsets)
    assert saves(sorted(PlannedJunctions().plan(snapshot))) == pytest.approx(best)


# Tails


def tail(**changes):
    values = {
        "request_id": "a",
        "is_prefill_only": True,
        "is_branch": True,
        "waiting_for_it": 0,
        "unfinished": 4,
        "cost": COST,
    }
    return TailSnapshot(**{**values, **changes})


@pytest.mark.parametrize("changes", [{"is_prefill_only": False}, {"is_branch": False}, {"waiting_for_it": 1}])
def test_a_stop_that_somebody_may_need_is_kept(changes):
    tails = AccountedTails()
    assert not tails.skips(tail(**changes))
    assert tails.account_tokens == 0.0


def test_a_stop_left_out_earns_its_share_of_a_round_and_a_miss_costs_what_is_computed_again():
    tails = AccountedTails()
    assert tails.is_optional(tail())
    assert tails.skips(tail())
    assert tails.account_tokens == pytest.approx(1_800 / 4)
    tails.missed(1_000)
    assert tails.account_tokens == pytest.approx(450 - 1_000)
    assert not tails.is_optional(tail())
    assert not tails.skips(tail())


def test_the_credit_is_bounded_and_a_debt_is_forgotten():
    tails = AccountedTails()
    for _ in range(1_000):
        tails.skips(tail(unfinished=1))
    assert tails.account_tokens == pytest.approx(16 * 1_800)
    tails.missed(16 * 1_800 + 1_800)
    asked = next(number for number in range(1_000) if tails.skips(tail()))
    assert asked == pytest.approx(256, abs=1)


# Round size and round cost


def test_rounds_are_cut_at_three_times_the_balance_a_block_at_least():
    auto = PlannedTraversal()
    assert auto.round_tokens(RoundSnapshot(0.0, 65_536, 528, COST)) == pytest.approx(5_400, abs=1)
    assert auto.round_tokens(RoundSnapshot(0.0, 65_536, 8_192, COST)) == 8_192
    assert PlannedTraversal("budget").round_tokens(RoundSnapshot(0.0, 65_536, 528, COST)) is None
    assert PlannedTraversal(1_000).round_tokens(RoundSnapshot(0.0, 65_536, 528, COST)) == 1_000


@pytest.mark.parametrize(("fixed", "per_token"), [(0.045, 25e-6), (0.004, 100e-6), (0.0005, 1e-6)])
def test_the_cost_of_rounds_is_learned(fixed, per_token):
    learner = RoundCostLearner()
    for tokens in (100, 2_500, 700, 5_000, 40, 1_200) * 8:
        learner.observe(tokens, fixed + per_token * tokens)
    assert learner.cost.fixed_s == pytest.approx(fixed, rel=0.1)
    assert learner.cost.per_token_s == pytest.approx(per_token, rel=0.1)


def test_rounds_of_one_size_keep_the_believed_split():
    learner = RoundCostLearner()
    for _ in range(50):
        learner.observe(100, 0.0045)
    assert learner.cost.balance_tokens == pytest.approx(2_000, rel=0.05)
    assert learner.cost.fixed_s + 100 * learner.cost.per_token_s == pytest.approx(0.0045, rel=0.05)


@pytest.mark.parametrize(("tokens", "seconds"), [(0, 1.0), (10, -1.0), (10, 0.0), (10, 1e6), (10, float("nan"))])
def test_nonsense_teaches_nothing(tokens, seconds):
    learner = RoundCostLearner()
    learner.observe(tokens, seconds)
    assert learner.cost == RoundCost()


# Holds


def start(**changes):
    values = {
        "traffic": 7,
        "wait_s": 0.005,
        "held_s": None,
        "joined": 3,
        "offsets": (0.0012, 0.0024, 0.0036),
        "late": 0,
        "repeated_tokens": 0,
        "dependent_offset": None,
        "cost": COST,
    }
    return StartObservation(**{**values, **changes})


@pytest.mark.parametrize(
    ("changes", "gain_ms"),
    [
        ({}, 45 - 5),
        ({"joined": 0}, -5),
        ({"late": 1}, -5),
        ({"held_s": 0.003}, 45 - 3),
        ({"held_s": 0.005, "joined": 0}, -5),
        ({"held_s": 0.005, "late": 1}, -5),
        ({"dependent_offset": 0.0012, "repeated_tokens": 2_112}, 45 + 52.8 - 1.2),
        ({"dependent_offset": 0.0012, "repeated_tokens": 2_112, "held_s": 0.002}, 45 + 52.8 - 2),
    ],
)
def test_what_a_hold_gains(changes, gain_ms):
    assert gain_of(start(**changes)) * 1e3 == pytest.approx(gain_ms)


def asked(**changes):
    values = {
        "now": 1.0,
        "wait_s": 0.005,
        "oldest_age_s": 0.0,
        "candidates": 1,
        "ready": 0,
        "running": 0,
        "free_rows": 256,
        "token_budget": 16_384,
        "residual_tokens": lambda: 100,
        "traffic": 7,
    }
    return AdmissionSnapshot(**{**values, **changes})


def learned():
    admission = LearnedAdmission()
    admission.observe(start())
    return admission


def test_nothing_is_held_before_a_gain_was_seen_and_only_in_its_class():
    assert LearnedAdmission().decide(asked()) is Release.QUIET
    assert learned().decide(asked()) is None
    assert learned().decide(asked(traffic=8)) is Release.QUIET


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"running": 1}, Release.RUNNING),
        ({"ready": 1}, Release.RUNNING),
        ({"candidates": 256}, Release.ROWS),
        ({"is_complete": lambda: True}, Release.COMPLETE),
        ({"is_dependent": lambda: True}, Release.READY),
        ({"residual_tokens": lambda: 16_384}, Release.TOKENS),
    ],
)
def test_why_a_hold_that_pays_ends(changes, expected):
    assert learned().decide(asked(**changes)) is expected


def test_a_loss_weighs_more_than_a_gain_and_a_loss_by_holding_most():
    admission = learned()
    gain = admission.expected_gain(7)
    admission.observe(start(joined=0))
    assert admission.expected_gain(7) < gain
    for _ in range(3):
        admission.observe(start(held_s=0.005, joined=0))
    assert admission.decide(asked()) is Release.QUIET
    # A prediction alone doesn't bring it back at once.
    admission.observe(start())
    assert admission.decide(asked()) is Release.QUIET


@pytest.mark.parametrize("seed", range(5))
def test_holds_that_lose_become_ever_rarer(seed):
    """Stamps always promise a gain, holding never pays: the number of holds grows as the logarithm of starts."""
    admission, holds = LearnedAdmission(), 0
    for _ in range(4_000 + seed):
        if admission.decide(asked()) is None:
            holds += 1
            admission.observe(start(held_s=0.005, joined=0))
        else:
            admission.observe(start())
    assert holds <= 40


def test_the_number_of_classes_is_bounded():
    admission = LearnedAdmission()
    for traffic in range(1_000):
        admission.observe(start(traffic=traffic))
    assert len(admission._estimates) <= 64


# States inside blocks


def test_a_stop_inside_a_block_is_dearer_than_one_at_its_end():
    # 460 tokens in a block of 528; 400 of them are shared. A round is worth 1,800 tokens, one inside a block 2,700.
    shape = {"prompt_tokens": 460, "stored_anyway": 0}
    assert junctions([(400, 6)], **shape, unit=16) == []
    assert junctions([(400, 7)], **shape, unit=16) == [400]
    assert junctions([(400, 7)], **shape) == []


def test_a_place_is_floored_to_the_unit_and_the_blocks_start_stays_a_candidate():
    shape = {"prompt_tokens": 2_700, "unit": 16}
    assert junctions([(410, 63)], prompt_tokens=460, stored_anyway=0, unit=16) == [400]
    # At 2,500 it would run past the block's end: whole blocks are shared, until the peers are many.
    assert junctions([(2_500, 3)], **shape) == [2_112]
    assert junctions([(2_500, 63)], **shape)[-1] == 2_496


def test_announced_decisions_stop_inside_a_block_together():
    shape = {"prompt_tokens": 2_700, "unit": 16, "unfinished": 32}
    assert junctions([(2_500, 3)], **shape) == [2_112]
    assert junctions([(2_500, 3)], **shape, is_announced=True) == [2_496]


def test_who_started_inside_a_block_stops_at_its_end_for_nothing():
    shape = {"cached_tokens": 400, "prompt_tokens": 1_200, "stored_anyway": 1_056, "unit": 16}
    assert 528 in junctions([(600, 1)], **shape)
