"""The state-checking worker: quiet on vLLM as it is, and loud about what it is there for."""

from __future__ import annotations

import dataclasses
import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from vllm.v1.core.block_pool import BlockPool
from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.scheduler import Scheduler as VllmScheduler
from vllm.v1.core.single_type_kv_cache_manager import MambaManager

from radixflow.simulate.rig import build_scheduler, make_request, vllm_config
from radixflow.simulate.state_worker import BlockMemory, Mark, StateFault, StateWorker, advance
from radixflow.simulate.state_worker.batch import Row

BLOCK = 16
UNIT = 4
SLOW = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
FAMILIES = ["hybrid", "attention", "recurrent"]


def stock(family="hybrid", unit=BLOCK, retention=None, worker=StateWorker, strict=True, **options):
    """vLLM's own scheduler with a worker; ``unit`` tokens a hash, states kept densely or as ``retention`` says."""
    base = AsyncScheduler if options.get("async_scheduling") else VllmScheduler

    def build(**keywords):
        cache = keywords["kv_cache_config"]
        if family != "attention":
            cache = dataclasses.replace(cache, prefix_cache_retention_interval=retention)
        return base(**{**keywords, "kv_cache_config": cache, "hash_block_size": unit})

    return worker(build_scheduler(build, vllm_config(block_size=BLOCK, **options), family), strict=strict)


def add(worker, name, tokens, unit=BLOCK, **options):
    worker.scheduler.add_request(make_request(name, tokens, block_size=unit, **options))


# Right on stock.

arrival = st.tuples(st.integers(0, 1), st.integers(1, 90), st.integers(1, 40), st.sampled_from([1, 1, 4, 20]))
case = st.fixed_dictionaries(
    {
        "events": st.lists(st.one_of(arrival, st.just("step"), st.just("step"), st.just("abort")), max_size=30),
        "num_blocks": st.sampled_from([14, 18, 24]),
        "budget": st.sampled_from([24, 64, 256]),
        "rows": st.sampled_from([2, 8, 64]),
        "family": st.sampled_from(["hybrid", *FAMILIES]),
        "retention": st.sampled_from([None, 0]),
        "in_flight": st.integers(1, 3),
    }
)


def overlap(worker, in_flight):
    """Run to the end with up to ``in_flight`` rounds unanswered."""
    flying = []
    while worker.scheduler.has_unfinished_requests():
        flying.append(worker.schedule())
        if len(flying) >= in_flight:
            worker.complete(flying.pop(0))
        assert len(worker.rounds) < 3_000, "requests are left, and nothing moves"
    for output in flying:
        worker.complete(output)


def play(worker, events, tokens, limit, in_flight):
    """Run a trace to its end with up to ``in_flight`` rounds unanswered; returns the prompts by name."""
    prompts, flying = {}, []
    for number, event in enumerate(events):
        if event == "step":
            flying.append(worker.schedule())
            if len(flying) >= in_flight:
                worker.complete(flying.pop(0))
        elif event == "abort":
            worker.abort(*list(worker.scheduler.requests)[:1])
        else:
            state, shared, own, max_tokens = event
            prompt = [*tokens(f"state {state}", shared), *tokens(f"own {number}", own)][:limit]
            prompts[f"r{number}"] = prompt, max_tokens
            add(worker, f"r{number}", prompt, max_tokens=max_tokens)
    for output in flying:
        worker.complete(output)
    overlap(worker, in_flight)
    return prompts


@given(case)
@settings(max_examples=120, deadline=None, suppress_health_check=SLOW, derandomize=True)
def test_stock_traces_pass_and_tight_pools_change_no_answer(tokens, case):
    worker = stock(
        case["family"],
        retention=case["retention"],
        num_blocks=case["num_blocks"],
        budget=case["budget"],
        max_num_seqs=case["rows"],
        async_scheduling=case["in_flight"] > 1,
    )
    limit = (case["num_blocks"] - 5) * BLOCK - 32
    prompts = play(worker, case["events"], tokens, limit, case["in_flight"])
    roomy = stock(case["family"])
    for name, (prompt, max_tokens) in prompts.items():
        add(roomy, name, prompt, max_tokens=max_tokens)
    roomy.run()
    for name in worker.finished:
        assert worker.answers[name] == roomy.answers[name]


def test_the_sampled_token_depends_on_the_prompt_and_never_ends_a_request(tokens):
    worker = stock()
    for number in range(40):
        add(worker, f"r{number}", tokens(f"r{number}", 20), max_tokens=6)
    worker.run()
    assert all(len(answer) == 6 for answer in worker.answers.values())
    assert len({tuple(answer) for answer in worker.answers.values()}) == 40
    assert min(min(answer) for answer in worker.answers.values()) > 2


@pytest.mark.parametrize("family", FAMILIES)
def test_pooled_values_are_answers_too(tokens, family):
    worker = stock(family)
    for name in "AB":
        add(worker, name, tokens(name, 40), pooling=True)
    worker.run()
    assert sorted(worker.finished) == ["A", "B"]
    assert worker.answers["A"] != worker.answers["B"]


