"""The scheduler's series. Rounds count in plain numbers; a thread brings what changed to prometheus_client."""

from __future__ import annotations

import logging
import threading
import time
import weakref
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any

from radixflow.telemetry.series import Series, Tally, family

logger = logging.getLogger("vllm.radixflow")

PERIOD_S = 0.5
"""How often changes are published, seconds."""


@dataclass(frozen=True, slots=True)
class Counted:
    """A counter that is one of the recorder's totals, or, with a label, all of them below a name."""

    series: Series
    total: str
    known: tuple[str, ...] = ()
    """Label values shown from the start, so that a first event is seen as an increase."""


def _counted(name: str, total: str, text: str, label: str = "", known: tuple[str, ...] = ()) -> Counted:
    labels = ("engine", label) if label else ("engine",)
    return Counted(Series(f"radixflow_{name}_total", text, labels), total, known)


COUNTERS = (
    _counted("rounds", "rounds", "Calls of schedule() that scheduled something."),
    _counted("empty_steps", "empty_steps", "Calls of schedule() that scheduled nothing; most are polls of a hold."),
    _counted(
        "deferrals",
        "deferrals",
        "Requests passed over in a round, by reason; one request may be passed over several times.",
        "reason",
        ("pending", "promise", "zero", "allocation"),
    ),
    _counted(
        "barriers",
        "barriers",
        "Ends of the waiting scan by site; bound: a request that had been deferred often enough.",
        "reason",
        ("allocation", "zero", "round_tokens", "bound"),
    ),
    _counted(
        "holds",
        "holds",
        "Holds that ended, by reason.",
        "reason",
        ("rows", "tokens", "running", "ready", "complete", "deadline", "paused", "abandoned", "failure"),
    ),
    _counted("junctions_planned", "junctions", "Positions planned for a state where vLLM would have stored none."),
    _counted(
        "saved_tokens",
        "saved_tokens",
        "Prefix tokens of requests scheduled for the first time that were in the cache; stock's share included.",
    ),
    _counted("fallbacks", "fallbacks", "Failures of ours after which a call went on as vLLM's."),
    _counted(
        "failures",
        "failures",
        "Failures of ours by place; telemetry: counting only.",
        "where",
        ("admission", "clock", "index", "junctions", "learning", "queues", "telemetry", "traversal", "uncomputed"),
    ),
    _counted("stalls", "stalls", "Calls given to vLLM alone because nothing ran and everybody was passed over."),
    _counted("hints_ignored", "hints.ignored", "Hints of the wrong type or size."),
)
HOLD_SECONDS = Series(
    "radixflow_hold_seconds",
    "Seconds from the first call that held somebody to the one that let go.",
    ("engine",),
    (0.0005, 0.001, 0.002, 0.003, 0.004, 0.005, 0.006, 0.008, 0.01),
)
SCHEDULE_SECONDS = Series(
    "radixflow_schedule_seconds",
    "Host seconds of calls of schedule() that scheduled something.",
    ("engine",),
    (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1),
)
SCHEDULER_SERIES = (*(counted.series for counted in COUNTERS), HOLD_SECONDS, SCHEDULE_SECONDS)


