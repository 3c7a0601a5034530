"""What is served: its name, its manifest, its tokenizer, and how it can be read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from radixflow.decisions import (
    MANIFEST_FILE,
    LabelError,
    ModelManifest,
    ReadStrategy,
    letters_manifest,
    load_manifest,
)
from radixflow.decisions.errors import shorten
from radixflow.errors import RadixFlowError
from radixflow.serving.labels import Labels, find_labels
from radixflow.serving.prompts import Prompts
from radixflow.serving.protocols import ModelConfig
from radixflow.serving.reads import BranchRead, LabelRead, Read

_LOGPROB_MODES = ("raw_logprobs", "processed_logprobs")
_RUNNERS = {ReadStrategy.LABEL: "generate", ReadStrategy.BRANCH: "pooling"}


class UnknownModelError(RadixFlowError, LookupError):
    """The request names a model that isn't served (HTTP 404)."""


@dataclass(frozen=True, slots=True)
class ServedModel:
    """One model, ready to be asked."""

    names: frozenset[str]
    """The base model's names; adapters are checked where they are kept."""
    name: str
    manifest: ModelManifest
    """Its strategies are those that this engine can run."""
    prompts: Prompts
    labels: Labels | None
    """None where nothing is read by labels."""
    reads: Mapping[ReadStrategy, Read]
    max_model_len: int
    """Tokens of the longest prompt plus answer."""
    adapters: Mapping[str, object]
    """Name to adapter, as vLLM keeps them; may grow and shrink."""

    def read(self, strategy: ReadStrategy) -> Read:
        """Return how a strategy is run."""
        return self.reads[strategy]

    def check_name(self, name: str | None) -> None:
        """Refuse a model that isn't served.

        Raises:
            UnknownModelError: with the names that are.
        """
        if name and name not in self.names and name not in self.adapters:
            known = ", ".join(sorted({*self.names, *self.adapters}))
            raise UnknownModelError(f"model is {shorten(name)}, which isn't served here; use {known}, or leave it out")


def find_manifest(model: str, given: Path | None) -> ModelManifest | None:
    """Return the manifest of a model, or None where it has none.

    Args:
        model: the model's folder or name.
        given: a manifest that replaces the model's own.

    Raises:
        ManifestError: there is one, and it is wrong.
    """
    if given is not None:
        return load_manifest(given)
    path = Path(model) / MANIFEST_FILE
    return load_manifest(path) if path.is_file() else None


def runnable(
    manifest: ModelManifest | None, model_config: ModelConfig, supported_tasks: tuple[str, ...]
) -> ModelManifest:
    """Return the part of a manifest that an engine can run.

    Args:
        manifest: the model's; None: it has none.
        model_config: vLLM's ``ModelConfig``.
        supported_tasks: what the engine can do.

    Raises:
        LabelError: nothing of it (HTTP 501); the message says which flag or file would change that.
    """
    runner = str(model_config.runner_type)
    if manifest is None:
        if runner != "generate":
            raise LabelError(
                f"this model has no {MANIFEST_FILE}, and nothing else says how a {runner} model scores candidates; "
                "add one, or name it with --manifest"
            )
        manifest = letters_manifest()
    kept = {kind: getattr(manifest.strategies, kind) for kind in manifest.trained_for if _RUNNERS[kind] == runner}
    if not kept:
        kinds = " and ".join(f"{str(kind)!r} (--runner {_RUNNERS[kind]})" for kind in manifest.trained_for)
        raise LabelError(f"this model was trained to be read by {kinds}, but is served with --runner {runner}")
    if ReadStrategy.BRANCH in kept and "classify" not in supported_tasks:
        raise LabelError(
            f"candidates are scored by a classifier head, but this engine only does {', '.join(supported_tasks)}; "
            "serve it with --convert classify"
        )
    if ReadStrategy.LABEL in kept and model_config.logprobs_mode not in _LOGPROB_MODES:
        raise LabelError(
            f"--logprobs-mode is {model_config.logprobs_mode}, which gives no probabilities of labels; "
            f"use {' or '.join(_LOGPROB_MODES)}"
        )
    strategies = manifest.strategies.model_copy(
        update={"label": kept.get(ReadStrategy.LABEL), "branch": kept.get(ReadStrategy.BRANCH)}
    )
    return manifest.model_copy(update={"strategies": strategies})


def build_model(
    *,
    names: tuple[str, ...],
    adapters: Mapping[str, object],
    manifest: ModelManifest,
    prompts: Prompts,
    max_model_len: int,
) -> ServedModel:
    """Check a model's labels, and put everything together.

    Args:
        names: the base model's names, the one to answer with first.
        adapters: vLLM's own mapping, name to adapter.
        manifest: from :func:`runnable`.
        prompts: its tokenizer and chat template.
        max_model_len: tokens.

    Raises:
        LabelError: its tokenizer can't be read by labels.
    """
    label, branch = manifest.strategies.label, manifest.strategies.branch
    reads: dict[ReadStrategy, Read] = {}
    if label is not None:
        reads[ReadStrategy.LABEL] = LabelRead()
    if branch is not None:
        reads[ReadStrategy.BRANCH] = BranchRead(branch.temperature)
    return ServedModel(
        names=frozenset(names),
        name=names[0],
        manifest=manifest,
        prompts=prompts,
        labels=None if label is None else find_labels(prompts, label),
        reads=reads,
        max_model_len=max_model_len,
        adapters=adapters,
    )
