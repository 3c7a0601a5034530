"""Public bug reports about progress, waiting and small budgets: what each preset must give (see test_public_cases)."""

from __future__ import annotations

import pytest
from vllm.v1.request import RequestStatus

from radixflow.policies import PRESETS

ALL = ["stock", *PRESETS]
HOLDING = ["rows", "flex", "radixflow", "radixflow_frag"]
RUNNING_IS_NOT_HELD = ["flex", "radixflow", "radixflow_frag", "planned"]


def computed(bench, names):
    return {name: sum(round_.get(name, 0) for round_ in bench.stepper.rounds) for name in names}


# Case 4, vLLM #39734: a prompt that the pool can never hold.
@pytest.mark.parametrize("preset", ALL)
def test_case_4_who_never_fits_is_neither_held_nor_deferred_for_ever(make_bench, tokens, preset):
    bench = make_bench(preset, block_size=16, num_blocks=10)
    bench.add("X", tokens("x", 400))
    bench.add("Y", tokens("y", 20))
    assert [bench.step() for _ in range(50)] == [{}] * 50
    if preset != "stock":
        assert not [name for name in bench.totals if name.startswith("deferrals")]
    bench.stepper.abort("X")
    bench.stepper.run()
    bench.assert_clean()


# Case 8, vLLM #53130, #54348, #57841: whoever heads the skipped queue is blocked, and nothing runs.
@pytest.mark.parametrize("preset", ALL)
@pytest.mark.parametrize("queue", ["fcfs", "priority"])
def test_case_8_a_blocked_head_stops_nobody(make_bench, tokens, preset, queue):
    options = {} if preset == "stock" else {"settings": {"wait_ms": 5}}
    bench = make_bench(preset, block_size=16, queue=queue, **options)
    bench.add("blocked", tokens("blocked", 40))
    request = bench.scheduler.requests["blocked"]
    bench.scheduler.waiting.remove_requests([request])
    request.status = RequestStatus.WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR
    bench.scheduler.skipped_waiting.add_request(request)
    shared = tokens("shared", 64)
    for name in "ABC":
        bench.add(name, [*shared, *tokens(name, 20)])
    for _ in range(20):
        bench.step()
        bench.clock.now += 0.001
    assert sorted(bench.stepper.finished) == ["A", "B", "C"]
    # Nothing runs any more: once its grammar is there it goes, within the bound of a hold.
    request.status = RequestStatus.WAITING
    for _ in range(8):
        bench.step()
        bench.clock.now += 0.001
    assert bench.stepper.finished[-1] == "blocked"
    bench.assert_clean()


# Case 14, vLLM #45238, #37898: who is the first to start from the siblings' state.
FIRST_HIT = {**dict.fromkeys(PRESETS, 3), "stock": 3, "planned": 2}


@pytest.mark.parametrize("preset", ALL)
@pytest.mark.parametrize(("shared", "own"), [(1_600, 600), (1_500, 700)])
def test_case_14_which_sighting_hits(make_bench, tokens, preset, shared, own):
    bench = make_bench(preset, block_size=528)
    for name in "ABC":
        bench.add(name, [*tokens("s", shared), *tokens(name, own)])
    bench.stepper.run()
    given = computed(bench, "ABC")
    hits = [number for number, name in enumerate("ABC", 1) if given[name] < shared + own]
    assert hits[0] == FIRST_HIT[preset]
    bench.assert_clean()


# Case 15, vLLM #34445, #40707, #45414: a block is larger than a round.
@pytest.mark.parametrize("preset", ALL)
@pytest.mark.parametrize("siblings", [0, 3])
def test_case_15_a_block_larger_than_the_budget(make_bench, tokens, preset, siblings):
    bench = make_bench(preset, block_size=2048, budget=1024, num_blocks=64)
    bench.add("A", tokens("a", 6000))
    for number in range(siblings):
        bench.add(f"S{number}", [*tokens("a", 5000), *tokens(str(number), 1000)])
    rounds = bench.stepper.run(80)
    if not siblings:
        assert [round_["A"] for round_ in rounds] == [1024] * 5 + [880]
    assert all(sum(round_.values()) <= 1024 for round_ in rounds)
    assert len(rounds) <= 6 * (1 + siblings) + 2
    bench.assert_clean()


# Case 16, vLLM #52520: prompts about as large as the pool, some of them deferred.
@pytest.mark.parametrize("preset", ALL)
def test_case_16_prompts_of_the_pools_size_are_prefilled_boundedly_often(make_bench, tokens, preset):
    bench = make_bench(preset, block_size=16, num_blocks=24, budget=64)
    sizes = {}
    for name in "ABCD":
        prompt = [*tokens("s", 160), *tokens(name, 100)]
        sizes[name] = len(prompt)
        bench.add(name, prompt, max_tokens=4)
    requests = list(bench.scheduler.requests.values())
    bench.stepper.run(400)
    assert sorted(bench.stepper.finished) == list("ABCD")
    assert max(request.num_preemptions for request in requests) <= 1
    assert all(tokens_ <= 2 * sizes[name] + 8 for name, tokens_ in computed(bench, "ABCD").items())
    bench.assert_clean()