class SchedulerSeries:
    """What one scheduler counts, on its way to its process's registry. Schedulers of one rank add up."""

    def __init__(self, engine: str, totals: MutableMapping[str, int], tallies: Mapping[Series, Tally]) -> None:
        """Register what isn't registered yet.

        Args:
            engine: data-parallel rank, the label ``engine``.
            totals: the recorder's; only read, but for a failure.
            tallies: the histograms.

        Raises:
            ImportError, OSError, ValueError: see :func:`radixflow.telemetry.series.family`.
        """
        self._engine = engine
        self._totals = totals
        self._lock = threading.Lock()
        self._single = {counted.total: counted for counted in COUNTERS if len(counted.series.labels) == 1}
        self._several = {counted.total: counted for counted in COUNTERS if len(counted.series.labels) == 2}
        self._children: dict[str, Any] = {}
        for total in self._single:
            self._find(total)
        for total, counted in self._several.items():
            for value in counted.known:
                self._find(f"{total}.{value}")
        self._published: dict[str, int] = {}
        self._is_broken = False
        self._histograms = [_Histogram(family(series).labels(engine), tally) for series, tally in tallies.items()]

    def publish(self) -> bool:
        """Publish what changed; returns whether that worked. A failure is logged once and ends it."""
        with self._lock:
            if self._is_broken:
                return False
            try:
                self._publish()
            except Exception as error:  # noqa: BLE001 - a round is served whether it is counted or not
                self._is_broken = True
                self._totals["failures.telemetry"] += 1
                logger.warning("radixflow: the Prometheus series stop here, serving goes on: %r", error)
                return False
            return True

    def _publish(self) -> None:
        # A list first: the scheduler's thread may add a name meanwhile.
        for name, total in list(self._totals.items()):
            more = total - self._published.get(name, 0)
            if more:
                self._published[name] = total
                child = self._find(name)
                if child is not None:
                    child.inc(more)
        for histogram in self._histograms:
            histogram.publish()

    def _find(self, name: str) -> Any:  # noqa: ANN401
        """Return the counter of a total; None for totals that have no series."""
        if name in self._children:
            return self._children[name]
        child = None
        group, _, value = name.partition(".")
        if name in self._single:
            child = family(self._single[name].series).labels(self._engine)
        elif group in self._several:
            child = family(self._several[group].series).labels(self._engine, value)
        self._children[name] = child
        return child


class _Histogram:
    """Brings a tally to a histogram, bucket by bucket: prometheus_client can only take one value at a time."""

    def __init__(self, child: Any, tally: Tally) -> None:  # noqa: ANN401
        self._buckets, self._sum = child._buckets, child._sum
        if len(self._buckets) != len(tally.counts):
            raise ValueError(f"{len(self._buckets)} buckets for {len(tally.counts)} counts")
        self._tally = tally
        self._counts = [0] * len(tally.counts)
        self._total = 0.0

    def publish(self) -> None:
        for place, count in enumerate(self._tally.counts):
            if count != self._counts[place]:
                self._buckets[place].inc(count - self._counts[place])
                self._counts[place] = count
        total = self._tally.total
        if total != self._total:
            self._sum.inc(total - self._total)
            self._total = total


class _Publisher:
    """One thread a process, for as long as there is somebody to publish for."""

    def __init__(self) -> None:
        # Weak: a scheduler that is dropped without a word keeps nothing alive.
        self._members: weakref.WeakSet[SchedulerSeries] = weakref.WeakSet()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def add(self, member: SchedulerSeries) -> None:
        with self._lock:
            self._members.add(member)
            # After a fork the thread is the parent's only.
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="radixflow-series", daemon=True)
                self._thread.start()

    def remove(self, member: SchedulerSeries) -> None:
        with self._lock:
            self._members.discard(member)

    def _run(self) -> None:
        while True:
            time.sleep(PERIOD_S)
            if not self._publish():
                return

    def _publish(self) -> bool:
        """Publish for all; returns whether anybody is left. Holds nobody past its end."""
        with self._lock:
            members = list(self._members)
            if not members:
                self._thread = None
                return False
        for member in members:
            if not member.publish():
                self.remove(member)
        return True


_PUBLISHER = _Publisher()
_told: set[str] = set()


def open_series(
    engine: str, totals: MutableMapping[str, int], tallies: Mapping[Series, Tally]
) -> SchedulerSeries | None:
    """Begin to publish what a scheduler counts.

    Args:
        engine: data-parallel rank.
        totals: counts since the start; see :data:`COUNTERS`.
        tallies: histograms by series.

    Returns:
        What :func:`close_series` takes; None where prometheus_client is missing or unusable (one log line a
        process, and a failure in ``totals``).
    """
    try:
        opened = SchedulerSeries(engine, totals, tallies)
        _PUBLISHER.add(opened)
    except ImportError:
        return None
    except Exception as error:  # noqa: BLE001 - a scheduler starts whether it is counted or not
        totals["failures.telemetry"] += 1
        if "open" not in _told:
            _told.add("open")
            logger.warning("radixflow: no Prometheus series, serving goes on: %r", error)
        return None
    return opened


def close_series(opened: SchedulerSeries | None) -> None:
    """Publish what is left; may be called twice."""
    if opened is not None:
        _PUBLISHER.remove(opened)
        opened.publish()