@pytest.mark.parametrize("v2_outputs", [False, True])
@pytest.mark.parametrize("in_flight", [1, 2])
def test_preempted_requests_come_back_with_their_tokens(tokens, v2_outputs, in_flight):
    answers = []
    for num_blocks in (24, 1_000):
        worker = stock(num_blocks=num_blocks, async_scheduling=in_flight > 1)
        # The V2 runner is sent a request that comes back as if it were new.
        worker.scheduler.use_v2_model_runner = v2_outputs
        for name in "ABCD":
            add(worker, name, tokens(name, 50), max_tokens=40)
        requests = list(worker.scheduler.requests.values())
        overlap(worker, in_flight)
        answers.append(worker.answers)
        assert any(request.num_preemptions for request in requests) == (num_blocks == 24)
    assert answers[0] == answers[1]


def test_attention_may_be_read_in_the_round_that_writes_it(tokens):
    worker = stock("attention")
    shared = tokens("shared", 64)
    for name in "AB":
        add(worker, name, [*shared, *tokens(name, 8)])
    assert worker.step() == {"A": 72, "B": 8}


# Hits that end inside a block: the block is copied before anything of the round runs.


class Skips(StateWorker):
    """Never copies blocks."""

    def copy_blocks(self, copies):
        pass


class Late(StateWorker):
    """Copies blocks after the round has run."""

    def execute(self, output):
        answer = super().execute(dataclasses.replace(output, kv_cache_block_copies=None))
        self.copy_blocks(output.kv_cache_block_copies or ())
        return answer


def continue_inside_a_block(worker, tokens):
    shared = tokens("shared", 44)
    add(worker, "producer", shared, unit=UNIT)
    worker.run()
    add(worker, "consumer", [*shared, *tokens("consumer", 9)], unit=UNIT)
    output = worker.schedule()
    (new,) = output.scheduled_new_reqs
    assert new.num_computed_tokens == 44
    assert len(output.kv_cache_block_copies) == 2
    worker.complete(output)
    worker.run()


def test_a_hit_inside_a_block_starts_from_copies(tokens):
    worker = stock(unit=UNIT)
    continue_inside_a_block(worker, tokens)
    whole = stock()
    add(whole, "consumer", [*tokens("shared", 44), *tokens("consumer", 9)])
    whole.run()
    assert worker.answers["consumer"] == whole.answers["consumer"]


def test_a_producer_that_decodes_on_moves_its_state_out_of_the_way(tokens):
    worker = stock(unit=UNIT)
    shared = tokens("shared", 45)
    add(worker, "producer", shared, unit=UNIT, max_tokens=8)
    copies = []
    for _ in range(4):
        output = worker.schedule()
        copies += output.kv_cache_block_copies or ()
        worker.complete(output)
    assert len(copies) == 1
    add(worker, "consumer", [*shared, *tokens("consumer", 9)], unit=UNIT)
    assert worker.schedule().scheduled_new_reqs[0].num_computed_tokens == 44


@pytest.mark.parametrize("planted", [Skips, Late])
def test_planted_a_copy_that_is_missing_or_late(tokens, planted):
    worker = stock(unit=UNIT, worker=planted)
    with pytest.raises(StateFault, match=r"'consumer', group 1, block \d+, position 44: expected the state"):
        continue_inside_a_block(worker, tokens)


# What it finds in vLLM 0.29.0 where hashes are finer than blocks (`prefix_match_unit`).


def test_found_two_siblings_copy_a_block_that_one_of_them_is_about_to_fill(tokens):
    """B's attention hit is A's block of this very call, cut to the older state; A's block holds nothing yet.

    The guard looks at recurrent states only, and with vLLM's default retention A's boundary stores none.
    """
    worker = stock(unit=UNIT, retention=0)
    shared = tokens("shared", 40)
    add(worker, "seed", shared[:28], unit=UNIT)
    worker.run()
    for name in "AB":
        add(worker, name, [*shared, *tokens(name, 20)], unit=UNIT)
    output = worker.schedule()
    assert dict(output.num_scheduled_tokens) == {"A": 4, "B": 4}
    with pytest.raises(StateFault, match=r"'B', group 0, block \d+, position 17: expected attention.*found nothing"):
        worker.complete(output)


def test_found_an_async_engine_registers_a_state_again_that_went_on(tokens):
    """A prompt's end is registered once more by its answer, when the next round has moved that state already."""
    worker = stock(unit=UNIT, num_blocks=9, async_scheduling=True)
    shared = tokens("shared", 44)
    add(worker, "producer", shared, unit=UNIT, max_tokens=3)
    overlap(worker, 2)
    # The right copy is evicted before the wrong one.
    add(worker, "filler", tokens("filler", 24), unit=UNIT)
    overlap(worker, 2)
    add(worker, "consumer", [*shared, *tokens("consumer", 9)], unit=UNIT)
    with pytest.raises(StateFault, match=r"'consumer', group 1.*position 44.*found the first 45 tokens of 'producer'"):
        overlap(worker, 2)


