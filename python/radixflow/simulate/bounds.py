"""The fewest tokens and rounds that any scheduler could need, counted while decisions pass by."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from radixflow.simulate.arrivals import Decision


@dataclass(frozen=True, slots=True)
class Bounds:
    """Lower bounds of a run."""

    tokens: int
    """Each distinct full block once, each remainder once a branch; decoded tokens beside them."""
    rounds: int
    """From budget, rows and the clients' waiting for answers; recomputing is allowed."""
    rounds_with_reuse: int
    """The same where nothing that could be shared is computed twice: who needs a recurrent state waits a round."""


class BoundCounter:
    """Counts decisions as they pass. Memory: none a decision where decisions share nothing, else a hash a block.

    Tokens: a prompt of n tokens costs its full blocks of ``unit`` tokens, those that another prompt with the same salt
    brought excepted, and ``n mod unit``; one token where the same prompt was there before. A branch that decodes m
    tokens costs m - 1 more, and as many rounds.

    Rounds: at least ``tokens / budget``; at least rows scheduled over ``rows``; and, as a client of a closed loop sends
    its next decision only when its last one is answered, at least the sum of the decisions' depths over the number of
    clients. The depth of a decision is 1 and the tokens decoded after the first. With
    reuse on a model with recurrent states, it is at least one more than the levels of sharing: the state at a junction
    is there only after the round that computed it.
    """

    def __init__(
        self,
        *,
        unit: int,
        budget: int,
        rows: int,
        clients: int | None,
        recurrent: bool,
        independent: bool,
    ) -> None:
        """Set up the counts.

        Args:
            unit: tokens a block hash covers.
            budget: tokens a round.
            rows: requests a round.
            clients: of a closed loop; None: an open loop, in which nobody waits for answers.
            recurrent: the model has recurrent states.
            independent: decisions share nothing with each other, so blocks of earlier ones may be forgotten.
        """
        self._unit, self._budget, self._rows, self._clients = unit, budget, rows, clients
        self._recurrent, self._independent = recurrent, independent
        self._known: set[int] = set()
        self._ends: set[int] = set()
        """Blocks at which a prompt ended."""
        self._tokens = 0
        self._row_rounds = 0
        self._depths = self._reuse_depths = 0
        self._deepest = self._reuse_deepest = 0

    def pass_by(self, decisions: Iterable[Decision]) -> Iterator[Decision]:
        """Hand on decisions and count them."""
        for decision in decisions:
            self.add(decision)
            yield decision

    def add(self, decision: Decision) -> None:
        """Count one decision."""
        if self._independent:
            self._known.clear()
            self._ends.clear()
        depth = 0
        paths: list[list[int]] = []
        sharing: dict[int, int] = {}
        for branch in decision:
            decoded = branch.max_tokens - 1
            path, fresh, last = self._blocks(branch.tokens, branch.salt, sharing)
            paths.append(path)
            own = fresh * self._unit + len(branch.tokens) % self._unit
            if len(branch.tokens) % self._unit == 0:
                # The last token of a prompt is computed in any case; a longer one may have had it from this one.
                own = max(own, int(last in self._ends))
                self._ends.add(last)
            self._tokens += own + decoded
            # A row in the round that ends the prefill, and in each that decodes.
            self._row_rounds += 1 + decoded
            depth = max(depth, 1 + decoded)
        levels = max((_levels(path, sharing) for path in paths), default=0) if self._recurrent else 0
        reuse = max(depth, 1 + levels)
        self._depths += depth
        self._reuse_depths += reuse
        self._deepest = max(self._deepest, depth)
        self._reuse_deepest = max(self._reuse_deepest, reuse)

    def _blocks(self, tokens: list[int], salt: str | None, sharing: dict[int, int]) -> tuple[list[int], int, int]:
        """Return the keys of the blocks that this decision brought, how many are new with this branch, and its last."""
        key = hash(salt)
        path: list[int] = []
        fresh = 0
        for start in range(0, len(tokens) - len(tokens) % self._unit, self._unit):
            key = hash((key, tuple(tokens[start : start + self._unit])))
            if key not in self._known:
                self._known.add(key)
                sharing[key] = 0
                fresh += 1
            if key in sharing:
                sharing[key] += 1
                path.append(key)
        return path, fresh, key

    @property
    def bounds(self) -> Bounds:
        """Return the bounds of what has passed."""
        flat = max(-(-self._tokens // self._budget), -(-self._row_rounds // self._rows))
        if self._clients is None:
            return Bounds(self._tokens, max(flat, self._deepest), max(flat, self._reuse_deepest))
        chained = -(-self._depths // self._clients)
        chained_reuse = -(-self._reuse_depths // self._clients)
        return Bounds(self._tokens, max(flat, chained), max(flat, chained_reuse))


def _levels(path: list[int], sharing: dict[int, int]) -> int:
    """Count the junctions on a branch's way: where fewer branches go on than came, or all that came part."""
    return len({sharing[key] for key in path if sharing[key] > 1})
