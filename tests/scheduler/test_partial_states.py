"""States inside a block: tables of what rounds compute, on a worker that checks every state and copy it is given.

Blocks of 32 tokens, units of 4. Rounds are believed to be cheap, so that every junction is worth one.
"""

from __future__ import annotations

import dataclasses
import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from radixflow.engine.partial_states import PartialStates, _Recurrent
from radixflow.engine.planner import Planner
from radixflow.policies import RoundCost
from radixflow.simulate.rig import make_request
from radixflow.simulate.state_worker import StateFault, StateWorker

BLOCK, UNIT = 32, 4
SLOW = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]


class Partial:
    """A scheduler with its worker: add, step, and look at what was computed."""

    def __init__(self, make_bench, preset="planned", inside="on", worker=StateWorker, tails="auto", **options):
        options = {"block_size": BLOCK, "match_unit": UNIT, "retention": 0, **options}
        planned = {"round_tokens": "budget", "partial_states": inside, "tail_states": tails}
        extra = planned if preset == "planned" else {}
        self.bench = make_bench(preset, settings=extra, **options)
        self.scheduler = self.bench.scheduler
        if preset == "planned":
            self.scheduler.controller.cost.cost = RoundCost(fixed_s=1e-6, per_token_s=1e-3)
        self.worker = worker(self.scheduler)

    def add(self, name, tokens, **options):
        self.bench.added.append(name)
        stamp = float(len(self.bench.added))
        self.scheduler.add_request(make_request(name, tokens, block_size=UNIT, arrival_time=stamp, **options))

    def step(self):
        """Run one round; tokens by request id."""
        output = self.worker.schedule()
        self.worker.complete(output)
        return dict(output.num_scheduled_tokens)

    def end(self, *, in_flight=1):
        """Run to the end with up to so many rounds unanswered, and see that nothing is left behind."""
        flying = []
        for _ in range(2_000):
            if not self.scheduler.has_unfinished_requests():
                break
            flying.append(self.worker.schedule())
            if len(flying) >= in_flight:
                self.worker.complete(flying.pop(0))
        for output in flying:
            self.worker.complete(output)
        # What vLLM frees a round late, it frees by now.
        self.worker.complete(self.worker.schedule())
        self.bench.assert_clean()


@pytest.fixture
def partial(make_bench):
    return lambda *arguments, **options: Partial(make_bench, *arguments, **options)


def family(one, tokens, names="ABCD", shared=24, own=5, prefix="s", **options):
    for name in names:
        one.add(name, [*tokens(prefix, shared), *tokens(name, own)], **options)


def test_siblings_start_inside_a_block_one_round_after_their_producer_was_there(partial, tokens):
    one = partial()
    family(one, tokens, shared=26)
    assert one.step() == {"A": 24}
    assert one.step() == {"A": 7, "B": 7, "C": 7, "D": 7}
    one.end()


def test_off_they_share_whole_blocks_only(partial, tokens):
    one = partial(inside="off")
    family(one, tokens, shared=26)
    # Up to the last unit, where vLLM stops; none of them starts from another's.
    assert one.step() == dict.fromkeys("ABCD", 28)
    one.end()
    family(one, tokens, "EFGH", prefix="t", shared=35)
    assert one.step() == {"E": 32}
    assert one.step() == dict.fromkeys("EFGH", 8)
    one.end()


def test_vllm_shares_nothing_below_a_block(partial, tokens):
    one = partial("stock")
    family(one, tokens, shared=14, own=5)
    assert one.step() == {"A": 16, "B": 16, "C": 16, "D": 16}


def test_below_one_block_everything_shared_is_computed_once(partial, tokens):
    one = partial()
    family(one, tokens, shared=12, own=3)
    assert one.step() == {"A": 12}
    assert one.step() == {"A": 3, "B": 3, "C": 3, "D": 3}
    one.end()


def test_who_goes_on_past_the_block_stops_at_its_end(partial, tokens):
    one = partial()
    family(one, tokens, shared=24, own=20)
    assert one.step() == {"A": 24}
    assert one.step() == dict.fromkeys("ABCD", 8)
    assert one.step() == dict.fromkeys("ABCD", 12)
    one.end()


def test_nested_junctions_inside_one_block(partial, tokens):
    one = partial()
    for question in "xyz":
        for n in range(3):
            one.add(f"{question}{n}", [*tokens("s", 4), *tokens(question, 4), *tokens(f"{question}{n}", 3)])
    assert one.step() == {"x0": 4}
    assert one.step() == {"x0": 4, "y0": 4, "z0": 4}
    assert one.step() == {f"{question}{n}": 3 for question in "xyz" for n in range(3)}
    one.end()


