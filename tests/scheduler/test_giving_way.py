"""Who is passed over, cut short or promised to, at the edges of what vLLM allows: adapters, unread caches, grammars."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from vllm.lora.request import LoRARequest
from vllm.sampling_params import SamplingParams, StructuredOutputsParams
from vllm.utils.hashing import sha256
from vllm.v1.core.kv_cache_utils import get_request_block_hasher
from vllm.v1.request import Request

from radixflow.policies import RoundCost
from radixflow.simulate.rig import make_request

BLOCK = 16


@pytest.fixture
def planned(make_bench):
    def build(**options):
        bench = make_bench(
            "planned", **{"settings": {"round_tokens": "budget"}, "block_size": BLOCK, "retention": 0, **options}
        )
        # Rounds cost nothing and tokens do, so every junction is worth a round.
        bench.scheduler.controller.cost.cost = RoundCost(fixed_s=1e-6, per_token_s=1e-3)
        return bench

    return build


def request_of(name, prompt, arrival=0.0, adapter=None, **sampling):
    parameters = SamplingParams(temperature=0.0, ignore_eos=True, **sampling)
    parameters.update_from_generation_config({}, eos_token_id=2)
    return Request(
        request_id=name,
        prompt_token_ids=prompt,
        sampling_params=parameters,
        pooling_params=None,
        arrival_time=arrival,
        lora_request=LoRARequest(adapter, ord(adapter), "/nowhere") if adapter else None,
        block_hasher=get_request_block_hasher(BLOCK, sha256),
    )


@pytest.mark.parametrize("preset", ["stock", "planned"])
def test_no_round_has_an_adapter_too_many(make_bench, planned, tokens, preset):
    """A long prompt with adapter a overtakes siblings; were it cut to nothing for them, vLLM would admit adapter b."""
    bench = planned(budget=128) if preset == "planned" else make_bench("stock", block_size=BLOCK, budget=128)
    bench.scheduler.lora_config = SimpleNamespace(max_loras=1)
    state = tokens("s", 64)
    work = [
        ("P", [*state, *tokens("p", 1)], None),
        ("W1", [*state, *tokens("w1", 60)], None),
        ("W2", [*state, *tokens("w2", 60)], None),
        ("L", tokens("l", 640), "a"),
        ("X", tokens("x", 400), "b"),
    ]
    for number, (name, prompt, adapter) in enumerate(work):
        bench.scheduler.add_request(request_of(name, prompt, float(number), adapter, max_tokens=2))
        bench.added.append(name)
    rounds = [bench.step() for _ in range(30)]
    assert not any({"L", "X"} <= scheduled.keys() for scheduled in rounds)
    assert {"L", "X"} <= {name for scheduled in rounds for name in scheduled}
    bench.stepper.run()
    bench.assert_clean()


def test_who_reads_no_cache_waits_for_no_promise(planned, tokens):
    bench = planned(budget=400)
    for name in "AB":
        bench.add(name, [*tokens("s", 640), *tokens(name, 40)])
    assert bench.step() == {"A": 400}
    late = make_request("C", [*tokens("s", 640), *tokens("C", 40)], block_size=BLOCK)
    # As with prompt log-probabilities: vLLM never gives it a cached prefix.
    late.skip_reading_prefix_cache = True
    bench.scheduler.add_request(late)
    bench.added.append("C")
    assert bench.step() == {"A": 240, "C": 160}


def test_a_producer_that_leaves_while_the_index_is_broken_promises_nothing(planned, tokens):
    bench = planned(budget=64)
    for name in "AB":
        bench.add(name, [*tokens("s", 640), *tokens(name, 40)])
    bench.step()
    promises = bench.scheduler.controller.planner.promises
    assert "A" in promises.by_producer
    with pytest.raises(RuntimeError):
        bench.scheduler.controller.book.index._panic_for_tests()
    bench.stepper.abort("A")
    assert "A" not in promises.by_producer
    bench.stepper.run()
    bench.assert_clean()


def test_hints_of_a_request_with_a_grammar_are_read(make_bench, tokens):
    bench = make_bench("planned", block_size=BLOCK)
    hints = {"radixflow_group": "g", "radixflow_group_size": 4, "radixflow_shared_tokens": 32}
    choice = StructuredOutputsParams(choice=["yes", "no"])
    bench.scheduler.add_request(
        request_of("A", tokens("a", 60), max_tokens=1, extra_args=hints, structured_outputs=choice)
    )
    entry = bench.scheduler.controller.book.entries["A"]
    assert entry.hints is not None
    assert entry.group is not None
    # Its grammar isn't compiled yet, so it can't be what a hold is for.
    assert not bench.scheduler.controller.book.candidates
