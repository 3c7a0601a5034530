"""Nobody starts from a state that was never computed: preemption, aborts and resets, sync and with rounds in flight.

vLLM #57580: a request that has its chunk is preempted later in the same call; what was registered for the chunk
can be hit all the same. vLLM #56525 fears the like for rounds in flight. Every round here is run by a worker that
remembers what it computed.
"""

from __future__ import annotations

import dataclasses

import pytest
from vllm.v1.core.kv_cache_utils import get_block_hash, get_group_id, maybe_convert_block_hash
from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.scheduler import Scheduler as VllmScheduler

import radixflow
from radixflow.engine import uncomputed
from radixflow.policies import PRESETS
from radixflow.simulate.rig import build_scheduler, make_request, vllm_config
from radixflow.simulate.state_worker import StateFault, StateWorker

BLOCK = 16
GUARDED = [name for name in PRESETS if name != "native"]
UNGUARDED = ["stock", "native"]


def build(preset, family="hybrid", retention=None, strict=True, wait_ms=0.0, **options):
    """Build a scheduler and its worker; ``retention`` is vLLM's for recurrent states, None keeps all."""
    if preset == "stock":
        base = AsyncScheduler if options.get("async_scheduling") else VllmScheduler
    else:
        base = radixflow.Scheduler
        options["settings"] = {"policy": preset, "wait_ms": wait_ms}

    def assemble(**keywords):
        cache = keywords["kv_cache_config"]
        if family != "attention":
            cache = dataclasses.replace(cache, prefix_cache_retention_interval=retention)
        return base(**{**keywords, "kv_cache_config": cache})

    return StateWorker(build_scheduler(assemble, vllm_config(block_size=BLOCK, **options), family), strict=strict)


def add(worker, name, tokens, priority=0, **options):
    options.setdefault("arrival_time", float(len(worker.scheduler.requests)))
    worker.scheduler.add_request(make_request(name, tokens, block_size=BLOCK, priority=priority, **options))


def chunk_of(worker, tokens):
    """Let a request have at most ``tokens`` tokens a round from now on."""
    worker.scheduler.scheduler_config.long_prefill_token_threshold = tokens


class Flight:
    """Rounds that are scheduled, and answered later."""

    def __init__(self, worker, most):
        self.worker = worker
        self.most = most
        self.hits = {}
        self._flying = []

    def step(self):
        """Schedule a round; the oldest is answered when there are as many in flight as may be."""
        output = self.worker.schedule()
        # A resumed request's hit counts as well; the first one is that of its arrival.
        for new in output.scheduled_new_reqs:
            self.hits.setdefault(new.req_id, new.num_computed_tokens)
        self._flying.append(output)
        if len(self._flying) >= self.most:
            self.worker.complete(self._flying.pop(0))
        return self.worker.rounds[-1]

    def land(self):
        while self._flying:
            self.worker.complete(self._flying.pop(0))

    def run(self):
        calls = 0
        while self.worker.scheduler.has_unfinished_requests():
            self.step()
            calls += 1
            assert calls < 2_000, "requests are left, and nothing moves"
        self.land()


# vLLM #57580. `low` has its chunk, then `high` needs a block and `low` is preempted in the same call.


@dataclasses.dataclass(frozen=True)
class Fixture:
    """Sizes in tokens, but for the pool, whose null block counts."""

    family: str
    num_blocks: int
    chunk: int
    held: int
    """What `high` shares with `low` and with the consumer, and has in the cache when it starts."""
    low: int
    high: int
    common: int
    """What `low` and the consumer share."""
    completed: int
    """What `low` had computed before its last chunk."""
    retention: int | None = None
    behind: int = 0
    """Blocks the pool needs more of if a round is in flight: what is freed lags behind."""


