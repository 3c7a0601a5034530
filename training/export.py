"""Put a checkpoint into the package: `python training/export.py --help`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Annotated

import torch
import typer

from radixflow.models.decision_model import RECIPE, TOKENIZER, TRAINED, WEIGHTS
from radixflow.models.weights import pack


def main(
    run: Annotated[Path, typer.Option(help="Folder that train.py wrote.")],
    out: Annotated[Path, typer.Option(help="Where to.")] = TRAINED,
    temperature: Annotated[float, typer.Option(help="What branch scores are divided by.")] = 1.0,
    seed: Annotated[int, typer.Option(help="What train.py was told.")] = 29,
) -> None:
    """Round the weights to bfloat16 and write them beside the tokenizer and the recipe."""
    out.mkdir(parents=True, exist_ok=True)
    weights = torch.load(run / "checkpoint.pt", weights_only=True)
    (out / WEIGHTS).write_bytes(pack((name, weight.numpy()) for name, weight in weights.items()))
    shutil.copyfile(run / "tokenizer.json", out / TOKENIZER)
    last = json.loads((run / "curve.json").read_text())[-1]
    recipe = {"seed": seed, "steps": last["step"], "minutes": last["minutes"], "temperature": temperature}
    (out / RECIPE).write_text(json.dumps(recipe, indent=1) + "\n")


if __name__ == "__main__":
    typer.run(main)
