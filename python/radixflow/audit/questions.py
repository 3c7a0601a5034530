"""The decisions of an audit: a file's, or made-up tickets."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from radixflow.audit.settings import AuditSettings
from radixflow.decisions import DecisionError, parse_decision
from radixflow.errors import ConfigError
from radixflow.synthetic import generate

Body = Mapping[str, Any]


def audit_decisions(settings: AuditSettings) -> list[Body]:
    """Return request bodies, at most ``settings.count`` of them.

    Raises:
        ConfigError: the file can't be read, or a line of it is no decision; the message names the line.
    """
    if settings.decisions is None:
        return [sample.request for sample in generate("heldout", settings.seed, settings.count)]
    bodies = _read(settings.decisions)[: settings.count]
    if not bodies:
        raise ConfigError(f"decisions: {settings.decisions} holds no decision; give a JSON object a line")
    return bodies


def _read(path: Path) -> list[Body]:
    """Read and check every line, before the first is sent."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"decisions: {path} can't be read ({error}); give a JSONL file in UTF-8") from None
    bodies = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            body = json.loads(line)
            parse_decision(body)
        except (ValueError, RecursionError, DecisionError) as error:
            raise ConfigError(f"decisions: line {number} of {path}: {error}") from None
        bodies.append(body)
    return bodies
