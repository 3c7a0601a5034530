"""Public bug reports about look-ups, async engines and what repeats: what each preset must give (see docs/cases.md)."""

from __future__ import annotations

import pytest

from radixflow.policies import PRESETS

ALL = ["stock", *PRESETS]
OURS = [name for name in PRESETS if name != "native"]


# Case 4, vLLM #39734: the head never fits. vLLM waits for ever; ours does the same, and says so once.
@pytest.mark.parametrize("preset", ALL)
def test_case_4_one_warning_has_the_numbers(make_bench, tokens, preset, logged):
    bench = make_bench(preset, block_size=16, num_blocks=10)
    for name in ("X", "X2"):
        bench.add(name, tokens(name, 400))
    bench.add("Y", tokens("y", 20))
    assert [bench.step() for _ in range(20)] == [{}] * 20
    warnings = [message for message in logged("WARNING") if "never" in message]
    if preset in OURS:
        assert len(warnings) == 1
        assert "request X needs 26 blocks for its prompt of 400 tokens, and the pool has 9" in warnings[0]
        assert bench.totals["oversized"] == 2
    else:
        assert not warnings


@pytest.mark.parametrize("length", [1, 60, 100])
def test_case_4_who_fits_is_not_warned_about(make_bench, tokens, logged, length):
    bench = make_bench("planned", block_size=16, num_blocks=10)
    bench.add("A", tokens("a", length))
    bench.stepper.run()
    assert not logged("WARNING")


# Case 5, vLLM #43736: what retries cost. Stock counts the prefix once, and looks it up at every retry.
def counted(bench, monkeypatch):
    manager = bench.scheduler.kv_cache_manager
    seen = {"look-ups": 0, "records": 0}

    def count(name, what, only):
        real = getattr(manager, name)

        def wrapped(request, *arguments):
            if request.request_id == only:
                seen[what] += 1
            return real(request, *arguments)

        monkeypatch.setattr(manager, name, wrapped)

    count("get_computed_blocks", "look-ups", "H")
    count("record_prefix_cache_stats", "records", "H")
    return seen


@pytest.mark.parametrize("preset", ALL)
def test_case_5_a_retried_request_is_counted_once(make_bench, tokens, monkeypatch, preset):
    bench = make_bench(preset, log_stats=True, block_size=16, num_blocks=40)
    bench.add("R", tokens("r", 400), max_tokens=60)
    bench.step()
    seen = counted(bench, monkeypatch)
    bench.add("H", tokens("h", 320))
    for _ in range(58):
        assert "H" not in bench.step()
    bench.stepper.run()
    assert seen["records"] == 1
    # As many as stock: it waits for blocks, which is no deferral.
    assert 58 <= seen["look-ups"] <= 62
    bench.assert_clean()


def test_case_5_a_known_consumer_costs_no_look_up(make_bench, tokens, monkeypatch):
    seen = {}
    for preset in ("radixflow", "planned"):
        bench = make_bench(preset, log_stats=True, block_size=16, budget=32)
        bench.scheduler.scheduler_config.long_prefill_token_threshold = 16
        shared = tokens("s", 160)
        bench.add("A", [*shared, *tokens("a", 40)])
        bench.step()
        counts = counted(bench, monkeypatch)
        bench.add("H", [*shared, *tokens("h", 40)])
        waited = 0
        while "H" not in bench.step():
            waited += 1
        seen[preset] = {**counts, "waited": waited}
        bench.stepper.run()
        bench.assert_clean()
    assert seen["planned"]["records"] == 1
    # It waits for a promise, round after round; what costs a look-up is its start, and a promise that ended.
    assert seen["planned"]["waited"] > 6
    assert seen["planned"]["look-ups"] <= 3


# Case 7 for planned, which holds only what it learned to hold: abort while its hold lasts.
def test_case_7_abort_a_request_in_a_learned_hold(make_bench, tokens):
    bench = make_bench("planned", block_size=528, settings={"wait_ms": 5})
    stamp = 1_000.0
    bench.add("first", tokens("first", 40), arrival_time=stamp)
    output = bench.stepper.schedule()
    for number in range(3):
        bench.add(str(number), tokens(str(number), 40), arrival_time=stamp + 0.001 * (1 + number))
    bench.clock.now += 0.045
    bench.stepper.complete(output)
    bench.stepper.run()
    bench.clock.now += 1.0
    bench.add("held", tokens("held", 40), arrival_time=stamp + bench.clock.now)
    assert bench.step() == {}
    bench.stepper.abort("held")
    assert bench.step() == {}
    assert bench.totals["holds.abandoned"] == 1
    bench.assert_clean()


# Case 12, vLLM #45257: one row, two rounds in flight. A is finished but resident when B could start: one step late.
@pytest.mark.parametrize("preset", list(PRESETS))
def test_case_12_one_row_in_an_async_engine_goes_on(make_bench, tokens, preset):
    bench = make_bench(preset, block_size=16, max_num_seqs=1, async_scheduling=True)
    for name in "ABC":
        bench.add(name, tokens(name, 48), max_tokens=3)
    flying, calls = [], 0
    while bench.scheduler.has_unfinished_requests() or flying:
        output = bench.stepper.schedule()
        flying.append(output)
        if len(flying) == 2:
            bench.stepper.complete(flying.pop(0))
        calls += 1
        assert calls < 60, "nothing moves"
        if not bench.scheduler.has_unfinished_requests():
            while flying:
                bench.stepper.complete(flying.pop(0))
    assert bench.stepper.finished == ["A", "B", "C"]
    # Three rounds each, and one or two in which whoever has ended still has the row.
    assert calls <= 3 * 3 + 3 * 2
    bench.assert_clean()


# Case 17, vLLM #12284, #28827: with somebody running vLLM refuses a reset, and preempts him when told to.
@pytest.mark.parametrize("preset", ALL)
def test_case_17_a_reset_beside_running_requests(make_bench, tokens, preset):
    bench = make_bench(preset, block_size=16)
    shared = tokens("s", 64)
    for name in "ABC":
        bench.add(name, [*shared, *tokens(name, 20)], max_tokens=6)
    bench.step()
    assert not bench.scheduler.reset_prefix_cache()
    assert bench.scheduler.reset_prefix_cache(reset_running_requests=True)
    pool = bench.scheduler.kv_cache_manager.block_pool
    assert pool.get_num_free_blocks() == pool.num_gpu_blocks - 1
    if preset == "planned":
        assert bench.index_size == 3
    bench.stepper.run(100)
    assert sorted(bench.stepper.finished) == ["A", "B", "C"]
    bench.assert_clean()


# Case 23, vLLM #9567, #40896, #57016: who shared a round is on record, and the same arrivals give the same rounds.
@pytest.mark.parametrize("preset", list(PRESETS))
def test_case_23_the_same_arrivals_give_the_same_rounds_and_they_are_recorded(make_bench, tokens, preset):
    rounds = []
    for _ in range(2):
        bench = make_bench(preset, block_size=16, settings={"ring_size": 100, "wait_ms": 5})
        for number in range(12):
            bench.add(f"{number}", [*tokens(f"s{number % 3}", 48), *tokens(f"{number}", 20)])
            bench.clock.now += 0.002
            if number % 4 == 3:
                bench.step()
        while bench.scheduler.has_unfinished_requests():
            bench.step()
            bench.clock.now += 0.001
        records = bench.scheduler.recorder.ring.records
        assert [record.rows for record in records] == [len(got) for got in bench.stepper.rounds if got]
        rounds.append(bench.stepper.rounds)
    assert rounds[0] == rounds[1]