# Case 17, vLLM #12284, #28827: the cache is reset while somebody waits.
@pytest.mark.parametrize("preset", ["radixflow", "radixflow_frag", "planned"])
def test_case_17_a_reset_while_siblings_are_deferred(make_bench, tokens, preset):
    bench = make_bench(preset, block_size=16)
    shared = tokens("s", 64)
    bench.add("A", [*shared, *tokens("a", 8)], max_tokens=8)
    bench.add("B", [*shared, *tokens("b", 8)], max_tokens=8)
    assert "B" not in bench.step()
    # Somebody runs, so vLLM refuses; with its requests preempted it doesn't.
    assert not bench.scheduler.reset_prefix_cache()
    assert bench.scheduler.reset_prefix_cache(reset_running_requests=True)
    bench.stepper.run(60)
    assert sorted(bench.stepper.finished) == ["A", "B"]
    # A was computed twice, as its state is gone; nobody started from what was in the pool before.
    assert computed(bench, "A")["A"] >= 72 + 64
    bench.assert_clean()


@pytest.mark.parametrize("preset", HOLDING)
def test_case_17_a_reset_while_somebody_is_held(make_bench, tokens, preset):
    bench = make_bench(preset, block_size=16, settings={"wait_ms": 5})
    shared = tokens("s", 64)
    bench.add("seed", shared)
    bench.clock.now += 0.006
    bench.stepper.run()
    bench.add("A", [*shared, *tokens("a", 8)])
    assert bench.step() == {}
    assert bench.scheduler.reset_prefix_cache()
    bench.clock.now += 0.006
    assert sum(round_.get("A", 0) for round_ in bench.stepper.run()) == 72
    bench.assert_clean()


# Case 18, vLLM #40696: less than a block is shared.
@pytest.mark.parametrize("preset", ALL)
def test_case_18_below_one_block_all_run_at_once_and_the_log_says_why(make_bench, tokens, preset, logged):
    bench = make_bench(preset, block_size=528)
    for name in "ABCD":
        bench.add(name, [*tokens("s", 80), *tokens(name, 30)])
    assert bench.step() == dict.fromkeys("ABCD", 110)
    if preset not in ("stock", "native"):
        assert any("528" in message for message in logged("INFO"))
    bench.assert_clean()


# Case 20, TensorRT-LLM #19090: the timer of a hold.
@pytest.mark.parametrize("preset", RUNNING_IS_NOT_HELD)
def test_case_20_nothing_is_held_while_something_runs(make_bench, tokens, preset):
    bench = make_bench(preset, block_size=16, settings={"wait_ms": 100})
    bench.add("R", tokens("r", 40), max_tokens=30)
    while not bench.step():
        bench.clock.now += 0.001
    for number in range(10):
        bench.add(f"N{number}", tokens(f"n{number}", 40))
        assert f"N{number}" in bench.step()
    bench.stepper.run()
    bench.assert_clean()


@pytest.mark.parametrize("preset", HOLDING)
@pytest.mark.parametrize("wait_ms", [1, 5, 100])
def test_case_20_a_hold_ends_at_its_bound_after_a_bounded_number_of_polls(make_bench, tokens, preset, wait_ms):
    bench = make_bench(preset, block_size=16, settings={"wait_ms": wait_ms})
    bench.add("A", tokens("a", 40))
    polls = 0
    while not bench.step():
        polls += 1
        bench.clock.now += 0.001
    assert polls == wait_ms
    bench.stepper.run()
    bench.assert_clean()


def test_case_20_a_learned_hold_ends_at_its_bound_as_well(make_bench, tokens):
    bench = make_bench("planned", block_size=528, settings={"wait_ms": 5})
    stamp = 1_000.0

    # The lesson: three siblings came while the first one's round ran, and would have shared it.
    bench.add("first", tokens("first", 40), arrival_time=stamp)
    output = bench.stepper.schedule()
    assert dict(output.num_scheduled_tokens) == {"first": 40}
    for number in range(3):
        bench.add(str(number), tokens(str(number), 40), arrival_time=stamp + 0.001 * (1 + number))
    bench.clock.now += 0.045
    bench.stepper.complete(output)
    bench.stepper.run()
    bench.clock.now += 1.0
    bench.add("last", tokens("last", 40), arrival_time=stamp + bench.clock.now)
    polls = 0
    while not bench.step():
        polls += 1
        bench.clock.now += 0.001
    assert polls == 5
    assert bench.totals["holds.deadline"] == 1
    bench.stepper.run()
    bench.assert_clean()


# Case 21, SGLang #31954: one cold request beside a hot stream.
@pytest.mark.parametrize("preset", ALL)
@pytest.mark.parametrize("queue", ["fcfs", "priority"])
def test_case_21_a_cold_request_is_not_starved_by_a_hot_stream(make_bench, tokens, preset, queue):
    bench = make_bench(preset, block_size=16, max_num_seqs=4, budget=256, queue=queue)
    hot = tokens("hot", 64)
    for number in range(4):
        bench.add(f"before{number}", [*hot, *tokens(f"before{number}", 20)])
    bench.add("cold", tokens("cold", 300))
    waited = 0
    while "cold" not in bench.stepper.finished:
        for copy in range(3):
            bench.add(f"hot{waited}.{copy}", [*hot, *tokens(f"{waited}.{copy}", 20)])
        bench.step()
        waited += 1
        assert waited <= 12
    bench.stepper.run()
    bench.assert_clean()
