"""Held-out accuracy of a checkpoint, offline: `python training/evaluate.py --help`."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from pathlib import Path
from typing import Annotated

import torch
import typer
from backbone import DecisionNetwork
from batches import make_batch
from prompts import Renderer, Row
from rich.console import Console
from tokenizers import Tokenizer
from tokens import VOCAB_SIZE

from radixflow.decisions import ReadStrategy
from radixflow.models.decision_model import decision_shape
from radixflow.synthetic import generate

console = Console()
_AT_ONCE = 16
_MANY_LEVELS, _SOME_OPTIONS = 5, 4

Answered = list[tuple[Row, torch.Tensor]]


@torch.no_grad()
def answer(
    network: DecisionNetwork, renderer: Renderer, kind: ReadStrategy, split: str, seed: int, count: int
) -> Answered:
    """Return every question of a split's decisions with the logits of its options."""
    found: Answered = []
    decisions = generate(split, seed, count)
    for begin in range(0, count, _AT_ONCE):
        rows = [list(renderer.rows(sample, kind)) for sample in decisions[begin : begin + _AT_ONCE]]
        batch = make_batch(rows)
        if kind is ReadStrategy.LABEL:
            read = network.labels(batch.segments)[batch.leaves].gather(1, batch.labels.clamp(min=0))
        else:
            read = network.scores(batch.segments)[batch.labels.clamp(min=0)]
        flat = [row for decision in rows for row in decision]
        found += [(row, logits[: row.options]) for row, logits in zip(flat, read, strict=True)]
    return found


def figures(found: Answered) -> dict[str, dict[str, float]]:
    """Return accuracy, chance and count by type of question, and of what the type's target is about."""
    groups: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for row, logits in found:
        right, chance = float(logits.argmax() == row.answer), 1 / row.options
        asked = row.question_id.split("_")[0]
        for name in (row.type_name, f"{row.type_name}: {asked}"):
            groups[name].append((right, chance))
        if row.type_name == "choice" and row.options == _SOME_OPTIONS:
            groups[f"choice of {_SOME_OPTIONS}"].append((right, chance))
        if row.type_name == "score" and row.options >= _MANY_LEVELS:
            level = float((logits.softmax(-1) * torch.arange(row.options)).sum())
            near = sum(abs(other - row.answer) <= 1 for other in range(row.options)) / row.options
            groups[f"score of {_MANY_LEVELS} or more, within one"].append((float(abs(level - row.answer) <= 1), near))
    return {
        name: {
            "accuracy": round(sum(right for right, _ in rows) / len(rows), 4),
            "chance": round(sum(chance for _, chance in rows) / len(rows), 4),
            "n": len(rows),
        }
        for name, rows in sorted(groups.items())
    }


def best_temperature(found: Answered) -> float:
    """Return the temperature at which the right candidates are the most probable ones, to a twentieth."""

    def loss(temperature: float) -> float:
        return -sum(float((logits / temperature).log_softmax(-1)[row.answer]) for row, logits in found)

    return min((step / 20 for step in range(10, 61)), key=loss)


def main(
    run: Annotated[Path, typer.Option(help="Folder that train.py wrote.")],
    out: Annotated[Path | None, typer.Option(help="File for the figures.")] = None,
    split: Annotated[str, typer.Option(help="train or heldout.")] = "heldout",
    seed: Annotated[int, typer.Option(help="Of the decisions.")] = 2026,
    count: Annotated[int, typer.Option(help="Decisions.")] = 800,
) -> None:
    """Read held-out decisions both ways, with the weights rounded to bfloat16; fit the temperature on training ones."""
    torch.set_num_threads(1)
    network = DecisionNetwork(decision_shape(VOCAB_SIZE))
    network.load_state_dict(torch.load(run / "checkpoint.pt", weights_only=True))
    network.bfloat16().float()
    renderer = Renderer(Tokenizer.from_file(str(run / "tokenizer.json")))
    result: dict[str, object] = {"split": split, "seed": seed, "decisions": count}
    for kind in ReadStrategy:
        result[kind.value] = figures(answer(network, renderer, kind, split, seed, count))
    fitted = answer(network, renderer, ReadStrategy.BRANCH, "train", seed, count // 4)
    result["temperature"] = best_temperature(fitted)
    assert math.isfinite(float(result["temperature"]))
    text = json.dumps(result, indent=1)
    console.print(text)
    if out is not None:
        out.write_text(text + "\n")


if __name__ == "__main__":
    typer.run(main)
