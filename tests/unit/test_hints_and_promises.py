"""What the engine side remembers without vLLM: hints, groups, promises, stamps."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixflow.engine.arrivals import ArrivalWatch, StampClock, Watch, seem_related, shared_tokens
from radixflow.engine.hints import Groups, Hints, read_hints
from radixflow.engine.promises import PromiseTable
from radixflow.policies import RoundCost

BLOCK = 4


def request(given, pooling=False, tokens=100):
    sampling = None if pooling else SimpleNamespace(extra_args=given)
    parameters = SimpleNamespace(extra_kwargs=given) if pooling else None
    return SimpleNamespace(sampling_params=sampling, pooling_params=parameters, num_prompt_tokens=tokens)


@pytest.mark.parametrize("pooling", [False, True])
def test_good_hints_are_read_from_both_kinds_of_parameters(pooling):
    said = {"radixflow_group": "g", "radixflow_group_size": 4, "radixflow_shared_tokens": 80.0, "other": 1}
    assert read_hints(request(said, pooling)) == Hints("g", 4, 80, 0)
    assert read_hints(request({"radixflow_group": 12}, pooling)) == Hints("12", 0, 0, 0)


@pytest.mark.parametrize("nothing", [None, {}, {"other": 1}])
def test_no_hints_is_none(nothing):
    assert read_hints(request(nothing)) is None


@given(
    st.dictionaries(
        st.sampled_from(["radixflow_group", "radixflow_group_size", "radixflow_shared_tokens"]),
        st.one_of(
            st.none(),
            st.booleans(),
            st.integers(),
            st.floats(),
            st.text(max_size=300),
            st.lists(st.integers(), max_size=2),
            st.dictionaries(st.text(max_size=2), st.integers(), max_size=2),
        ),
        min_size=1,
    )
)
def test_whatever_a_client_says_is_read_or_ignored_and_counted(said):
    hints = read_hints(request(said))
    assert hints is not None
    usable = [hints.group is not None, hints.group_size > 0, hints.shared_tokens > 0]
    assert sum(usable) + hints.ignored == len(said)
    assert hints.group is None or len(hints.group) <= 256
    assert 0 <= hints.group_size <= 4_096
    assert 0 <= hints.shared_tokens <= 100


def test_a_number_that_no_name_can_hold_is_ignored():
    assert read_hints(request({"radixflow_group": 10**5_000, "radixflow_group_size": 2})) == Hints(None, 2, 0, 1)


def test_a_group_whose_name_is_used_for_ever_remembers_no_more_than_its_size():
    groups = Groups()
    hints = Hints("always the same", 4, 0, 0)
    _, group = groups.join("", hints, "r0")
    for number in range(1, 100):
        key, _ = groups.join("", hints, f"r{number}")
        groups.leave(key)
    assert len(group.seen) == 4
    assert group.is_complete


def test_a_group_is_of_one_namespace_and_ends_with_its_last_member():
    groups = Groups()
    keys = [groups.join(salt, Hints("g", 2), name) for salt, name in (("x", "a"), ("y", "b"), ("x", "c"))]
    assert len(groups) == 2
    assert [group.is_complete for _, group in keys] == [True, False, True]
    assert keys[1][1].to_come == 1
    for key, _ in keys:
        groups.leave(key)
    assert len(groups) == 0
    groups.leave(keys[0][0])


def test_the_smallest_size_said_counts_and_who_has_left_was_still_seen():
    groups = Groups()
    key, group = groups.join("", Hints("g", 4_096), "a")
    groups.join("", Hints("g", 3), "b")
    groups.leave(key)
    assert (group.to_come, group.is_complete) == (1, False)
    groups.join("", Hints("g", 9), "c")
    assert group.is_complete


# Promises


def prompt(name, text):
    """A request whose block hashes chain, as vLLM's do: each is the text up to a block boundary."""
    hashes = [text[: end + BLOCK] for end in range(0, len(text) - len(text) % BLOCK, BLOCK)]
    return SimpleNamespace(request_id=name, num_tokens=len(text), block_hashes=hashes)


@pytest.fixture
def table():
    closed = set()
    made = PromiseTable(BLOCK, lambda promise: promise not in closed)
    made.closed = closed
    return made


def test_a_promise_is_found_by_who_shares_all_of_it_furthest_first(table):
    table.make(prompt("p", "aaaabbbbcccc"), [4, 8])
    assert table.find(prompt("c", "aaaabbbbdddd")) == ("p", 8)
    assert table.find(prompt("c", "aaaadddd")) == ("p", 4)
    assert table.find(prompt("c", "xaaabbbb")) is None
    # The last token is always computed, so a state at a prompt's very end is of no use.
    assert table.find(prompt("c", "aaaabbbb")) == ("p", 4)
    assert table.find(prompt("p", "aaaabbbbcccc")) is None


def test_a_kept_or_broken_promise_is_not_waited_for(table):
    table.make(prompt("p", "aaaabbbbcccc"), [4, 8])
    table.closed.add(("p", 8))
    assert table.find(prompt("c", "aaaabbbbdddd")) == ("p", 4)
    table.drop("p")
    assert table.find(prompt("c", "aaaabbbbdddd")) is None
    assert len(table) == 0
    table.drop("p")


