"""A look-up that only RadixFlow makes is seen by nobody: not in vLLM's events, not in its statistics."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize("events", [True, False])
def test_a_look_up_during_a_hold_is_made_only_where_it_is_silent(make_bench, tokens, monkeypatch, events):
    """With events on, vLLM's look-up may publish one: whoever follows the cache would see hits that never were."""
    bench = make_bench("flex", block_size=16, budget=64, settings={"wait_ms": 5})
    shared = tokens("s", 64)
    bench.add("seed", shared)
    bench.clock.now += 0.006
    bench.stepper.run()
    manager = bench.scheduler.kv_cache_manager
    monkeypatch.setattr(manager, "enable_kv_cache_events", events)
    looked_up, real = [], manager.get_computed_blocks

    def noted(request):
        looked_up.append(request.request_id)
        return real(request)

    monkeypatch.setattr(manager, "get_computed_blocks", noted)
    bench.add("A", [*shared, *tokens("a", 8)])
    admission = bench.scheduler.controller.admission
    entry = bench.scheduler.controller.book.entries["A"]
    request = bench.scheduler.requests["A"]
    assert admission._cached_tokens(request, entry) == (0 if events else 64)
    assert looked_up == ([] if events else ["A"])
