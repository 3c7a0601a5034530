"""What became of decisions, counted where they are answered: in the process of the HTTP server."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from radixflow.telemetry.series import Series, family

logger = logging.getLogger("vllm.radixflow")

DECISIONS = Series(
    "radixflow_decisions_total", "Decisions by outcome: answered, failed, disconnected.", labels=("outcome",)
)
QUESTIONS = Series("radixflow_questions_total", "Questions answered, by type.", labels=("type",))
NEAR_TIES = Series(
    "radixflow_near_ties_total", "Answers whose margin is below the near-tie margin, by type.", labels=("type",)
)
SECONDS = Series(
    "radixflow_decision_seconds",
    "Seconds from a decision's request to its answer; answered ones only.",
    bounds=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0),
)
ERRORS = Series(
    "radixflow_decision_errors_total", "Decisions that were answered with an error, by HTTP status.", ("status",)
)
DECISION_SERIES = (DECISIONS, QUESTIONS, NEAR_TIES, SECONDS, ERRORS)
_OUTCOMES = ("answered", "failed", "disconnected")
_TYPES = ("choice", "noul", "score")


class DecisionMetrics:
    """Counters of one process; several of them in a process share their series. No method ever raises."""

    def __init__(self) -> None:
        """Register the series, if prometheus_client is there; without it only :meth:`snapshot` counts."""
        self.failures = 0
        """How often counting failed."""
        self._counts = {series.name: Counter[str]() for series in (DECISIONS, QUESTIONS, NEAR_TIES, ERRORS)}
        self._seconds = 0.0
        self._children: dict[tuple[Series, str], Any] = {}
        self._publishes = True
        self._guarded(self._open)

    def answered(self, types: Iterable[tuple[str, bool]], seconds: float) -> None:
        """Count a decision that was answered.

        Args:
            types: type of each answer, and whether it is a near-tie.
            seconds: from request to answer.
        """
        self._count(DECISIONS, "answered")
        for kind, near_tie in types:
            self._count(QUESTIONS, kind)
            if near_tie:
                self._count(NEAR_TIES, kind)
        self._seconds += seconds
        self._guarded(lambda: family(SECONDS).observe(seconds))

    def failed(self, status: int) -> None:
        """Count a decision that was answered with an error."""
        self._count(DECISIONS, "failed")
        self._count(ERRORS, str(status))

    def disconnected(self) -> None:
        """Count a decision whose client left before the answer."""
        self._count(DECISIONS, "disconnected")

    def snapshot(self) -> dict[str, Any]:
        """Return this process's counts since its start as plain values."""
        outcomes = {name: self._counts[DECISIONS.name][name] for name in _OUTCOMES}
        answered = outcomes["answered"]
        return {
            **outcomes,
            "questions": dict(self._counts[QUESTIONS.name]),
            "near_ties": dict(self._counts[NEAR_TIES.name]),
            "errors": dict(self._counts[ERRORS.name]),
            "mean_seconds": self._seconds / answered if answered else None,
        }

    def _open(self) -> None:
        """Show every label value that is known from the start, so that a first event is seen as an increase."""
        for series, values in ((DECISIONS, _OUTCOMES), (QUESTIONS, _TYPES), (NEAR_TIES, _TYPES)):
            for value in values:
                self._child(series, value)
        family(SECONDS)
        family(ERRORS)

    def _count(self, series: Series, value: str) -> None:
        self._counts[series.name][value] += 1
        self._guarded(lambda: self._child(series, value).inc())

    def _child(self, series: Series, value: str) -> Any:  # noqa: ANN401
        child = self._children.get((series, value))
        if child is None:
            child = self._children[series, value] = family(series).labels(value)
        return child

    def _guarded(self, publish: Callable[[], object]) -> None:
        """Publish; where that fails, say so once and count in here only."""
        if not self._publishes:
            return
        try:
            publish()
        except ImportError:
            self._publishes = False
        except Exception as error:  # noqa: BLE001 - a decision is answered whether it is counted or not
            self._publishes = False
            self.failures += 1
            logger.warning("radixflow: the series of decisions stop here, serving goes on: %r", error)
