"""The decision model that ships with the package: trained weights, laid out as folders that vLLM serves."""

from __future__ import annotations

import json
import struct
from functools import cache
from pathlib import Path
from typing import Literal

from radixflow.decisions import (
    CHAT,
    MANIFEST_FILE,
    BranchStrategy,
    LabelForm,
    LabelStrategy,
    ModelManifest,
    ReadStrategy,
    Strategies,
)
from radixflow.models import tokenizer
from radixflow.models.shape import ModelShape
from radixflow.models.store import ModelStoreError, json_bytes, keep

TRAINED = Path(__file__).parent / "trained"
"""What was trained: weights of both reads in one file, tokenizer, recipe. See `docs/model.md`."""
WEIGHTS, TOKENIZER, RECIPE = "model.safetensors", "tokenizer.json", "recipe.json"
BRANCH_TEMPLATE = "{state}\n\n{question}\n{options}\n\nCandidate: {option}\nFit:"
_HEADS = {ReadStrategy.LABEL: "lm_head.weight", ReadStrategy.BRANCH: "score.weight"}


def decision_shape(vocab_size: int = 3072) -> ModelShape:
    """Return the shape of the decision model: the embedded model's with a vocabulary of its own."""
    return ModelShape(vocab_size=vocab_size)


def decision_manifest(strategy: Literal["label", "branch"], *, temperature: float = 1.0) -> ModelManifest:
    """Return how the decision model is read.

    Args:
        strategy: `label` or `branch`.
        temperature: what branch scores are divided by.
    """
    if ReadStrategy(strategy) is ReadStrategy.BRANCH:
        branch = BranchStrategy(template=BRANCH_TEMPLATE, temperature=temperature)
        return ModelManifest(strategies=Strategies(branch=branch))
    label = LabelStrategy(template=CHAT, label_form=LabelForm.NAMES, label_form_by_type={"score": LabelForm.LETTERS})
    return ModelManifest(strategies=Strategies(label=label))


def decision_model(strategy: Literal["label", "branch"], *, root: Path | None = None) -> Path:
    """Return the folder of the decision model for one way to read it, writing it if it is missing or damaged.

    Args:
        strategy: `label`: a language model, read at the first token of its answer. `branch`: a classifier with one
            scalar, to be served with `--runner pooling --convert classify` and read without activation.
        root: cache folder; default `home()`.

    Returns:
        `<root>/models/decision-<strategy>-<first 16 hex digits of the content hash>`, with its
        `radixflow_manifest.json`. Both want `serve_settings(decision_shape())`.

    Raises:
        ModelStoreError: when the cache folder cannot be written, or the package lacks the weights.
    """
    kind = ReadStrategy(strategy)
    trained = _trained()
    recipe = json.loads(trained[RECIPE])
    documents = json.loads(trained[TOKENIZER])
    ids = {token["content"]: token["id"] for token in documents["added_tokens"]}
    eos, pad = ids[tokenizer.END_OF_TURN], ids[tokenizer.END_OF_TEXT]
    shape = decision_shape()
    config = shape.hf_config(eos_token_id=eos, pad_token_id=pad)
    if kind is ReadStrategy.BRANCH:
        config |= {
            "architectures": ["Qwen3NextForSequenceClassification"],
            "num_labels": 1,
            "id2label": {"0": "fit"},
            "label2id": {"fit": 0},
        }
    manifest = decision_manifest(kind.value, temperature=recipe["temperature"])
    files = {
        "config.json": json_bytes(config),
        "generation_config.json": json_bytes({"eos_token_id": eos, "pad_token_id": pad}),
        "model.safetensors": _with_head(trained[WEIGHTS], _HEADS[kind]),
        "tokenizer.json": trained[TOKENIZER],
        "tokenizer_config.json": json_bytes(tokenizer.tokenizer_config(shape.max_position)),
        MANIFEST_FILE: json_bytes(manifest.model_dump(mode="json", exclude_none=True)),
    }
    return keep(f"decision-{kind}", files, {"recipe": recipe, "shape": shape.model_dump()}, root=root)


@cache
def _trained() -> dict[str, bytes]:
    """Return the files that were trained."""
    try:
        return {name: (TRAINED / name).read_bytes() for name in (WEIGHTS, TOKENIZER, RECIPE)}
    except OSError as error:
        raise ModelStoreError(
            f"cannot read {error.filename}: {error.strerror}; install the package again, or train the model: "
            "training/README.md"
        ) from error


def _with_head(safetensors: bytes, head: str) -> bytes:
    """Return a safetensors file with one of its two heads."""
    (size,) = struct.unpack_from("<Q", safetensors)
    header = json.loads(safetensors[8 : 8 + size])
    kept: dict[str, object] = {}
    parts: list[bytes] = []
    offset = 0
    for name, entry in header.items():
        if name in _HEADS.values() and name != head:
            continue
        kept[name] = entry
        if name != "__metadata__":
            first, last = (8 + size + place for place in entry["data_offsets"])
            parts.append(safetensors[first:last])
            kept[name] = {**entry, "data_offsets": [offset, offset + last - first]}
            offset += last - first
    text = json.dumps(kept, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(parts)
