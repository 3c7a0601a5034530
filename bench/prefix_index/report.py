"""What the bench prints, in Markdown as it is measured, and keeps for a result folder."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple


class Target(NamedTuple):
    """Something that must hold."""

    text: str
    value: float
    limit: float
    at_least: bool = False
    """Whether more is better; otherwise the value is at most the limit."""

    @property
    def met(self) -> bool:
        """Whether it holds."""
        return self.value >= self.limit if self.at_least else self.value <= self.limit


class Report:
    """Tables, notes and targets."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.data: dict[str, Any] = {"tables": {}, "notes": [], "targets": []}
        self.targets: list[Target] = []
        self.text = ""
        """Everything printed so far."""

    def table(
        self, title: str, rows: Sequence[str], columns: Mapping[str, Mapping[str, float]], digits: int = 2
    ) -> None:
        """Print a table with a column for each of `columns`; what one of them lacks stays a dash."""
        lines = [f"\n{title}\n", "| | " + " | ".join(columns) + " |", "| --- |" + " ---: |" * len(columns)]
        for row in rows:
            cells = [f"{cell[row]:,.{digits}f}" if row in cell else "-" for cell in columns.values()]
            if set(cells) != {"-"}:
                lines.append(f"| {row} | " + " | ".join(cells) + " |")
        self._say("\n".join(lines))
        self.data["tables"][title] = columns

    def note(self, text: str) -> None:
        """Print a line."""
        self._say(f"\n{text}")
        self.data["notes"].append(text)

    def target(self, target: Target) -> None:
        """Remember a target for the end."""
        self.targets.append(target)
        self.data["targets"].append({**target._asdict(), "met": target.met})

    def finish(self) -> bool:
        """Print every target; whether all were met."""
        lines = ["\nTargets\n", "| target | measured | limit | |", "| --- | ---: | ---: | --- |"]
        for target in self.targets:
            limit = f"{'at least' if target.at_least else 'at most'} {target.limit:,.4g}"
            lines.append(f"| {target.text} | {target.value:,.4g} | {limit} | {'met' if target.met else 'MISSED'} |")
        self._say("\n".join(lines))
        return all(target.met for target in self.targets)

    def _say(self, text: str) -> None:
        self.text += text + "\n"
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