@pytest.mark.parametrize("state", [4, 8, 12, 16])
def test_a_longer_prefix_in_the_same_block_leaves_the_shorter_one_findable(partial, tokens, state):
    """The producer goes on to its question's end while the other questions start from the state."""
    one = partial()
    for question in "xyz":
        for n in range(2):
            one.add(f"{question}{n}", [*tokens("s", state), *tokens(question, 4), *tokens(f"{question}{n}", 3)])
    assert one.step() == {"x0": state}
    assert one.step() == {"x0": 4, "y0": 4, "z0": 4}
    assert one.step() == {f"{question}{n}": 3 for question in "xyz" for n in range(2)}
    one.end()


def test_a_prompts_last_unit_costs_no_round(partial, tokens):
    one = partial()
    one.add("A", tokens("A", 31))
    assert one.step() == {"A": 31}
    one.end()


def test_kept_last_states_include_the_last_unit(partial, tokens):
    one = partial(tails="keep")
    one.add("A", tokens("A", 31), max_tokens=3)
    assert [one.step() for _ in range(3)] == [{"A": 28}, {"A": 3}, {"A": 1}]
    one.end()


def test_salts_share_nothing(partial, tokens):
    one = partial()
    family(one, tokens, "AB", salt="x")
    family(one, tokens, "CD", salt="y")
    assert one.step() == {"A": 24, "C": 24}
    assert one.step() == dict.fromkeys("ABCD", 5)
    one.end()


def test_two_producers_of_one_junction_and_who_needs_it(partial, tokens):
    """The second producer started before the first was known to share anything."""
    one = partial()
    for name in "AB":
        one.add(name, [*tokens("s", 24), *tokens(name, 30)])
        # As if neither had been known to have a peer.
        one.scheduler.controller.book._unkey(one.scheduler.controller.book.entries[name])
    assert one.step() == dict.fromkeys("AB", 32)
    family(one, tokens, "CDE")
    one.end()
    assert len(one.worker.finished) == 5


def test_a_consumer_that_comes_while_the_copy_is_pending(partial, tokens):
    one = partial()
    family(one, tokens, "AB", max_tokens=4)
    assert one.step() == {"A": 24}
    output = one.worker.schedule()
    assert dict(output.num_scheduled_tokens) == {"A": 5, "B": 5}
    family(one, tokens, "C")
    one.worker.complete(output)
    assert one.step()["C"] == 5
    one.end()


@pytest.mark.parametrize("when", ["before its round ran", "after its round", "while the copy is pending"])
def test_a_producer_is_aborted(partial, tokens, when):
    one = partial()
    family(one, tokens)
    output = one.worker.schedule()
    if when == "before its round ran":
        one.worker.abort("A")
    one.worker.complete(output)
    if when == "after its round":
        one.worker.abort("A")
    output = one.worker.schedule()
    if when == "while the copy is pending":
        one.worker.abort("A")
    one.worker.complete(output)
    one.end()
    assert sorted(one.worker.finished) == ["B", "C", "D"]


def test_a_consumer_is_aborted_in_the_round_of_its_copy(partial, tokens):
    one = partial()
    family(one, tokens)
    one.step()
    output = one.worker.schedule()
    one.worker.abort("B", "C")
    one.worker.complete(output)
    family(one, tokens, "E")
    one.end()


def test_the_cache_is_reset_between_producer_and_consumers(partial, tokens):
    one = partial()
    family(one, tokens)
    one.step()
    one.scheduler.reset_prefix_cache(reset_running_requests=True)
    one.end()
    assert sorted(one.worker.finished) == list("ABCD")


def test_preempted_consumers_start_over_from_the_junction_or_from_nothing(partial, tokens):
    one = partial(num_blocks=14, reserve_full_prompt=False)
    for name in "ABCDE":
        one.add(name, [*tokens("s", 24), *tokens(name, 5)], max_tokens=40)
    requests = list(one.scheduler.requests.values())
    one.end()
    assert any(request.num_preemptions for request in requests)


def test_an_evicted_state_is_computed_again(partial, tokens):
    one = partial(num_blocks=7)
    family(one, tokens, "AB")
    one.end()
    one.add("filler", tokens("filler", 100))
    one.end()
    family(one, tokens, "CD")
    assert one.step() == {"C": 24}
    one.end()


def test_a_block_of_attention_that_is_being_written_is_not_copied(partial, tokens):
    """vLLM's own scheduler lets B copy what A is about to write; see tests of the state worker."""
    one = partial(block_size=16)
    shared = tokens("shared", 40)
    one.add("seed", shared[:28])
    one.end()
    for name in "AB":
        one.add(name, [*shared, *tokens(name, 20)])
    one.end()
    assert sorted(one.worker.finished) == ["A", "B", "seed"]


def test_an_async_engine_does_not_register_a_state_that_went_on(partial, tokens):
    one = partial(num_blocks=9, block_size=16, async_scheduling=True)
    shared = tokens("shared", 44)
    one.add("producer", shared, max_tokens=3)
    one.end(in_flight=2)
    one.add("filler", tokens("filler", 24))
    one.end(in_flight=2)
    one.add("consumer", [*shared, *tokens("consumer", 9)])
    one.end(in_flight=2)


