"""Planned junctions, promises and hints as tables: what each round computes, and what nobody looks up."""

from __future__ import annotations

import pytest

from radixflow.policies import RoundCost

HOSTILE = [
    {"radixflow_group": 7.5, "radixflow_group_size": "many", "radixflow_shared_tokens": -1},
    {"radixflow_group": "g" * 10_000, "radixflow_group_size": 10**9, "radixflow_shared_tokens": 10**9},
    {"radixflow_group": None, "radixflow_group_size": True, "radixflow_shared_tokens": float("nan")},
    {"radixflow_group": ["a"], "radixflow_group_size": {"n": 1}, "radixflow_shared_tokens": []},
]


def cheap_rounds(bench) -> None:
    """Make rounds cheap and tokens dear, so that every junction is worth a round."""
    # The clock of these tests stands still, so nothing else is learned.
    bench.scheduler.controller.cost.cost = RoundCost(fixed_s=1e-6, per_token_s=1e-3)


@pytest.fixture
def planned(make_bench):
    def build(**options):
        settings = {"round_tokens": "budget", **options.pop("settings", {})}
        bench = make_bench("planned", settings=settings, **{"block_size": 16, "retention": 0, **options})
        cheap_rounds(bench)
        return bench

    return build


def count_lookups(bench) -> list[str]:
    asked: list[str] = []
    manager = bench.scheduler.kv_cache_manager
    original = manager.get_computed_blocks

    def counted(request):
        asked.append(request.request_id)
        return original(request)

    manager.get_computed_blocks = counted
    return asked


def test_the_producer_stops_where_its_siblings_part_and_they_start_there(planned, tokens):
    bench = planned()
    for name in "ABCD":
        bench.add(name, [*tokens("s", 64), *tokens(name, 40)], max_tokens=2)
    assert bench.step() == {"A": 64}
    assert bench.step() == {"A": 32, "B": 32, "C": 32, "D": 32}
    bench.stepper.run()
    bench.assert_clean()


def test_a_prompt_that_its_siblings_continue_keeps_its_last_state(planned, tokens):
    bench = planned()
    bench.add("A", tokens("s", 64), max_tokens=2)
    for name in "BC":
        bench.add(name, [*tokens("s", 64), *tokens(name, 20)], max_tokens=2)
    assert bench.step() == {"A": 64}
    second = bench.step()
    assert (second["B"], second["C"]) == (16, 16)
    bench.stepper.run()
    bench.assert_clean()


def test_nested_sharing_takes_a_junction_a_level(planned, tokens):
    bench = planned()
    for question in "xy":
        for option in "12":
            prompt = [*tokens("state", 64), *tokens(question, 32), *tokens(question + option, 24)]
            bench.add(question + option, prompt, max_tokens=2)
    assert bench.step() == {"x1": 64}
    assert bench.step() == {"x1": 32, "y1": 32}
    assert bench.step() == {"x1": 16, "x2": 16, "y1": 16, "y2": 16}
    bench.stepper.run()
    bench.assert_clean()


def test_known_pending_siblings_cost_no_look_up(planned, tokens):
    bench = planned()
    asked = count_lookups(bench)
    for number in range(64):
        bench.add(str(number), [*tokens("s", 64), *tokens(str(number), 20)])
    bench.step()
    assert asked == ["0"]
    assert bench.totals["deferrals.promise"] == 63
    bench.stepper.run()
    assert sorted(asked) == sorted(str(number) for number in range(64))
    bench.assert_clean()


def test_a_consumer_waits_for_the_junction_not_for_an_intermediate_chunk(planned, tokens):
    bench = planned(budget=48)
    for name in "AB":
        bench.add(name, [*tokens("s", 128), *tokens(name, 20)], max_tokens=2)
    for _ in range(2):
        assert bench.step() == {"A": 48}
    assert bench.step() == {"A": 32}
    assert bench.step()["B"] >= 16
    assert sum(round_.get("B", 0) for round_ in bench.stepper.rounds) <= 48
    bench.stepper.run()
    bench.assert_clean()


@pytest.mark.parametrize("how", ["abort", "preempt", "reset"])
def test_a_broken_promise_sets_the_consumers_free(planned, tokens, how):
    bench = planned(budget=48)
    for name in "ABC":
        bench.add(name, [*tokens("s", 128), *tokens(name, 20)])
    bench.step()
    if how == "abort":
        bench.stepper.abort("A")
    elif how == "preempt":
        request = bench.scheduler.running.pop()
        bench.scheduler._preempt_request(request, 0.0)
    else:
        bench.scheduler.reset_prefix_cache(reset_running_requests=True)
    bench.stepper.run(200)
    bench.assert_clean()
    assert len(bench.scheduler.controller.planner.promises) == 0


