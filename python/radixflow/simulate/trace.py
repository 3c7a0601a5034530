"""Recorded traffic: one JSON object a line, a line a branch, sorted by arrival."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Self

import numpy as np
from annotated_types import Ge, Le
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from radixflow.errors import ConfigError, findings, unreadable
from radixflow.simulate.arrivals import Branch, Decision

_FIRST_TOKEN, _VOCABULARY = 3, 500
_LONGEST = 65_536

TokenId = Annotated[int, Ge(0), Le(2**31 - 1)]


class Segment(BaseModel):
    """A stretch of a prompt. The same ``id`` stands for the same tokens wherever it occurs."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    id: str = Field(min_length=1, max_length=256)
    length: int = Field(ge=1, le=_LONGEST, description="tokens")

    def tokens(self) -> list[int]:
        """Return the tokens that the id stands for."""
        digest = hashlib.sha256(self.id.encode()).digest()
        draw = np.random.default_rng(int.from_bytes(digest[:8], "little"))
        tokens: list[int] = draw.integers(_FIRST_TOKEN, _VOCABULARY, self.length).tolist()
        return tokens


class TraceLine(BaseModel):
    """One branch. Give ``tokens``, or ``segments``, or ``length`` where nothing is shared."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    arrival: float = Field(ge=0.0, allow_inf_nan=False, description="seconds since the trace's start")
    group: str | None = Field(default=None, min_length=1, description="decision; none: a decision of its own")
    tokens: list[TokenId] | None = Field(default=None, min_length=1, max_length=_LONGEST, description="token ids")
    segments: list[Segment] | None = Field(default=None, min_length=1, description="what the prompt is put together of")
    length: int | None = Field(default=None, ge=1, le=_LONGEST, description="tokens that nobody shares")
    salt: str | None = Field(default=None, min_length=1, description="cache salt: nothing is shared across salts")
    max_tokens: int = Field(default=1, ge=1, le=10_000, description="tokens to generate")
    hints: dict[str, Any] | None = Field(
        default=None, description="radixflow_group and the like, as a client sends them"
    )

    @model_validator(mode="after")
    def _one_prompt(self) -> Self:
        given = [name for name in ("tokens", "segments", "length") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"give exactly one of tokens, segments and length, not {given or 'none of them'}")
        return self

    def prompt(self, number: int) -> list[int]:
        """Return the token ids; ``number`` makes those of a bare ``length`` nobody else's."""
        if self.tokens is not None:
            return list(self.tokens)
        segments = self.segments or [Segment(id=f"line {number}", length=self.length or 1)]
        return list(itertools.chain.from_iterable(segment.tokens() for segment in segments))


def _lines(path: Path) -> Iterator[tuple[int, TraceLine]]:
    found = False
    try:
        with path.open(encoding="utf-8") as stream:
            for number, text in enumerate(stream, 1):
                if not text.strip():
                    continue
                found = True
                try:
                    yield number, TraceLine.model_validate_json(text)
                except ValidationError as error:
                    raise ConfigError(_told(path, number, error)) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(unreadable("trace", path, error) + "; give a JSONL file") from error
    if not found:
        raise ConfigError(f"trace: {str(path)!r} holds no line; give a JSONL file with a line a request")


def _told(path: Path, number: int, error: ValidationError) -> str:
    found = findings(error)[0]
    return (
        f"trace {path.name}, line {number}: field {found.field or '(whole)'!r} {found.is_what:.240}; "
        f"fields: {', '.join(TraceLine.model_fields)}"
    )


def read_trace(path: Path, speed: float = 1.0) -> Iterator[tuple[float, Decision]]:
    """Yield (start, decision) in the order of their starts.

    Lines of a group make one decision if they stand within a second of its first one; a group that comes again later
    is another decision.

    Args:
        path: JSONL file of :class:`TraceLine`.
        speed: 2: twice as fast, so that arrivals are half as far apart.

    Raises:
        ConfigError: a line isn't usable; the message names the line, the field and the value.
    """
    open_groups: dict[str, tuple[float, list[Branch]]] = {}
    last = 0.0

    def close(before: float) -> Iterator[tuple[float, Decision]]:
        for name in [name for name, (start, _) in open_groups.items() if start < before]:
            start, branches = open_groups.pop(name)
            yield start / speed, branches

    for number, line in _lines(path):
        if line.arrival < last:
            raise ConfigError(
                f"trace {path.name}, line {number}: field 'arrival' is {line.arrival:g}, before the line above it "
                f"({last:g}); sort the lines by arrival"
            )
        last = line.arrival
        yield from close(last - 1.0)
        name = line.group if line.group is not None else f"\0{number}"
        start, branches = open_groups.setdefault(name, (line.arrival, []))
        branches.append(
            Branch(line.prompt(number), (line.arrival - start) / speed, line.salt, line.hints, line.max_tokens)
        )
    yield from close(float("inf"))