branch = st.tuples(
    st.integers(0, 1), st.integers(1, 60), st.integers(1, 40), st.sampled_from([1, 1, 1, 3, 20]), st.sampled_from("--x")
)
crowd = st.tuples(branch, st.integers(2, 8))
case = st.fixed_dictionaries(
    {
        "events": st.lists(
            st.one_of(branch, crowd, st.sampled_from(["step", "step", "abort", "reset"])), min_size=2, max_size=25
        ),
        "num_blocks": st.sampled_from([16, 24, 60, 400]),
        "budget": st.sampled_from([24, 64, 256]),
        "rows": st.sampled_from([2, 8, 64]),
        "retention": st.sampled_from([None, 0]),
        "queue": st.sampled_from(["fcfs", "priority"]),
        "in_flight": st.sampled_from([1, 1, 2, 3]),
        "hints": st.booleans(),
    }
)


def words(seed, length):
    draw = random.Random(seed)
    return [draw.randrange(3, 500) for _ in range(length)]


@given(case)
@settings(max_examples=60, deadline=None, suppress_health_check=SLOW, derandomize=True)
def test_no_request_ever_starts_from_a_wrong_state(make_bench, case):
    one = Partial(
        make_bench,
        num_blocks=case["num_blocks"],
        budget=case["budget"],
        max_num_seqs=case["rows"],
        retention=case["retention"],
        queue=case["queue"],
        async_scheduling=case["in_flight"] > 1,
    )
    limit, flying, count = (case["num_blocks"] - 6) * BLOCK - 64, [], 0

    def arrive(event):
        nonlocal count
        state, shared, own, max_tokens, salt = event
        hints = {"radixflow_group": str(state), "radixflow_shared_tokens": shared} if case["hints"] else None
        one.add(
            f"r{count}",
            [*words(f"state {state}", shared), *words(f"own {count}", own)][:limit],
            max_tokens=max_tokens,
            salt=None if salt == "-" else salt,
            priority=count % 3,
            extra_args=hints,
        )
        count += 1

    for event in case["events"]:
        if event == "step":
            flying.append(one.worker.schedule())
            if len(flying) >= case["in_flight"]:
                one.worker.complete(flying.pop(0))
        elif event == "abort":
            one.worker.abort(*list(one.scheduler.requests)[:1])
        elif event == "reset":
            one.scheduler.reset_prefix_cache(reset_running_requests=not flying)
        elif isinstance(event[0], tuple):
            for _ in range(event[1]):
                arrive(event[0])
        else:
            arrive(event)
    for output in flying:
        one.worker.complete(output)
    one.end(in_flight=case["in_flight"])


class NoCopies(StateWorker):
    """Never copies blocks."""

    def copy_blocks(self, copies):
        pass


class LateCopies(StateWorker):
    """Copies blocks after the round has run."""

    def execute(self, output):
        answer = super().execute(dataclasses.replace(output, kv_cache_block_copies=None))
        self.copy_blocks(output.kv_cache_block_copies or ())
        return answer


class LostRound(StateWorker):
    """Skips the round of a producer, as if it had been aborted before it ran."""

    def forward(self, row, count, written):
        return 0 if row.request_id == "A" and row.computed == 0 else super().forward(row, count, written)


@pytest.mark.parametrize("planted", [NoCopies, LateCopies, LostRound])
def test_planted_the_worker_sees_copies_that_are_missing_or_late_and_rounds_that_never_ran(partial, tokens, planted):
    one = partial(worker=planted)
    family(one, tokens)
    with pytest.raises(StateFault):
        one.end()


@pytest.mark.parametrize("late", [1, UNIT])
def test_planted_the_worker_sees_a_state_registered_late(partial, tokens, monkeypatch, late):
    """The chunk runs past the junction; the state at its end is registered under the junction's hash."""
    chunk_end = Planner.chunk_end

    def shifted(self, request, entry, start, offered, end):
        found = chunk_end(self, request, entry, start, offered, end)
        return min(found + late, start + offered) if found % BLOCK else found

    register = _Recurrent.register

    def misled(self, request, num_tokens):
        asked = self._partial.asked(request.request_id)
        return register(self, request, num_tokens - late if num_tokens - late in asked else num_tokens)

    monkeypatch.setattr(Planner, "chunk_end", shifted)
    monkeypatch.setattr(_Recurrent, "register", misled)
    one = partial()
    family(one, tokens)
    with pytest.raises(StateFault, match=r"expected the state after its first 24 tokens, found the first 2[58] tokens"):
        one.end()


def test_planted_copies_that_read_what_another_copy_fills(partial, tokens, monkeypatch):
    """Without the redirection consumers copy the producer's new block before anything is in it."""
    monkeypatch.setattr(PartialStates, "_from_first_sources", lambda self: self._take_copies())
    one = partial()
    family(one, tokens)
    with pytest.raises(StateFault):
        one.end()