def test_who_was_first_keeps_the_promise_until_it_is_void(table):
    table.make(prompt("p", "aaaabbbb"), [4])
    table.make(prompt("q", "aaaacccc"), [4, 8])
    assert table.find(prompt("c", "aaaadddd")) == ("p", 4)
    table.closed.add(("p", 4))
    table.make(prompt("q", "aaaacccc"), [4])
    assert table.find(prompt("c", "aaaadddd")) == ("q", 4)
    table.drop("p")
    assert table.find(prompt("c", "aaaadddd")) == ("q", 4)


@given(st.lists(st.tuples(st.integers(0, 5), st.lists(st.sampled_from([4, 8, 12]), max_size=3)), max_size=30))
def test_the_table_is_empty_once_everybody_left(moves):
    made = PromiseTable(BLOCK, lambda promise: True)
    for producer, positions in moves:
        made.make(prompt(str(producer), "aaaabbbbcccc"[: 4 * (1 + producer % 3)]), positions)
    for producer in range(6):
        made.drop(str(producer))
    assert len(made) == 0
    assert made._positions == []
    assert made.by_producer == {}


# Stamps and arrivals


def test_a_stamp_is_as_old_as_it_is_beyond_the_quickest_way():
    clock = StampClock()
    assert clock.age(1_000.0, 5.0) == 0.0
    clock.observe(1_000.0, 5.0)
    assert clock.age(1_000.0, 5.030) == pytest.approx(0.030)
    # One that came quicker makes all others older.
    clock.observe(1_001.0, 5.990)
    assert clock.age(1_001.0, 6.0) == pytest.approx(0.010)


def test_a_wall_clock_that_was_set_back_is_forgotten_within_two_minutes():
    clock = StampClock()
    for now in range(0, 300, 10):
        clock.observe(now + (1_000.0 if now < 100 else 900.0), float(now))
    assert clock.age(1_200.0 - 10.0, 290.0) == pytest.approx(0.0)
    assert clock.age(1_190.0, 290.005) == pytest.approx(0.005)


def test_shared_tokens_are_whole_blocks():
    one, other = prompt("a", "aaaabbbbcccc"), prompt("b", "aaaabbbbdddd")
    assert shared_tokens(one.block_hashes, other.block_hashes, BLOCK) == 8
    assert shared_tokens(one.block_hashes, [], BLOCK) == 0
    assert seem_related(list(range(100)), [*range(60), *range(500, 540)])
    assert not seem_related(list(range(100)), list(range(500, 600)))


def watched(arrivals, started=("aaaabbbbcccc",), held_s=None, end=0, worth=7, **options):
    watch = ArrivalWatch(BLOCK, BLOCK, 8_192, recurrent=options.pop("recurrent", True))
    watch.begin(Watch(traffic=3, stamp=10.0, wait_s=0.005, held_s=held_s, joined=0))
    for number, text in enumerate(started):
        one = prompt(f"s{number}", text)
        one.prompt_token_ids = [ord(letter) for letter in text]
        watch.started(one, end, 0, options.get("is_optional", False))
    watch.current.running = True
    watch.current.seconds = 0.045
    for number, (offset, text) in enumerate(arrivals):
        one = prompt(f"a{number}", text)
        one.prompt_token_ids, one.arrival_time = [ord(letter) for letter in text], 10.0 + offset
        watch.arrived(one)
    return watch.finish(RoundCost(0.045, 25e-6), lambda tokens, consumers: tokens * consumers > worth)


def test_strangers_within_the_bound_could_have_shared_the_round():
    seen = watched([(0.001, "xxxxyyyy"), (0.004, "zzzzyyyy")])
    assert (seen.joined, seen.late, seen.dependent_offset) == (2, 0, None)
    assert seen.offsets == pytest.approx((0.001, 0.004))


def test_one_past_the_bound_is_late_if_it_is_near_or_related():
    assert watched([(0.001, "xxxx"), (0.006, "zzzz")]).late == 1
    assert watched([(0.001, "xxxx"), (0.030, "aaaabbbbdddd")]).late == 1
    assert watched([(0.001, "xxxx"), (0.030, "zzzzyyyyvvvv")]).late == 0
    # After the answer it may be the answer's consequence.
    assert watched([(0.001, "xxxx"), (0.046, "aaaabbbbdddd")]).late == 0


def test_a_sibling_that_needs_a_state_stored_nowhere_is_what_a_hold_would_have_saved():
    seen = watched([(0.001, "aaaabbbbdddd")], end=12)
    assert (seen.repeated_tokens, seen.dependent_offset) == (8, pytest.approx(0.001))
    # Not worth a junction: it computes four tokens itself, in the same round.
    seen = watched([(0.001, "aaaaxxxxdddd")], end=12)
    assert (seen.joined, seen.repeated_tokens, seen.dependent_offset) == (1, 0, None)


def test_a_sibling_of_a_state_that_is_stored_anyway_gains_nothing_unless_that_stop_may_be_left_out():
    assert watched([(0.001, "aaaaxxxx")], end=4).joined == 0
    siblings = [(0.001, "aaaayyyy"), (0.002, "aaaazzzz")]
    assert watched(siblings, started=("aaaaxx",), end=4, is_optional=True, worth=15).joined == 0
    assert watched(siblings, started=("aaaaxx",), end=4, is_optional=True, worth=16).joined == 2
    assert watched(siblings, started=("aaaaxx",), end=4, worth=16).joined == 0


def test_full_attention_shares_rounds_with_everybody():
    assert watched([(0.001, "aaaabbbbdddd")], recurrent=False).joined == 1