# Who takes `low`'s blocks decides what is left of it: `high` gets the tail of the attention blocks first. In the
# hybrid case the attention blocks are known twice, because `high` holds its own; in the attention case the chunk
# is two blocks long, and one is left; in the recurrent one an older, unregistered state is taken first.
CASES = {
    "hybrid": Fixture("hybrid", 14, chunk=16, held=80, low=56, high=112, common=48, completed=32, behind=1),
    "hybrid, sparse": Fixture(
        "hybrid", 14, chunk=16, held=80, low=56, high=112, common=48, completed=32, retention=0, behind=1
    ),
    "attention": Fixture("attention", 9, chunk=32, held=0, low=100, high=40, common=80, completed=64),
    "recurrent": Fixture(
        "recurrent", 4, chunk=16, held=0, low=56, high=40, common=48, completed=32, retention=0, behind=1
    ),
}


def withdraw(worker, case, tokens, in_flight=1):
    """Play up to the call in which `low` is withdrawn."""
    shared = tokens("shared", 96)
    if case.held:
        add(worker, "seed", [*shared[: case.held], *tokens("seed", 1)])
        worker.run()
    chunk_of(worker, case.chunk)
    flight = Flight(worker, in_flight)
    add(worker, "low", [*shared[: case.common], *tokens("low", case.low - case.common)], priority=5)
    for _ in range(case.completed // case.chunk - 1):
        assert flight.step() == {"low": case.chunk}
    start = shared[: case.held] if case.held else []
    add(worker, "high", [*start, *tokens("high", case.high - case.held)])
    assert flight.step() == {"low": case.chunk, "high": case.chunk}
    assert list(flight.step()) == ["high"]
    assert worker.scheduler.requests["low"].status.name == "PREEMPTED"
    return flight


def consume(worker, case, tokens, flight):
    """Send the consumer and run everything; returns the consumer's hit."""
    add(worker, "consumer", [*tokens("shared", 96)[: case.common], *tokens("consumer", 8)], priority=1)
    flight.run()
    return flight.hits["consumer"]


@pytest.mark.parametrize("in_flight", [1, 2])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("preset", UNGUARDED)
def test_57580_vllm_hits_what_nobody_computed(tokens, preset, case, in_flight):
    case = CASES[case]
    worker = build(
        preset,
        case.family,
        case.retention,
        num_blocks=case.num_blocks + case.behind * (in_flight > 1),
        budget=128,
        queue="priority",
        async_scheduling=in_flight > 1,
    )
    flight = withdraw(worker, case, tokens, in_flight)
    with pytest.raises(StateFault) as caught:
        consume(worker, case, tokens, flight)
    assert caught.value.request_id == "consumer"
    assert case.completed < caught.value.position <= case.common
    assert flight.hits["consumer"] == case.common


@pytest.mark.parametrize("in_flight", [1, 2])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("preset", GUARDED)
def test_57580_no_preset_hits_what_nobody_computed(tokens, preset, case, in_flight):
    case = CASES[case]
    worker = build(
        preset,
        case.family,
        case.retention,
        num_blocks=case.num_blocks + case.behind * (in_flight > 1),
        budget=128,
        queue="priority",
        async_scheduling=in_flight > 1,
    )
    flight = withdraw(worker, case, tokens, in_flight)
    assert consume(worker, case, tokens, flight) <= case.completed
    assert worker.scheduler.recorder.totals["uncomputed_blocks"] >= 1
    assert sorted(worker.finished) == sorted(["consumer", "high", "low", *["seed"] * bool(case.held)])
    assert worker.answers == roomy(
        {name: list(request) for name, request in prompts(case, tokens).items()}, case.family, worker.answers
    )


def prompts(case, tokens):
    shared = tokens("shared", 96)
    return {
        "seed": [*shared[: case.held], *tokens("seed", 1)],
        "low": [*shared[: case.common], *tokens("low", case.low - case.common)],
        "high": [*shared[: case.held], *tokens("high", case.high - case.held)],
        "consumer": [*shared[: case.common], *tokens("consumer", 8)],
    }


def roomy(prompts, family, names, max_tokens=None):
    """Return what stock answers with room for everybody, for ``names``."""
    worker = build("stock", family)
    for name in names:
        add(worker, name, prompts[name], max_tokens=(max_tokens or {}).get(name, 1))
    worker.run()
    return worker.answers


def test_57580_the_control_under_fcfs_hits_the_same_and_rightly(tokens):
    """There the last of ``running`` is preempted, which has no chunk yet."""
    case = CASES["hybrid"]
    worker = build("stock", num_blocks=case.num_blocks, budget=128)
    flight = Flight(worker, 1)
    shared = tokens("shared", 96)
    add(worker, "seed", [*shared[:80], *tokens("seed", 1)])
    worker.run()
    chunk_of(worker, case.chunk)
    add(worker, "low", [*shared[:48], *tokens("low", 8)])
    flight.step()
    add(worker, "high", [*shared[:80], *tokens("high", 32)])
    flight.step()
    assert flight.step() == {"low": 16}
    assert worker.scheduler.requests["high"].status.name == "PREEMPTED"
    assert consume(worker, case, tokens, flight) == 48


def test_57580_a_wrong_state_is_a_wrong_answer(tokens):
    case = CASES["hybrid"]
    worker = build("stock", strict=False, num_blocks=case.num_blocks, budget=128, queue="priority")
    consume(worker, case, tokens, withdraw(worker, case, tokens))
    right = roomy(prompts(case, tokens), case.family, worker.answers)
    assert worker.answers["consumer"] != right["consumer"]
    assert worker.answers["high"] == right["high"]


# What is taken back, exactly.


def known_blocks(worker):
    """Block ids by hash of everything the prefix cache knows."""
    pool = worker.scheduler.kv_cache_manager.block_pool
    known = {}
    for block in pool.blocks:
        for key in [block.block_hash, *pool.cached_block_hashes_by_block.get(block.block_id, ())]:
            if key is not None:
                known.setdefault(key, set()).add(block.block_id)
    return known


def prepare(preset, tokens, **options):
    case = CASES["hybrid"]
    worker = build(preset, num_blocks=case.num_blocks, budget=128, queue="priority", **options)
    return worker, case


def test_only_the_withdrawn_chunk_is_taken_back(tokens):
    known = {}
    for preset in ("stock", "rows"):
        worker, case = prepare(preset, tokens)
        withdraw(worker, case, tokens)
        hashes = make_request("probe", tokens("shared", 96), block_size=BLOCK).block_hashes
        known[preset] = {
            (get_group_id(key), hashes.index(get_block_hash(key)) + 1): len(blocks)
            for key, blocks in known_blocks(worker).items()
            if get_block_hash(key) in hashes
        }
    # By group and blocks of the shared prefix. `high` holds the first five of attention; the state after two
    # is `low`'s, computed in the rounds before; that after three is the one that nobody computed.
    attention = {(0, length): 1 for length in range(1, 6)}
    assert {key for key in known["stock"] if key[0] == 0} == set(attention)
    assert (1, 3) in known["stock"]
    assert (1, 3) not in known["rows"]
    assert known["rows"][1, 2] == 1
    assert {key for key in known["rows"] if key[0] == 0} == set(attention)


def test_a_twin_keeps_its_hash_and_the_mark_of_this_call(tokens):
    worker = build("rows", budget=128)
    shared = tokens("shared", 48)
    add(worker, "A", shared)
    worker.run()
    chunk_of(worker, 16)
    manager = worker.scheduler.kv_cache_manager
    managers = manager.coordinator.single_type_managers
    twins = [make_request(name, tokens("other", 40), block_size=BLOCK) for name in "BC"]
    for twin in twins:
        assert manager.allocate_slots(twin, 32) is not None
    last = {twin.request_id: managers[1].req_to_blocks[twin.request_id][-1] for twin in twins}
    key = last["B"].block_hash
    assert key == last["C"].block_hash
    assert uncomputed.drop_uncomputed(manager, twins[0]) == 3
    assert last["B"].block_hash is None
    assert last["C"].block_hash == key
    assert key in managers[1].cached_blocks_this_step
    assert manager.block_pool.cached_block_hash_to_block.get_one_block(key) is last["C"]
    assert uncomputed.drop_uncomputed(manager, twins[1]) == 3
    assert key not in managers[1].cached_blocks_this_step
    assert manager.block_pool.cached_block_hash_to_block.get_one_block(key) is None
    # Nothing of the finished request is touched.
    assert manager.get_computed_blocks(make_request("D", [*shared, 5], block_size=BLOCK))[1] == 48


@pytest.mark.parametrize("computed", [0, 16, 31, 32])
@pytest.mark.parametrize("family", ["hybrid", "attention", "recurrent"])
def test_what_was_computed_stays(tokens, family, computed):
    worker = build("rows", family)
    manager = worker.scheduler.kv_cache_manager
    request = make_request("A", tokens("A", 40), block_size=BLOCK)
    manager.allocate_slots(request, 32)
    request.num_computed_tokens = computed
    before = known_blocks(worker)
    uncomputed.drop_uncomputed(manager, request)
    after = known_blocks(worker)
    pool = manager.block_pool
    ends = {key: pool.blocks[next(iter(blocks))].block_hash_num_tokens for key, blocks in after.items()}
    assert all(end <= computed for end in ends.values())
    kept = 0 if family == "recurrent" else computed // BLOCK
    assert len(after) == (len(before) if computed == 32 else kept)


@pytest.mark.parametrize("preset", ["stock", "rows"])
def test_events_tell_others_what_is_gone(tokens, monkeypatch, preset):
    """Whoever follows the cache's events knows of no block that can't be hit."""
    worker, case = prepare(preset, tokens)
    pool = worker.scheduler.kv_cache_manager.block_pool
    pool.enable_kv_cache_events = True
    events, take = [], pool.take_events
    monkeypatch.setattr(pool, "take_events", lambda: events.extend(take()) or [])
    withdraw(worker, case, tokens)
    stored = set()
    for event in events:
        for block_hash in event.block_hashes:
            change = stored.add if type(event).__name__ == "BlockStored" else stored.discard
            change((event.group_idx, block_hash))
    known = {(get_group_id(key), maybe_convert_block_hash(get_block_hash(key))) for key in known_blocks(worker)}
    # A twin's eviction is told as if it were the last of its hash: vLLM's own way, and on the safe side.
    assert stored <= known
    assert len(stored) > 3
    withdrawn = make_request("probe", tokens("shared", 48), block_size=BLOCK).block_hashes[2]
    assert ((1, maybe_convert_block_hash(withdrawn)) in stored) == (preset == "stock")


def test_a_preemption_without_a_withdrawn_chunk_costs_nothing(tokens, monkeypatch):
    def refuse(*_):
        raise AssertionError("nothing was registered, so nothing is to be taken back")

    worker = build("radixflow", num_blocks=24)
    monkeypatch.setattr(worker.scheduler.kv_cache_manager, "evict_blocks", refuse)
    for name in "ABCD":
        add(worker, name, tokens(name, 50), max_tokens=40)
    requests = list(worker.scheduler.requests.values())
    worker.run()
    assert sum(request.num_preemptions for request in requests) > 0
    totals = worker.scheduler.recorder.totals
    assert totals["uncomputed_blocks"] == 0
    assert not [name for name in totals if name.startswith("failures")]


def test_a_failure_is_counted_and_serving_goes_on(tokens, monkeypatch, logged):
    def fail(*_):
        raise RuntimeError("planted")

    monkeypatch.setattr(uncomputed, "drop_uncomputed", fail)
    worker, case = prepare("radixflow", tokens, strict=False)
    flight = withdraw(worker, case, tokens)
    assert consume(worker, case, tokens, flight) == case.common
    totals = worker.scheduler.recorder.totals
    assert totals["failures.uncomputed"] >= 1
    assert sorted(worker.finished) == ["consumer", "high", "low", "seed"]
    assert "uncomputed failed" in logged("ERROR")[0]


# vLLM #56525: the mark of what is written in this call is cleared by the next one, while the round is in flight.
# Rounds run in order, so a state that is hit then is there when the consumer's round reads it.


@pytest.mark.parametrize("family", ["hybrid", "attention", "recurrent"])
@pytest.mark.parametrize("preset", ["stock", *PRESETS])
def test_56525_a_producer_aborted_in_flight_has_still_computed(tokens, preset, family):
    worker = build(preset, family, async_scheduling=True)
    shared = tokens("shared", 64)
    sizes = {"producer": [*shared, *tokens("p", 8)], "consumer": [*shared, *tokens("c", 16)]}
    flight = Flight(worker, 3)
    add(worker, "producer", sizes["producer"])
    flight.step()
    worker.abort("producer")
    add(worker, "consumer", sizes["consumer"])
    assert flight.step() == {"consumer": 16}
    assert flight.hits["consumer"] == 64
    flight.run()
    assert worker.answers == roomy(sizes, family, ["consumer"])


@pytest.mark.parametrize("preset", ["stock", *PRESETS])
def test_56525_an_aborted_round_that_did_not_run_would_be_noticed(tokens, preset):
    """The test above stands on the order of rounds; without the producer's, the worker says so."""
    worker = build(preset, async_scheduling=True)
    shared = tokens("shared", 64)
    add(worker, "producer", [*shared, *tokens("p", 8)])
    worker.schedule()
    worker.abort("producer")
    add(worker, "consumer", [*shared, *tokens("c", 16)])
    with pytest.raises(StateFault, match=r"'consumer'.*position 64: expected the state"):
        worker.step()


@pytest.mark.parametrize("in_flight", [2, 3])
@pytest.mark.parametrize("preset", ["stock", *PRESETS])
def test_56525_a_producer_preempted_in_flight_keeps_what_runs(tokens, preset, in_flight):
    """`low`'s third chunk is in flight when it is preempted: its state will be there, and may be hit."""
    case = dataclasses.replace(CASES["hybrid"], num_blocks=16 + in_flight, high=128)
    worker = build(preset, num_blocks=case.num_blocks, budget=128, queue="priority", async_scheduling=True)
    flight = Flight(worker, in_flight)
    shared = tokens("shared", 96)
    sizes = prompts(case, tokens)
    add(worker, "seed", sizes["seed"])
    worker.run()
    chunk_of(worker, case.chunk)
    add(worker, "low", sizes["low"], priority=5)
    assert flight.step() == {"low": 16}
    add(worker, "high", [*shared[:80], *tokens("high", 48)])
    assert flight.step() == {"low": 16, "high": 16}
    assert flight.step() == {"low": 16, "high": 16}
    assert flight.step() == {"high": 16}
    assert worker.scheduler.requests["low"].status.name == "PREEMPTED"
    assert consume(worker, case, tokens, flight) == 48
    assert worker.answers == roomy(sizes, "hybrid", worker.answers)


@pytest.mark.parametrize("running", [True, False])
@pytest.mark.parametrize("family", ["hybrid", "attention", "recurrent"])
@pytest.mark.parametrize("preset", ["stock", *PRESETS])
def test_56525_a_reset_in_flight(tokens, preset, family, running):
    """What is in flight then writes into blocks that have new owners, but before these do."""
    worker = build(preset, family, num_blocks=16, async_scheduling=True)
    shared = tokens("shared", 64)
    sizes = {name: [*shared, *tokens(name, 8)] for name in ("producer", "other", "consumer")}
    flight = Flight(worker, 3)
    add(worker, "producer", sizes["producer"], max_tokens=4)
    add(worker, "other", sizes["other"], max_tokens=4)
    flight.step()
    flight.step()
    if not running:
        worker.abort("producer", "other")
    assert worker.scheduler.reset_prefix_cache(reset_running_requests=running)
    add(worker, "consumer", sizes["consumer"], max_tokens=4)
    flight.run()
    names = ["producer", "other", "consumer"] if running else ["consumer"]
    assert worker.answers == roomy(sizes, family, names, dict.fromkeys(names, 4))
