"""Batches of decisions as trees: the state, then questions, then candidates, each computed once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from delta import CHUNK
from network import Segment
from prompts import Renderer, Row

from radixflow.decisions import ReadStrategy
from radixflow.decisions.encoding import common_length
from radixflow.synthetic import Sample
from radixflow.synthetic.generator import FACTS

# Lengths of segments by level, in tokens: the fewer, the more padding; the more, the more small operations.
_BUCKETS = ((4096,), (48, 4096), (16, 48, 4096))


@dataclass(frozen=True, slots=True)
class Batch:
    """Questions of one way to read."""

    segments: list[Segment]
    labels: torch.Tensor
    """(questions, most options): a label read's tokens, a branch read's leaves; -1: no such option."""
    leaves: torch.Tensor
    """Of a label read: the leaf of each question."""
    answers: torch.Tensor
    """Place of the right option, of each question."""
    facts: torch.Tensor
    """(decisions, facts): what each text says; -100: unknown."""
    decisions: torch.Tensor
    """The decision of each leaf."""


@dataclass
class _Node:
    ids: tuple[int, ...]
    parent: _Node | None
    decision: int = -1
    segment: int = -1
    row: int = -1


def _shared(prompts: Sequence[tuple[int, ...]]) -> int:
    """Return how many tokens all prompts begin with, leaving each at least one of its own."""
    first = prompts[0]
    if len(prompts) == 1:
        return len(first) // 2
    return min(min(common_length(first, other), len(other) - 1, len(first) - 1) for other in prompts[1:])


def make_batch(decisions: Sequence[Sequence[Row]], facts: Sequence[dict[str, int]] = ()) -> Batch:
    """Put the rows of some decisions together, all of them of one strategy."""
    levels: list[list[_Node]] = [[], [], []]
    leaves: list[list[_Node]] = []
    rows = [row for decision in decisions for row in decision]
    for place, decision in enumerate(decisions):
        cut = _shared([prompt for row in decision for prompt in row.prompts])
        root = _Node(decision[0].prompts[0][:cut], None) if cut else None
        if root is not None:
            levels[0].append(root)
        for row in decision:
            middle = cut if len(row.prompts) == 1 else max(cut, _shared(row.prompts))
            parent = root
            if middle > cut:
                parent = _Node(row.prompts[0][cut:middle], root)
                levels[1].append(parent)
            found = [_Node(prompt[middle:], parent, place) for prompt in row.prompts]
            levels[2].extend(found)
            leaves.append(found)
    segments, offsets = _segments(levels)
    # Leaves are numbered in the order of their segments.
    numbers = [[offsets[node.segment] + node.row for node in found] for found in leaves]
    labels = torch.full((len(rows), max(row.options for row in rows)), -1)
    for index, (row, found) in enumerate(zip(rows, numbers, strict=True)):
        read = row.labels or found
        labels[index, : len(read)] = torch.tensor(read)
    answers = torch.tensor([row.answer for row in rows])
    known = torch.tensor([[fact.get(name, -100) for name in FACTS] for fact in facts] or [[-100] * len(FACTS)])
    owners = torch.empty(sum(map(len, leaves)), dtype=torch.long)
    for found, places in zip(leaves, numbers, strict=True):
        owners[places] = found[0].decision
    return Batch(segments, labels, torch.tensor([found[0] for found in numbers]), answers, known, owners)


def _segments(levels: Sequence[Sequence[_Node]]) -> tuple[list[Segment], dict[int, int]]:
    """Cut levels into segments of like length; return them, and the number of the first leaf of those with leaves."""
    segments: list[Segment] = []
    offsets: dict[int, int] = {}
    count = 0
    for depth, nodes in enumerate(levels):
        groups: dict[tuple[int, int], list[_Node]] = {}
        for node in nodes:
            bucket = next(size for size in _BUCKETS[depth] if len(node.ids) <= size)
            groups.setdefault((-1 if node.parent is None else node.parent.segment, bucket), []).append(node)
        for (parent, _), group in sorted(groups.items()):
            width = max(len(node.ids) for node in group)
            width += -width % CHUNK
            for row, node in enumerate(group):
                node.segment, node.row = len(segments), row
            ids = torch.tensor([[*node.ids, *[0] * (width - len(node.ids))] for node in group])
            lengths = torch.tensor([len(node.ids) for node in group])
            above = None if parent < 0 else torch.tensor([node.parent.row for node in group if node.parent])
            is_leaf = depth == len(levels) - 1
            if is_leaf:
                offsets[len(segments)] = count
                count += len(group)
            segments.append(Segment(ids, lengths, None if parent < 0 else parent, above, is_leaf))
    return segments, offsets


def draw(decisions: Iterator[Sample], renderer: Renderer, strategy: ReadStrategy, questions: int) -> Iterator[Batch]:
    """Yield batches of at least so many questions."""
    while True:
        taken: list[list[Row]] = []
        facts: list[dict[str, int]] = []
        while sum(map(len, taken)) < questions:
            sample = next(decisions)
            taken.append(list(renderer.rows(sample, strategy)))
            facts.append(sample.facts)
        yield make_batch(taken, facts)
