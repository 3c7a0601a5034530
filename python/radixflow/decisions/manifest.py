"""What a model was trained for: how it is read, on which prompts, with which labels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from radixflow.decisions.errors import DecisionError, ManifestError, shorten
from radixflow.decisions.labels import LabelForm
from radixflow.decisions.template import CHAT, ReadStrategy, Template, parse_template

MANIFEST_FILE = "radixflow_manifest.json"
"""Name of the file in a model's folder."""
_STRICT = ConfigDict(extra="forbid", frozen=True)


class LabelStrategy(BaseModel):
    """How a model is read by labels."""

    model_config = _STRICT

    template: str = Field(
        default=CHAT, description="'chat' for the tokenizer's chat template, or text with {state} and {question}"
    )
    label_form: LabelForm = Field(description="'names' or 'letters'")
    label_form_by_type: dict[Literal["choice", "noul", "score"], LabelForm] = Field(
        default_factory=dict, description="question types trained with another form, type to 'names' or 'letters'"
    )

    def form_of(self, type_name: str) -> LabelForm:
        """Return the label form of a type of question."""
        return next((form for kind, form in self.label_form_by_type.items() if kind == type_name), self.label_form)

    @property
    def parsed(self) -> Template | None:
        """The template; None for the chat template.

        Raises:
            ManifestError: see :func:`parse_template`.
        """
        if self.template == CHAT:
            return None
        return parse_template(self.template, ReadStrategy.LABEL, "strategies.label.template")


class BranchStrategy(BaseModel):
    """How a model is read by branches."""

    model_config = _STRICT

    template: str = Field(description="text with {state}, {question} and {option}")
    temperature: float = Field(
        default=1.0,
        gt=0.0,
        le=1e6,
        allow_inf_nan=False,
        strict=True,
        description="what scores are divided by, a number above 0",
    )

    @property
    def parsed(self) -> Template:
        """The template.

        Raises:
            ManifestError: see :func:`parse_template`.
        """
        return parse_template(self.template, ReadStrategy.BRANCH, "strategies.branch.template")


class Strategies(BaseModel):
    """One or both of the two ways to read a model."""

    model_config = _STRICT

    label: LabelStrategy | None = Field(default=None, description="an object, or null: not trained for it")
    branch: BranchStrategy | None = Field(default=None, description="an object, or null: not trained for it")


class ModelManifest(BaseModel):
    """A model's manifest."""

    model_config = _STRICT

    format: Literal[1] = Field(default=1, description="1")
    strategies: Strategies = Field(description="an object with label, branch or both")

    @model_validator(mode="after")
    def _is_usable(self) -> Self:
        """Refuse a manifest that nothing can be read by."""
        strategies = self.strategies
        if strategies.label is None and strategies.branch is None:
            raise ManifestError("strategies names neither label nor branch; give at least one of them")
        for strategy in (strategies.label, strategies.branch):
            if strategy is not None:
                _ = strategy.parsed
        return self

    @property
    def trained_for(self) -> tuple[ReadStrategy, ...]:
        """The strategies it has; the first one is used where a request names none."""
        return tuple(kind for kind in ReadStrategy if getattr(self.strategies, kind) is not None)

    def choose(self, asked: str | None = None) -> ReadStrategy:
        """Return the strategy for a request.

        Args:
            asked: ``DecisionRequest.strategy``; None: whatever there is.

        Raises:
            DecisionError: the model was trained for another one.
        """
        if asked is not None and asked not in self.trained_for:
            names = " and ".join(repr(str(kind)) for kind in self.trained_for)
            raise DecisionError(
                "strategy", f"is {shorten(asked)}, but this model was trained for {names}", "leave it out"
            )
        return self.trained_for[0] if asked is None else ReadStrategy(asked)


def letters_manifest() -> ModelManifest:
    """Return what a model without a manifest is taken for: an instruct model, asked for letters in a chat."""
    return ModelManifest(strategies=Strategies(label=LabelStrategy(label_form=LabelForm.LETTERS)))


def parse_manifest(value: object, source: str) -> ModelManifest:
    """Check a manifest.

    Args:
        value: its JSON value.
        source: where it came from, for errors.

    Raises:
        ManifestError: every field that is wrong, a line each.
    """
    try:
        return ModelManifest.model_validate(value)
    except ValidationError as error:
        lines = [_explain(dict(found)) for found in error.errors(include_url=False)]
        raise ManifestError("\n".join(f"manifest {source}: {line}" for line in lines)) from None


def load_manifest(path: Path) -> ModelManifest:
    """Read a manifest from a file.

    Raises:
        ManifestError: no such file, not UTF-8 JSON, or not a manifest.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ManifestError(f"manifest {path}: can't be read ({error.strerror}); check the path") from None
    except (ValueError, RecursionError) as error:
        raise ManifestError(f"manifest {path}: not JSON ({error}); write one JSON object in UTF-8") from None
    return parse_manifest(value, str(path))


def _explain(found: dict[str, Any]) -> str:
    """Turn a finding of a validation into a line: field, value, fix."""
    if found["type"] == "value_error":
        return str(found["ctx"]["error"])
    place = ".".join(str(part) for part in found["loc"] if part != "[key]") or "(whole)"
    if found["type"] == "missing":
        return f"field {place!r} is missing; add it"
    if found["type"] == "extra_forbidden":
        return f"field {place!r} is unknown (value {shorten(found['input'])}); leave it out"
    model: Any = ModelManifest
    names = {"label": LabelStrategy, "branch": BranchStrategy, "strategies": Strategies}
    for part in found["loc"][:-1]:
        model = names.get(str(part), model)
    info = model.model_fields.get(str(found["loc"][-1])) if found["loc"] else None
    fix = f"give {info.description}" if info is not None else "give what the message asks for"
    return f"field {place!r} is {shorten(found['input'])} ({found['msg']}); {fix}"