# Planted faults of the scheduler's side.


def producer_then_consumer(worker, tokens, length=96):
    shared = tokens("shared", length)
    add(worker, "producer", [*shared, *tokens("p", 8)])
    add(worker, "consumer", [*shared, *tokens("c", 8)])
    worker.run()


def test_planted_a_state_registered_under_the_next_boundary(tokens, monkeypatch):
    registered = BlockPool.cache_full_blocks

    class Shifted:
        def __init__(self, request):
            self.block_hashes = [*request.block_hashes[1:], request.block_hashes[0]]

    def shifted(self, request, kv_cache_group_id, **keywords):
        source = Shifted(request) if kv_cache_group_id == 1 else request
        registered(self, request=source, kv_cache_group_id=kv_cache_group_id, **keywords)

    monkeypatch.setattr(BlockPool, "cache_full_blocks", shifted)
    worker = stock(budget=48)
    with pytest.raises(StateFault) as caught:
        producer_then_consumer(worker, tokens)
    fault = caught.value
    assert (fault.request_id, fault.group, fault.position) == ("consumer", 1, 64)
    assert fault.found.length == 48
    assert fault.found.writer == "producer"


def test_planted_a_consumer_in_its_producers_round(tokens, monkeypatch):
    class Forgetful(set):
        def add(self, item):
            pass

    created = MambaManager.__init__

    def unguarded(self, *arguments, **keywords):
        created(self, *arguments, **keywords)
        self.cached_blocks_this_step = Forgetful()

    monkeypatch.setattr(MambaManager, "__init__", unguarded)
    with pytest.raises(StateFault, match=r"'consumer'.*expected the state.*found nothing of this group"):
        producer_then_consumer(stock(), tokens)


@pytest.mark.parametrize("family", FAMILIES)
def test_planted_a_round_that_never_ran(tokens, family):
    class Drops(StateWorker):
        def forward(self, row, count, written):
            return 0 if row.request_id == "producer" else super().forward(row, count, written)

    with pytest.raises(StateFault, match="request 'consumer'") as caught:
        producer_then_consumer(stock(family, worker=Drops), tokens)
    assert caught.value.found is None


def test_planted_two_writers_of_one_block(tokens):
    worker = stock()
    rows = [Row(name, tokens(name, 16), [[3], [4]], 0) for name in "AB"]
    written = {}
    worker.forward(rows[0], 16, written)
    with pytest.raises(StateFault, match="'A' writes there in the same round"):
        worker.forward(rows[1], 16, written)


def test_a_lenient_worker_goes_on_from_what_it_read(tokens):
    """What a model would do: the answer is wrong, and so is what is stored from there on."""

    class Drops(StateWorker):
        def forward(self, row, count, written):
            return 0 if row.request_id == "producer" else super().forward(row, count, written)

    wrong, right = stock(worker=Drops, strict=False), stock()
    for worker in (wrong, right):
        producer_then_consumer(worker, tokens)
    assert right.faults == []
    assert {fault.request_id for fault in wrong.faults} == {"consumer"}
    assert wrong.answers["consumer"] != right.answers["consumer"]


# The parts.


def test_groups_share_the_memory_of_a_block():
    memory = BlockMemory()
    memory.write(0, 5, 2, Mark(3, 7, "A"))
    assert memory.read(0, 5, 2) == Mark(3, 7, "A")
    assert memory.read(1, 5, 2) is None
    memory.write(1, 5, 0, Mark(16, 8, "B"))
    assert memory.read(0, 5, 2) is None
    memory.zero([5])
    assert memory.read(1, 5, 0) is None


def test_all_copies_are_read_before_one_is_written():
    memory = BlockMemory()
    memory.write(0, 1, 0, Mark(1, 1, "A"))
    memory.copy([(1, 2), (2, 3)])
    assert memory.read(0, 2, 0) == Mark(1, 1, "A")
    assert memory.read(0, 3, 0) is None


def test_a_digest_is_of_the_tokens_in_their_order():
    digests = set()
    source = random.Random(0)
    for _ in range(200):
        digest = 0
        for token in [source.randrange(3) for _ in range(8)]:
            digest = advance(digest, token)
            digests.add(digest)
    assert advance(advance(0, 1), 2) != advance(advance(0, 2), 1)
    assert len(digests) > 500


def test_unknown_groups_are_refused():
    scheduler = stock().scheduler
    groups = scheduler.kv_cache_config.kv_cache_groups
    other = dataclasses.replace(groups[1].kv_cache_spec, mamba_cache_mode="none")
    scheduler.kv_cache_config.kv_cache_groups[1] = dataclasses.replace(groups[1], kv_cache_spec=other)
    with pytest.raises(ValueError, match="cache group 1 is MambaSpec"):
        StateWorker(scheduler)
