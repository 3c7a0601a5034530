"""Progress on standard error: a live bar on a terminal, a line every few seconds in a log."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)

_LOG_EVERY_S = 10.0


class ProgressLine:
    """One stage at a time: its description, how far it is, and the seconds since it began."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live: Progress | None = None
        if console.is_terminal:
            self._live = Progress(
                SpinnerColumn(),
                TextColumn("{task.description}"),
                BarColumn(bar_width=30),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                console=console,
                transient=True,
            )
        self._task: TaskID | None = None
        self._description = ""
        self._total: int | None = None
        self._done = 0
        self._began = self._logged = time.monotonic()

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def stage(self, description: str, total: int | None = None) -> None:
        """Begin a stage of `total` steps; None when their number is unknown."""
        self._description, self._total, self._done = description, total, 0
        self._began = self._logged = time.monotonic()
        if self._live is None:
            self._console.print(f"{description} ...", highlight=False)
            return
        if self._task is not None:
            self._live.remove_task(self._task)
        self._task = self._live.add_task(description, total=total)

    def advance(self, steps: int = 1) -> None:
        """Say that `steps` more steps of the stage are done."""
        self._done += steps
        if self._live is not None and self._task is not None:
            self._live.update(self._task, advance=steps)
        self._log()

    def describe(self, description: str) -> None:
        """Change the description of the stage that runs."""
        self._description = description
        if self._live is not None and self._task is not None:
            self._live.update(self._task, description=description)
        self._log()

    def _log(self) -> None:
        now = time.monotonic()
        if self._live is not None or now - self._logged < _LOG_EVERY_S:
            return
        self._logged = now
        count = "" if self._total is None else f" {self._done}/{self._total}"
        self._console.print(f"  [{now - self._began:4.0f} s] {self._description}{count}", highlight=False, markup=False)
