"""Public bug reports as step-by-step tables: what each round must hold, per preset.

The numbers are those of the report list; `stock` is what vLLM 0.29.0 itself does.
"""

from __future__ import annotations

import pytest

ALL = ["stock", "native", "rows", "flex", "radixflow", "radixflow_frag", "planned"]
BARRIERS = ["stock", "native", "rows", "flex"]
DEFERRING = ["radixflow", "radixflow_frag", "planned"]


# Case 1, vLLM #29387: a consumer stops the scan, so an unrelated request behind it waits too.
CASE_1 = {
    **{preset: [{"A": 64}, {"A": 8, "B": 8, "C": 64}] for preset in BARRIERS},
    **{preset: [{"A": 64, "C": 64}, {"A": 8, "B": 8}] for preset in DEFERRING},
}


def add_case_1(bench, tokens):
    shared = tokens("shared", 64)
    bench.add("A", [*shared, *tokens("a", 8)])
    bench.add("B", [*shared, *tokens("b", 8)])
    bench.add("C", tokens("c", 64))


@pytest.mark.parametrize("preset", ALL)
def test_case_1_a_pending_state_stops_nobody_else(make_bench, tokens, preset):
    bench = make_bench(preset, block_size=16)
    add_case_1(bench, tokens)
    assert [bench.step() for _ in range(2)] == CASE_1[preset]
    assert sorted(bench.stepper.finished) == ["A", "B", "C"]
    bench.assert_clean()


# `planned` computes 64 tokens eight times: a round costs more (see test_planned for states that are worth one).
@pytest.mark.parametrize("preset", ["radixflow", "radixflow_frag"])
def test_case_1_a_consumer_never_runs_in_its_producers_round(make_bench, tokens, preset):
    bench = make_bench(preset, block_size=16)
    shared = tokens("shared", 64)
    for name in "ABCDEFGH":
        bench.add(name, [*shared, *tokens(name, 20)])
    # A runs past the junction at 64 to its last whole block, so its state is its own. B finds 64 tokens in the
    # attention cache but no state there, and stores one; the others want that state and wait for it.
    first, second, *_ = bench.stepper.run()
    assert first == {"A": 80, "B": 64}
    assert set(second) == set("ABCDEFGH")
    bench.assert_clean()


# Case 2, vllm-ascend #16916: what is left of the budget is less than a block, and nobody may use it.
ROUNDS_OF_D = {
    **dict.fromkeys([*BARRIERS, "radixflow"], 4),
    "radixflow_frag": 1,
    "planned": 1,
}


@pytest.mark.parametrize("preset", ALL)
def test_case_2_budget_below_a_block_goes_to_who_can_use_it(make_bench, tokens, preset):
    bench = make_bench(preset, block_size=2048, budget=3000)
    bench.add("A", tokens("a", 6000))
    bench.add("B", tokens("b", 6000))
    bench.add("D", tokens("d", 100))
    rounds = bench.stepper.run()
    assert next(index for index, got in enumerate(rounds, 1) if "D" in got) == ROUNDS_OF_D[preset]
    assert sum(sum(got.values()) for got in rounds) == 12_100
    bench.assert_clean()


@pytest.mark.parametrize("preset", ALL)
def test_case_2_small_requests_do_not_starve_a_large_one(make_bench, tokens, preset):
    bench = make_bench(preset, block_size=2048, budget=3000)
    bench.add("A", tokens("a", 6000))
    bench.add("B", tokens("b", 6000))
    seen = {}
    for number in range(40):
        bench.add(f"D{number}", tokens(f"d{number}", 100))
        for name in bench.step():
            seen.setdefault(name, number)
    assert seen["A"] == 0
    assert seen["B"] <= 4
    assert {"A", "B"} <= set(bench.stepper.finished)


# Case 3, vLLM #31731, #33499: blocks ran out. That is no pending state: the order stays, or the head starves.
@pytest.mark.parametrize("preset", ALL)
def test_case_3_exhaustion_keeps_the_order(make_bench, tokens, preset):
    # R holds most of the pool; H needs what R gives back; L1 and L2 would fit at once.
    bench = make_bench(preset, block_size=16, num_blocks=64)
    bench.add("R", tokens("r", 400), max_tokens=4)
    bench.step()
    bench.add("H", tokens("h", 500))
    bench.add("L1", tokens("l1", 20))
    bench.add("L2", tokens("l2", 20))
    order = [name for got in bench.stepper.run()[1:] for name in got if name != "R"]
    assert order[0] == "H"
    assert sorted(set(order)) == ["H", "L1", "L2"]
    if preset not in ("stock", "native"):
        assert bench.totals.get("deferrals.pending", 0) == 0
        assert bench.totals["barriers.allocation"] >= 1
    bench.assert_clean()


