"""A junction policy of one's own: where it says, the producer stores a state the first time."""

from __future__ import annotations

from radixflow.policies import DeferPending, JunctionPolicy, Policy


class Farthest(JunctionPolicy):
    """Store where the nearest peer parts."""

    def plan(self, snapshot):
        assert snapshot.cached_tokens == 0 or snapshot.peers
        return [snapshot.peers[-1][0]] if snapshot.peers else []


class Beyond(JunctionPolicy):
    """Ask for a position outside the prompt."""

    def plan(self, snapshot):
        return [snapshot.native_junction, snapshot.prompt_tokens + 1000]


def farthest(config):
    return Policy("farthest", None, DeferPending(), Farthest())


def beyond(config):
    return Policy("beyond", None, DeferPending(), Beyond())


def test_the_state_is_stored_where_the_siblings_part(make_bench, tokens):
    shared = tokens("shared", 64)
    rounds = {}
    for preset in ("radixflow", f"{__file__}:farthest"):
        bench = make_bench(preset, block_size=16)
        for name in "ABCD":
            bench.add(name, [*shared, *tokens(name, 36)])
        bench.stepper.run()
        bench.assert_clean()
        rounds[preset.rpartition(":")[2]] = sum(sum(got.values()) for got in bench.stepper.rounds)
    # Reactive: the first two compute the shared part. Planned: the first alone does.
    assert rounds == {"radixflow": 100 + 100 + 2 * 36, "farthest": 100 + 3 * 36}


def test_a_junction_outside_the_prompt_is_ignored(make_bench, tokens):
    stock = make_bench("stock", block_size=16)
    bench = make_bench(f"{__file__}:beyond", block_size=16)
    for each in (stock, bench):
        each.add("A", tokens("a", 100))
        each.add("B", [*tokens("a", 64), *tokens("b", 36)])
        each.step()
    assert bench.stepper.rounds == stock.stepper.rounds


def test_no_peers_no_junction_no_cost(make_bench, tokens):
    bench = make_bench(f"{__file__}:farthest", block_size=16)
    bench.add("A", tokens("a", 100))
    assert bench.step() == {"A": 96}
    assert bench.step() == {"A": 4}


class At(JunctionPolicy):
    """Says one position beside vLLM's own."""

    def __init__(self, position):
        self.position = position

    def plan(self, snapshot):
        return [self.position, snapshot.native_junction]


def at_16(config):
    return Policy("at", None, DeferPending(), At(16))


class NoWhere(JunctionPolicy):
    """Wants no state stored, not even where vLLM would."""

    def plan(self, snapshot):
        return []


def none(config):
    return Policy("none", None, DeferPending(), NoWhere())


def at_70(config):
    return Policy("at", None, DeferPending(), At(70))


def test_a_planned_junction_is_floored_to_a_block(make_bench, tokens):
    bench = make_bench(f"{__file__}:at_70", block_size=16)
    bench.add("A", [*tokens("s", 64), *tokens("a", 36)])
    bench.add("B", [*tokens("s", 64), *tokens("b", 36)])
    assert bench.step()["A"] == 64


def test_what_a_policy_answers_replaces_vllms_own_junction(make_bench, tokens):
    shared = tokens("s", 64)
    found = []
    for preset in ("stock", f"{__file__}:at_16", f"{__file__}:none"):
        bench = make_bench(preset, block_size=16)
        bench.add("first", [*shared, *tokens("f", 36)])
        bench.stepper.run()
        # vLLM finds 64 tokens in the attention cache without a state there, and stores one at 64.
        bench.add("second", [*shared, *tokens("x", 36)])
        bench.add("third", [*shared, *tokens("y", 36)])
        start = len(bench.stepper.rounds)
        bench.step()
        found.append(bench.stepper.rounds[start]["second"])
    # The nearer of two positions ends the chunk; without any it runs to the last block.
    assert found == [64, 16, 96]
