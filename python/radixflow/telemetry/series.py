"""Prometheus series: what they are called, and how a process gets them; without prometheus_client there are none."""

from __future__ import annotations

import bisect
import functools
import importlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
"""Set before the start, processes share their series through files in that folder."""
_FILE_BYTES = 1 << 16
"""What prometheus_client gives a new file; all series of ours fit into it."""


@dataclass(frozen=True, slots=True)
class Series:
    """One series as a scrape shows it."""

    name: str
    help: str
    labels: tuple[str, ...] = ()
    bounds: tuple[float, ...] = ()
    """Upper bounds of a histogram's buckets, seconds; none: a counter."""


class Tally:
    """A histogram in plain numbers: adding to it costs a fraction of a microsecond, and takes no lock."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        """Start at nothing, with one bucket more than bounds."""
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, value: float) -> None:
        """Count one value; a bucket includes its upper bound."""
        self.counts[bisect.bisect_left(self.bounds, value)] += 1
        self.total += value


@functools.cache
def family(series: Series) -> Any:  # noqa: ANN401 - prometheus_client may be missing
    """Return the metric of a series, registered once a process.

    Raises:
        ImportError: prometheus_client isn't installed.
        OSError: the folder of ``PROMETHEUS_MULTIPROC_DIR`` is missing, not writable or full.
        ValueError: the name belongs to somebody else.
    """
    prometheus = importlib.import_module("prometheus_client")
    _reserve(os.environ.get(FOLDER_VARIABLE), os.getpid())
    if series.bounds:
        return prometheus.Histogram(series.name, series.help, series.labels, buckets=series.bounds)
    return prometheus.Counter(series.name, series.help, series.labels)


@functools.cache
def _reserve(folder: str | None, process: int) -> None:
    """Take the disk space of this process's files now, where taking it can fail.

    They are sparse and mapped: on a full disk the first write into a page would end the process with SIGBUS.
    """
    values = importlib.import_module("prometheus_client.values")
    if not getattr(values.ValueClass, "_multiprocess", False) or not hasattr(os, "posix_fallocate"):
        return
    if folder is None:
        raise FileNotFoundError(f"{FOLDER_VARIABLE} was unset after prometheus_client had been imported")
    for kind in ("counter", "histogram"):
        with (Path(folder) / f"{kind}_{process}.db").open("a+b") as file:
            os.posix_fallocate(file.fileno(), 0, max(_FILE_BYTES, os.fstat(file.fileno()).st_size))
