"""Train the decision model from scratch: `python training/train.py --help`."""

from __future__ import annotations

import json
import math
import time
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Annotated

import torch
import torch.multiprocessing
import typer
from backbone import DecisionNetwork
from batches import draw
from losses import Teacher, read_loss
from prompts import Renderer
from rich.console import Console
from tokenizers import Tokenizer
from tokens import VOCAB_SIZE, build_tokenizer
from torch import distributed, nn
from warm import warm_up
from wear import worn

from radixflow.decisions import ReadStrategy
from radixflow.models.decision_model import decision_shape
from radixflow.synthetic import samples

console = Console()
_WARM_STEPS = 50
_LOG_EVERY, _SAVE_EVERY = 25, 50
_MOST_QUESTIONS = 5
"""Of a state: the more there are, the less often states are computed."""
_FACTS_WEIGHT = 0.5
_FIGURES = (
    "spent",
    *(f"{kind}_{name}" for kind in ReadStrategy for name in ("loss", "facts", "right", "batches")),
)


@dataclass(frozen=True, slots=True)
class Settings:
    """What the command was told; see its help."""

    out: Path
    minutes: float
    branch_from: float
    questions: int
    peak: float
    seed: int
    workers: int
    resume: Path | None


def rate(spent: float, step: int, peak: float) -> float:
    """Return the learning rate at a share of the time: a warm-up, then half a cosine down to a fiftieth."""
    return peak * min(1.0, (step + 1) / _WARM_STEPS) * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * min(1.0, spent))))


def main(
    out: Annotated[Path, typer.Option(help="Folder of checkpoints, curve and tokenizer.")],
    minutes: Annotated[float, typer.Option(help="How long to train, wall clock.")] = 30.0,
    branch_from: Annotated[float, typer.Option(help="Share of the time after which branches are learned too.")] = 0.3,
    questions: Annotated[int, typer.Option(help="Questions a step and worker; half as many by branches.")] = 32,
    peak: Annotated[float, typer.Option(help="Highest learning rate.")] = 2.5e-3,
    seed: Annotated[int, typer.Option(help="Of weights and decisions.")] = 29,
    workers: Annotated[int, typer.Option(help="Processes, one core each: 1 or 2.")] = 2,
    resume: Annotated[Path | None, typer.Option(help="A checkpoint to begin with.")] = None,
) -> None:
    """Train both reads of one backbone; with two workers one of them learns labels and the other one branches."""
    out.mkdir(parents=True, exist_ok=True)
    stored = out / "tokenizer.json"
    if not stored.exists():
        build_tokenizer(seed).save(str(stored))
    (out / "meeting").unlink(missing_ok=True)
    settings = Settings(out, minutes, branch_from, questions, peak, seed, workers, resume)
    if workers == 1:
        work(0, settings)
    else:
        torch.multiprocessing.spawn(work, (settings,), nprocs=workers)


def work(rank: int, told: Settings) -> None:
    """Train as one of the workers; all of them have the same weights after each step."""
    torch.set_num_threads(1)
    torch.manual_seed(told.seed)
    meeting = f"file://{told.out.resolve() / 'meeting'}"
    distributed.init_process_group("gloo", init_method=meeting, rank=rank, world_size=told.workers)
    network = DecisionNetwork(decision_shape(VOCAB_SIZE))
    teacher = Teacher(network.lm_head.in_features)
    renderer = Renderer(Tokenizer.from_file(str(told.out / "tokenizer.json")))
    if told.resume is not None:
        network.load_state_dict(torch.load(told.resume, weights_only=True))
    else:
        console.print({"warm_up_loss": warm_up(network, teacher, renderer, told.seed)})
    weights = [*network.parameters(), *teacher.parameters()]
    groups = [
        {"params": [weight for weight in weights if weight.dim() >= 2], "weight_decay": 0.05},
        {"params": [weight for weight in weights if weight.dim() < 2], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=told.peak, betas=(0.9, 0.98))
    feeds = {}
    for place, kind in enumerate(ReadStrategy):
        seed = told.seed + 10 * rank + place
        decisions = worn(samples("train", seed, most_questions=_MOST_QUESTIONS), Random(seed))
        feeds[kind] = draw(decisions, renderer, kind, told.questions >> place)
    curve: list[dict[str, float]] = []
    sums: dict[str, list[float]] = {}
    begin, step, spent = time.monotonic(), 0, 0.0
    while spent < 1.0:
        for group in optimizer.param_groups:
            group["lr"] = rate(spent, step, told.peak)
        kinds = [ReadStrategy.LABEL]
        if spent >= told.branch_from:
            kinds = list(ReadStrategy) if told.workers == 1 else list(ReadStrategy)[rank : rank + 1]
        figures = torch.zeros(len(_FIGURES))
        for kind in kinds:
            loss, facts, right = read_loss(network, teacher, next(feeds[kind]), kind)
            (loss + _FACTS_WEIGHT * facts).backward()
            mine = _FIGURES.index(f"{kind}_loss")
            figures[mine : mine + 4] += torch.stack((loss, facts, right, torch.ones(()))).detach()
        if rank == 0:
            figures[0] = (time.monotonic() - begin) / 60 / told.minutes
        spent = _share(weights, figures, told.workers)
        torch.nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        step += 1
        for name, value in zip(_FIGURES[1:], figures[1:].tolist(), strict=True):
            sums.setdefault(name, []).append(value)
        if rank == 0 and step % _LOG_EVERY == 0:
            curve.append({"step": step, "minutes": round(spent * told.minutes, 2), **_means(sums)})
            console.print(json.dumps(curve[-1]), soft_wrap=True)
            sums.clear()
        if rank == 0 and (step % _SAVE_EVERY == 0 or spent >= 1.0):
            _save(network, curve, told.out)
    distributed.destroy_process_group()


def _share(weights: list[nn.Parameter], figures: torch.Tensor, workers: int) -> float:
    """Add up gradients and figures of all workers; return the share of the time that the first one has seen pass."""
    for weight in weights:
        if weight.grad is None:
            weight.grad = torch.zeros_like(weight)
    flat = torch.cat([figures, *[weight.grad.flatten() for weight in weights]])
    distributed.all_reduce(flat)
    figures.copy_(flat[: len(figures)])
    place = len(figures)
    for weight in weights:
        weight.grad.copy_(flat[place : place + weight.numel()].view_as(weight) / workers)
        place += weight.numel()
    return figures[0].item()


def _means(sums: dict[str, list[float]]) -> dict[str, float]:
    """Return the mean of each figure over the batches that had it."""
    means: dict[str, float] = {}
    for kind in ReadStrategy:
        count = sum(sums[f"{kind}_batches"])
        for name in ("loss", "facts", "right"):
            if count:
                means[f"{kind}_{name}"] = round(sum(sums[f"{kind}_{name}"]) / count, 4)
    return means


def _save(network: DecisionNetwork, curve: list[dict[str, float]], out: Path) -> None:
    """Write a checkpoint, whole or not at all."""
    torch.save(network.state_dict(), out / "checkpoint.tmp")
    (out / "checkpoint.tmp").rename(out / "checkpoint.pt")
    (out / "curve.json").write_text(json.dumps(curve, indent=1) + "\n")


if __name__ == "__main__":
    typer.run(main)