# Case 7, vLLM #52969, vllm-omni #5721: an aborted request that is still queued somewhere kills the engine.
@pytest.mark.parametrize("preset", ["rows", "flex", "radixflow", "radixflow_frag"])
def test_case_7_abort_a_held_request(make_bench, tokens, preset):
    bench = make_bench(preset, block_size=16, settings={"wait_ms": 5})
    bench.add("A", tokens("a", 48))
    bench.add("B", tokens("b", 48))
    assert bench.step() == {}
    bench.stepper.abort("A")
    bench.clock.now += 0.006
    assert bench.step() == {"B": 48}
    bench.assert_clean()


@pytest.mark.parametrize("preset", ["rows", "flex", "radixflow", "radixflow_frag"])
def test_case_7_abort_the_only_held_request(make_bench, tokens, preset):
    bench = make_bench(preset, block_size=16, settings={"wait_ms": 5})
    bench.add("A", tokens("a", 48))
    assert bench.step() == {}
    bench.stepper.abort("A")
    assert bench.step() == {}
    bench.assert_clean()
    # The next request's hold is its own: it starts from its own arrival.
    bench.clock.now += 1.0
    bench.add("B", tokens("b", 48))
    assert bench.step() == {}
    bench.clock.now += 0.005
    assert bench.step() == {"B": 48}
    assert bench.totals["holds.abandoned"] == 1
    assert bench.totals["holds.deadline"] == 1
    bench.assert_clean()


@pytest.mark.parametrize("preset", DEFERRING)
def test_case_7_abort_a_deferred_request(make_bench, tokens, preset):
    bench = make_bench(preset, block_size=16)
    shared = tokens("shared", 64)
    bench.add("A", shared)
    bench.add("B", [*shared, *tokens("b", 16)])
    assert bench.step() == {"A": 64}
    assert bench.totals["deferrals.promise" if preset == "planned" else "deferrals.pending"] == 1
    bench.stepper.abort("B")
    assert bench.step() == {}
    bench.assert_clean()


@pytest.mark.parametrize("preset", DEFERRING)
def test_case_7_abort_a_deferred_request_inside_its_round(make_bench, tokens, preset):
    bench = make_bench(preset, block_size=16)
    shared = tokens("shared", 64)
    bench.add("A", shared)
    bench.add("B", [*shared, *tokens("b", 16)])
    output = bench.stepper.schedule()
    bench.stepper.abort("B")
    bench.stepper.complete(output)
    bench.assert_clean()


@pytest.mark.parametrize("preset", ALL)
def test_case_7_abort_a_released_request(make_bench, tokens, preset):
    options = {} if preset == "stock" else {"settings": {"wait_ms": 5}}
    bench = make_bench(preset, block_size=16, **options)
    bench.add("A", tokens("a", 48), max_tokens=8)
    bench.clock.now += 0.006
    assert bench.step() == {"A": 48}
    bench.stepper.abort("A")
    bench.step()
    bench.assert_clean()


@pytest.mark.parametrize("preset", ALL)
def test_case_7_abort_a_producer_in_its_own_round(make_bench, tokens, preset):
    bench = make_bench(preset, block_size=16)
    shared = tokens("shared", 64)
    bench.add("A", [*shared, *tokens("a", 16)])
    bench.add("B", [*shared, *tokens("b", 16)])
    output = bench.stepper.schedule()
    bench.stepper.abort("A")
    bench.stepper.complete(output)
    bench.stepper.run()
    assert bench.stepper.finished == ["B"]
    bench.assert_clean()


# Case 24, isolation by cache_salt: one prefix under two salts is two prefixes.
@pytest.mark.parametrize("preset", ALL)
def test_case_24_nothing_crosses_a_salt(make_bench, tokens, preset):
    bench = make_bench(preset, block_size=16)
    shared = tokens("shared", 64)
    bench.add("A", shared, salt="x")
    bench.add("B", shared, salt="y")
    bench.add("C", [*shared, *tokens("c", 16)], salt="x")
    assert bench.step() == {"A": 64, "B": 64}
    assert bench.step() == {"C": 16}
    bench.assert_clean()