def test_promises_and_plans_do_not_cross_a_salt(planned, tokens):
    bench = planned()
    for name, salt in (("A", "x"), ("B", "y"), ("C", "x")):
        bench.add(name, [*tokens("s", 64), *tokens(name, 40)], salt=salt)
    assert set(bench.step()) == {"A", "B"}
    bench.stepper.run()
    bench.assert_clean()


def test_a_promise_is_bounded(planned, tokens):
    bench = planned(budget=24, settings={"max_bypass": 3})
    for name in "AB":
        bench.add(name, [*tokens("s", 256), *tokens(name, 20)])
    for _ in range(6):
        bench.step()
    assert bench.totals["deferrals.promise"] == 3
    assert bench.totals["barriers.bound"] >= 1
    bench.stepper.run()
    bench.assert_clean()


@pytest.mark.parametrize("budget", [7, 16, 40, 8192])
@pytest.mark.parametrize("family", ["hybrid", "recurrent", "attention"])
def test_progress_is_monotone_whatever_the_budget(make_bench, tokens, budget, family):
    bench = make_bench("planned", family=family, block_size=16, budget=budget)
    for name in "ABCDE":
        bench.add(name, [*tokens("s", 70), *tokens(name, 25)])
    bench.stepper.run(400)
    bench.assert_clean()


def test_a_small_pool_with_deferrals_prefills_again_boundedly(make_bench, tokens):
    stock, bench = (make_bench(arm, block_size=16, num_blocks=40) for arm in ("stock", "planned"))
    cheap_rounds(bench)
    for each in (stock, bench):
        for name in "ABCDEF":
            each.add(name, [*tokens("s", 160), *tokens(name, 60)])
        each.stepper.run(400)
        each.assert_clean()
    computed = [sum(sum(round_.values()) for round_ in each.stepper.rounds) for each in (stock, bench)]
    assert computed[1] <= computed[0]


@pytest.mark.parametrize(("shared", "own"), [(1_600, 600), (1_500, 700)])
def test_the_second_of_two_siblings_hits(make_bench, tokens, shared, own):
    bench = make_bench("planned", block_size=528)
    for name in "ABC":
        bench.add(name, [*tokens("s", shared), *tokens(name, own)])
    bench.stepper.run()
    stored = shared // 528 * 528
    given = {name: sum(round_.get(name, 0) for round_ in bench.stepper.rounds) for name in "ABC"}
    assert given == {"A": shared + own, "B": shared + own - stored, "C": shared + own - stored}
    bench.assert_clean()


def test_prompts_below_one_block_run_as_stocks_do(make_bench, tokens):
    for arm in ("stock", "planned"):
        bench = make_bench(arm, block_size=528)
        for name in "ABC":
            bench.add(name, [*tokens("s", 80), *tokens(name, 30)])
        assert set(bench.step()) == set("ABC")


def test_a_cold_request_is_not_starved_by_a_hot_stream(make_bench, tokens):
    bench = make_bench("planned", block_size=16, max_num_seqs=4, budget=256)
    bench.add("cold", tokens("cold", 300))
    for number in range(60):
        bench.add(f"hot{number}", [*tokens("s", 64), *tokens(str(number), 20)])
        bench.step()
        if "cold" in bench.stepper.finished:
            break
    assert number <= 8
    bench.stepper.run()
    bench.assert_clean()


# Hints


@pytest.mark.parametrize("pooling", [False, True])
def test_an_announced_sibling_makes_a_junction_before_it_arrives(planned, tokens, pooling):
    bench = planned()
    hints = {"radixflow_group": "g", "radixflow_group_size": 4, "radixflow_shared_tokens": 70}
    bench.add("A", [*tokens("s", 70), *tokens("a", 60)], extra_args=hints, pooling=pooling)
    assert bench.step() == {"A": 64}
    bench.stepper.run()
    bench.assert_clean()
    assert len(bench.scheduler.controller.book.groups) == 0


@pytest.mark.parametrize("hints", HOSTILE)
def test_hostile_hints_change_nothing_and_are_counted(make_bench, tokens, hints):
    plain, hinted = (make_bench("planned", block_size=16, settings={"wait_ms": 5}) for _ in range(2))
    for bench, extra in ((plain, None), (hinted, hints)):
        for name in "ABC":
            bench.add(name, [*tokens("s", 70), *tokens(name, 60)], extra_args=extra)
        bench.stepper.run()
        bench.assert_clean()
    assert hinted.stepper.rounds == plain.stepper.rounds
    assert hinted.totals["hints.ignored"] == 9
    assert len(hinted.scheduler.controller.book.groups) == 0


def test_a_wrong_size_starts_and_lengthens_no_hold(make_bench, tokens):
    bench = make_bench("planned", block_size=16, settings={"wait_ms": 5})
    bench.add("A", tokens("a", 60), extra_args={"radixflow_group": "g", "radixflow_group_size": 4096})
    assert bench.step() != {}
    bench.stepper.run()
    bench.assert_clean()
