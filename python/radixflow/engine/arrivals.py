"""Watches rounds that an idle engine starts: who arrives before they end, and what a hold would have gained."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from radixflow.policies import RoundCost, StartObservation

_MOST_STARTED = 256
_MOST_ARRIVALS = 256
_MOST_COMPARED = 8
_LATE_BOUNDS = 4.0
_SAMPLE = 64
_END_GRAIN_S = 1e-4
_STAMP_WINDOW_S = 60.0


class StampClock:
    """Front-end stamps on the scheduler's clock: the quickest way from one to the other is taken for the offset.

    Says how long a request was on its way beyond that, behind a round for instance. The smallest difference of
    the last one to two minutes counts, so that a wall clock that was set back is forgotten; until then requests
    look older than they are, and nothing is held.
    """

    def __init__(self) -> None:
        """Start without any difference seen."""
        self._current = self._former = float("inf")
        self._since = 0.0

    def observe(self, stamp: float, now: float) -> None:
        """Take an arrival into account."""
        if not 0.0 <= now - self._since < _STAMP_WINDOW_S:
            self._former, self._current, self._since = self._current, float("inf"), now
        self._current = min(self._current, now - stamp)

    def age(self, stamp: float, now: float) -> float:
        """Return how long ago a stamp is at least, seconds."""
        offset = min(self._current, self._former)
        return max(0.0, now - stamp - offset) if offset < float("inf") else 0.0


@dataclass(slots=True)
class Started:
    """One request of the round: enough to tell whether an arrival shares a prefix with it."""

    tokens: Sequence[int]
    hashes: Sequence[Any]
    chunk_end: int
    """Where it would store its first state, had no peer been known."""
    cached: int
    is_optional: bool = False
    """Whether that state is the prompt's last, and left out for peers who are known and not worth a round."""


@dataclass(slots=True)
class Watch:
    """A round in the making or in flight."""

    traffic: int
    stamp: float
    """Front-end stamp of the oldest request started."""
    wait_s: float
    held_s: float | None
    joined: int
    dependent_tokens: int | None = None
    """For a hold that ended because somebody depends: tokens it saved from being computed twice."""
    names: tuple[str, ...] = ()
    """Requests that a hold released."""
    started: list[Started] = field(default_factory=list)
    arrivals: list[tuple[float, Sequence[int], Sequence[Any]]] = field(default_factory=list)
    running: bool = False
    """The round was scheduled."""
    seconds: float | None = None
    """How long it took; None: not answered yet."""