@pytest.mark.parametrize("preset", ["flex", "radixflow", "radixflow_frag"])
def test_case_24_the_index_knows_no_peer_across_a_salt(make_bench, tokens, preset):
    bench = make_bench(preset, block_size=16, settings={"wait_ms": 5})
    shared = tokens("shared", 64)
    bench.add("A", shared, salt="x")
    bench.add("B", shared, salt="y")
    bench.add("C", shared, salt="x")
    book = bench.scheduler.controller.book
    peers = {name: book.index.shared_with_peers(entry.handle) for name, entry in book.entries.items()}
    assert peers == {"A": [(64, 1)], "B": [], "C": [(64, 1)]}


# Case 13, vLLM #43724: the class must match the engine.
def test_case_13_the_async_variant_is_chosen(make_bench, tokens):
    from vllm.v1.core.sched.async_scheduler import AsyncScheduler

    bench = make_bench("radixflow", async_scheduling=True)
    assert isinstance(bench.scheduler, AsyncScheduler)
    assert not isinstance(make_bench("radixflow").scheduler, AsyncScheduler)


@pytest.mark.parametrize("preset", ALL)
def test_case_13_an_async_engine_runs_ahead_of_its_outputs(make_bench, tokens, preset):
    """Two rounds in flight: the second decodes although the first is not answered yet."""
    from vllm.v1.core.sched.async_scheduler import AsyncScheduler

    if preset == "stock":
        from radixflow.simulate.rig import build_scheduler, vllm_config
        from radixflow.simulate.stepper import Stepper

        scheduler = build_scheduler(AsyncScheduler, vllm_config(async_scheduling=True))
        bench = make_bench("stock")
        bench.scheduler, bench.stepper = scheduler, Stepper(scheduler)
    else:
        bench = make_bench(preset, async_scheduling=True)
    bench.add("A", tokens("a", 48), max_tokens=3)
    first = bench.stepper.schedule()
    second = bench.stepper.schedule()
    assert dict(first.num_scheduled_tokens) == {"A": 48}
    assert dict(second.num_scheduled_tokens) == {"A": 1}


@pytest.mark.parametrize(("variant", "wants_async"), [("SyncVariant", True), ("AsyncVariant", False)])
def test_case_13_a_mismatch_is_refused_loudly(variant, wants_async):
    from radixflow.engine import scheduler as module
    from radixflow.errors import UnsupportedError
    from radixflow.simulate.rig import build_scheduler, vllm_config

    config = vllm_config(async_scheduling=wants_async, settings={"policy": "radixflow"})
    with pytest.raises(UnsupportedError, match=r"Name radixflow\.Scheduler, which picks the variant"):
        build_scheduler(getattr(module, variant), config)


# Case 26, vllm-spyre #376, vllm-ascend #10531: another vLLM is refused, with what was found and what to do.
@pytest.mark.parametrize("version", ["0.28.0", "0.30.0", "0.31.0"])
def test_case_26_another_version_is_refused_before_the_first_request(make_bench, monkeypatch, version):
    import vllm

    from radixflow.engine.scheduler import rewritten
    from radixflow.errors import UnsupportedError

    rewritten.cache_clear()
    monkeypatch.setattr(vllm, "__version__", version)
    with pytest.raises(UnsupportedError, match=rf"{version}.*6361fde74c84.*pip install vllm==0\.29\.0"):
        make_bench("radixflow")
    rewritten.cache_clear()


def test_case_26_or_runs_as_vllm_does_when_told_to(make_bench, tokens, monkeypatch, logged):
    import vllm

    from radixflow.engine.scheduler import rewritten

    rewritten.cache_clear()
    monkeypatch.setattr(vllm, "__version__", "0.30.0")
    bench = make_bench("radixflow", block_size=16, settings={"on_unsupported": "native"})
    rewritten.cache_clear()
    add_case_1(bench, tokens)
    assert [bench.step() for _ in range(2)] == CASE_1["stock"]
    (warning,) = logged("WARNING")
    assert "running as vLLM does" in warning
    assert "0.30.0" in warning
