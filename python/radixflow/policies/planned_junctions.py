"""Store a state where waiting peers part from a producer, if what that saves is worth another round."""

from __future__ import annotations

from collections.abc import Sequence

from radixflow.policies.base import JunctionPolicy, JunctionSnapshot

_MOST_CANDIDATES = 32
_INSIDE_WEIGHT = 1.5
"""A stop inside a block costs each who starts there a copy, and pays less if not all at work choose it."""
_RUNS_ON, _RUNS_ON_UNANNOUNCED = 1.0, 4.0
"""Rounds more where prompts go on past that block. Decisions whose parts were announced stop there together; others at
different times, so that the rounds are shared by few."""


class PlannedJunctions(JunctionPolicy):
    """Choose the set of junctions that saves most time.

    Peers that share at least ``p`` tokens start from the deepest chosen position up to where they part. With
    ``f(p)`` of them at ``p``, chosen positions ``p1 < p2 < ...`` after the last stored state ``p0`` save
    ``sum (p[i] - p[i-1]) * f(p[i])`` tokens, and each costs the producer one round more, but for the prompt's
    last block boundary, where vLLM stores a state anyway (unless that is optional, see ``tail_states``). That
    round's fixed cost is split among the decisions at work: ``unfinished / (1 + largest fan-out after p0)`` of
    them. Maximized exactly, by dynamic programming.

    Where states may be stored inside a block (``unit``), a stop there costs a second round if the prompt goes on past
    the block: who starts inside a block, producer or peer, has to stop at its end.

    vLLM's own junction (a prefix that was seen before) is kept once what its absence has cost, over all the
    requests that asked for it, would have paid for a round; until then it is left out where peers don't pay.
    """

    def __init__(self, round_weight: float = 1.0) -> None:
        """Set how many fixed round costs an additional chunk is charged with."""
        self.round_weight = round_weight

    def plan(self, snapshot: JunctionSnapshot) -> Sequence[int]:
        """Return the positions worth their rounds, ascending."""
        # Tokens that take as long as an additional round, which it shares with the other decisions at work. Its own
        # are those who could start from a state of this prompt that isn't stored yet.
        unit = snapshot.unit or snapshot.block_size
        start = snapshot.cached_tokens // unit * unit + unit
        company = 1 + max((fan_out for position, fan_out in snapshot.peers if position >= start), default=0)
        # As many as fill a round save one, whatever rounds take.
        tokens = min(self.round_weight * snapshot.cost.balance_tokens, snapshot.token_budget)
        price = tokens / max(1.0, snapshot.unfinished / company)
        chosen = self._best(snapshot, price)
        native = snapshot.native_junction
        if native > snapshot.cached_tokens and native not in chosen:
            asked = snapshot.repeated_tokens + native - snapshot.cached_tokens
            if asked + max(0.0, snapshot.owed_tokens) >= price or native == self._free(snapshot):
                chosen = sorted([*chosen, native])
        return chosen

    @staticmethod
    def _free(snapshot: JunctionSnapshot) -> int:
        """Return the position that costs no round, -1 for none."""
        return -1 if snapshot.is_tail_optional else snapshot.stored_anyway

    def _best(self, snapshot: JunctionSnapshot, price: float) -> list[int]:
        start, free = snapshot.cached_tokens, self._free(snapshot)
        stored = start if snapshot.stored_tokens is None else snapshot.stored_tokens
        unit = snapshot.unit or snapshot.block_size
        fan_outs: dict[int, int] = {}
        for position, fan_out in snapshot.peers:
            # A block's start may be worth it where a place inside the block, which costs more, is not.
            for at in {position // unit * unit, position // snapshot.block_size * snapshot.block_size}:
                # The first position inside a unit has the largest fan-out, and the unit's start serves all of them.
                if start < at < snapshot.prompt_tokens and at not in fan_outs:
                    fan_outs[at] = fan_out
        if free > start and free not in fan_outs:
            # Peers that part at or after the free position have it for nothing.
            fan_outs[free] = max((f for p, f in snapshot.peers if p >= free), default=0)
        if not any(fan_outs.values()):
            return []
        if len(fan_outs) > _MOST_CANDIDATES:
            best = sorted(fan_outs, key=lambda p: (p - stored) * fan_outs[p], reverse=True)[:_MOST_CANDIDATES]
            fan_outs = {p: fan_outs[p] for p in best}
        # values[i]: most that is saved with positions[i] the last one chosen; what is stored is at index 0.
        positions = [stored, *sorted(fan_outs)]
        values, came_from = [0.0], [0]
        for i in range(1, len(positions)):
            at = positions[i]
            gain, before = max(
                (values[j] + (at - positions[j]) * fan_outs[at] - price * _rounds(snapshot, positions[j], at, free), j)
                for j in range(i)
            )
            values.append(gain)
            came_from.append(before)
        i = max(range(len(values)), key=values.__getitem__)
        chosen: list[int] = []
        while i:
            chosen.append(positions[i])
            i = came_from[i]
        return chosen[::-1]


def _rounds(snapshot: JunctionSnapshot, before: int, at: int, free: int) -> float:
    """Return the rounds that a stop at ``at`` adds to those of the stop ``before`` it; ``free`` adds none."""
    block = snapshot.block_size
    if snapshot.unit in (0, block):
        return 0.0 if at == free else 1.0
    # Who starts inside a block stops at its end in any case.
    inside = {position // block for position in (snapshot.cached_tokens, before) if position % block}
    if at == free or (at % block == 0 and at // block - 1 in inside):
        return 0.0
    if at % block == 0:
        return 1.0
    # Peers may be longer: twice this one's own tokens is taken for the longest.
    longest = at + 2 * (snapshot.prompt_tokens - at)
    runs_on = 0.0
    if (at // block + 1) * block < longest and at // block not in inside:
        runs_on = _RUNS_ON if snapshot.is_announced else _RUNS_ON_UNANNOUNCED
    # A chunk that comes from further back may leave the stop at the block's start out, if that is the last one.
    stops_twice = 0 < free == before == at // block * block
    return _INSIDE_WEIGHT * (1.0 + runs_on) + stops_twice