def shared_tokens(one: Sequence[Any], other: Sequence[Any], hash_block: int) -> int:
    """Return how many tokens two prompts share, in whole hash blocks; block hashes chain, so it bisects."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[middle - 1] == other[middle - 1]:
            low = middle
        else:
            high = middle - 1
    return low * hash_block


def seem_related(one: Sequence[int], other: Sequence[int]) -> bool:
    """Whether two prompts share about half of the shorter one, judged by the tokens just before that place."""
    half = min(len(one), len(other)) // 2
    first = max(0, half - _SAMPLE)
    return list(one[first:half]) == list(other[first:half])


class ArrivalWatch:
    """At most one watched round at a time."""

    def __init__(self, hash_block: int, block: int, budget: int, recurrent: bool) -> None:
        """Set the sizes of a hash block, a state block and a round, tokens; and whether there are recurrent states."""
        self.current: Watch | None = None
        self._hash_block = hash_block
        self._block = block
        self._budget = budget
        self._recurrent = recurrent

    def begin(self, watch: Watch) -> None:
        """Watch the round that is about to be scheduled."""
        self.current = watch

    def started(self, request: Any, chunk_end: int, cached: int, is_optional: bool) -> None:  # noqa: ANN401
        """Note a request that is in the round; see :class:`Started`."""
        watch = self.current
        if watch is not None and len(watch.started) < _MOST_STARTED:
            tokens, hashes = request.prompt_token_ids or (), request.block_hashes
            watch.started.append(Started(tokens, hashes, chunk_end, cached, is_optional))

    def arrived(self, request: Any) -> None:  # noqa: ANN401
        """Note a request that came while the round was in flight."""
        watch = self.current
        if watch is not None and watch.running and len(watch.arrivals) < _MOST_ARRIVALS:
            watch.arrivals.append((request.arrival_time, request.prompt_token_ids or (), request.block_hashes))

    def finish(self, cost: RoundCost, is_worth: Callable[[int, int], bool]) -> StartObservation | None:
        """End the watch and say what was seen.

        Args:
            cost: what a round takes.
            is_worth: whether a state is worth a chunk of its own, by its tokens and the number of its consumers.
        """
        watch, self.current = self.current, None
        if watch is None or watch.seconds is None:
            return None
        # Who came after the answer may well be its consequence.
        end = watch.stamp + (watch.held_s or 0.0) + watch.seconds - _END_GRAIN_S
        arrivals = sorted((one for one in watch.arrivals if one[0] < end), key=lambda arrival: arrival[0])
        offsets = tuple(stamp - watch.stamp for stamp, _, _ in arrivals)
        held = watch.held_s is not None
        bound = watch.wait_s
        late = 0
        for offset, (_, tokens, _) in zip(offsets, arrivals, strict=True):
            missed = held or offset > bound
            near = offset <= _LATE_BOUNDS * bound
            some = watch.started[:_MOST_COMPARED]
            late += missed and (near or any(seem_related(tokens, one.tokens) for one in some))
        repeated, at, joined = (watch.dependent_tokens or 0), None, watch.joined
        if watch.dependent_tokens is not None:
            at = watch.held_s
        elif not held:
            inside = [one for offset, one in zip(offsets, arrivals, strict=True) if 0.0 <= offset <= bound]
            joined = len(inside)
            if self._recurrent and inside:
                asked = [(stamp - watch.stamp, hashes) for stamp, _, hashes in inside]
                joined, repeated, at = self._relate(watch, asked, is_worth)
            if joined and not self._saves_round(watch, inside):
                joined = 0
        return StartObservation(
            traffic=watch.traffic,
            wait_s=bound,
            held_s=watch.held_s,
            joined=joined,
            offsets=offsets,
            late=late,
            repeated_tokens=repeated,
            dependent_offset=at,
            cost=cost,
        )

    def _saves_round(self, watch: Watch, joining: Sequence[tuple[float, Sequence[int], Sequence[Any]]]) -> bool:
        """Whether the round's tokens and those of who joined take fewer rounds together than one after the other."""
        budget = self._budget
        here = sum(max(1, len(one.tokens) - one.cached) for one in watch.started)
        there = 0
        for _, tokens, hashes in joining:
            covered = 0
            if not self._recurrent:
                some = watch.started[:_MOST_COMPARED]
                covered = max((shared_tokens(one.hashes, hashes, self._hash_block) for one in some), default=0)
            there += max(1, len(tokens) - covered)
        return -(-(here + there) // budget) < -(-here // budget) + -(-there // budget)

    def _relate(
        self, watch: Watch, inside: Sequence[tuple[float, Sequence[Any]]], is_worth: Callable[[int, int], bool]
    ) -> tuple[int, int, float | None]:
        """Compare those who came within the bound with those who were in the round.

        Returns how many could have shared the round, the tokens that the first one who needs a state stored
        nowhere has to compute again, and its offset.
        """
        by_first_block: dict[Any, list[Started]] = {}
        for one in watch.started:
            if one.hashes:
                by_first_block.setdefault(one.hashes[0], []).append(one)
        free = 0
        needs: dict[int, list[tuple[float, int]]] = {}
        spares: list[int] = []
        for offset, hashes in inside:
            served = False
            for one in by_first_block.get(hashes[0], ())[:_MOST_COMPARED] if hashes else ():
                position = shared_tokens(one.hashes, hashes, self._hash_block) // self._block * self._block
                if one.cached < one.chunk_end <= position:
                    # It starts from a state that the round stores in any case, and waits for it, hold or not; or
                    # would compute those tokens itself, in the same round, if that is what it takes to share one.
                    served = True
                    if one.is_optional:
                        spares.append(one.chunk_end - one.cached)
                elif position > one.cached:
                    needs.setdefault(id(one), []).append((offset, position - one.cached))
            free += not served
        # Twice: what all of them compute again is to leave half of the round that it saves.
        if not is_worth(2 * sum(spares), 1):
            free += len(spares)
        for wanted in needs.values():
            first, tokens = min(wanted)
            if is_worth(tokens, len(wanted)):
                return free, tokens, first
        return free, 0, None
