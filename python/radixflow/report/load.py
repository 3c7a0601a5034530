"""Result folders as a report sees them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from radixflow.bench.results import verify
from radixflow.errors import ConfigError

MEASURED = "measured"


@dataclass(frozen=True, slots=True)
class Folder:
    """One result folder."""

    path: Path
    summary: dict[str, Any]
    environment: dict[str, Any]

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.path.name

    @property
    def kind(self) -> str:
        """``simulate``, ``reproduce``, ``attribution``, ``ranks``, ``scale``, ``check``, or ``bench``."""
        return str(self.summary.get("kind", "bench"))

    @property
    def origin(self) -> str:
        """Where the numbers come from, in words: no reader may take a simulated one for a measured one."""
        if self.kind in ("simulate", "reproduce", "attribution", "ranks"):
            return "simulated (vLLM's real scheduler, virtual clock, no model)"
        if "gpu" in self.environment:
            return "measured on a GPU engine"
        return "measured on a CPU engine" if self.kind in ("bench", "check") else "measured: host time, no model"

    def rows(self, name: str = "rows.jsonl") -> list[dict[str, Any]]:
        """Read a file of JSON lines; empty where there is none."""
        path = self.path / name
        return [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []


def load(paths: Sequence[Path]) -> list[Folder]:
    """Read result folders.

    Raises:
        ConfigError: a folder has no summary, or is not as it was sealed; the message names folder and file.
    """
    found = []
    for path in paths:
        try:
            summary = json.loads((path / "summary.json").read_text())
            environment = json.loads((path / "environment.json").read_text())
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"results: {str(path)!r} is no result folder ({error}); give folders of bench or simulate --name"
            ) from error
        if problems := verify(path):
            raise ConfigError(
                f"results: {str(path)!r} is not as it was sealed: {', '.join(problems)}; measure it again"
            )
        found.append(Folder(path, summary, environment))
    return found
