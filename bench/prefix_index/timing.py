"""Times of every operation, subject by subject in turn, so that a busy machine slows all of them."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from prefix_index.keys import Workload
from prefix_index.subjects import BY_HANDLE, Subject

Rounds = dict[str, dict[str, list[float]]]
"""Microseconds an operation, by subject and operation; the n-th of each list is from the n-th round."""


BURST = 4
"""States whose keys arrive together."""
FEW = 32
"""Calls by handle between two looks at the clock, which costs as much as half a call."""


@contextmanager
def no_collector() -> Iterator[None]:
    """Keep Python's cycle collector out of the loop; the pure-Python trees would trigger it the most."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def timed(operation: Callable[[Any], Any], arguments: list[Any]) -> tuple[float, list[Any]]:
    """Call an operation on each argument: microseconds a call, and the answers."""
    start = time.perf_counter()
    answers = [operation(argument) for argument in arguments]
    return (time.perf_counter() - start) / len(arguments) * 1e6, answers


def one_round(subject: Subject, workload: Workload) -> dict[str, float]:
    """Measure a subject once, from empty to empty, and check what it answers.

    A burst at a time, of which the median is taken: when another process had the core, only a few of them show it. And
    a burst's keys are measured right after they were built, as prompts are inserted right after they arrived; built
    all at once they would have left the processor's caches.
    """
    operations = subject.fresh()
    found: dict[str, list[float]] = {}
    handles: list[Any] = []

    def run(name: str, operation: Callable[[Any], Any], arguments: list[Any]) -> list[Any]:
        took, answers = timed(operation, arguments)
        found.setdefault(name, []).append(took)
        return answers

    with no_collector():
        bursts = [range(start, min(start + BURST, workload.states)) for start in range(0, workload.states, BURST)]
        for burst in bursts:
            keys = run("convert", subject.convert, subject.prepare(workload.waiting(burst)))
            handles += run("insert", operations["insert"], keys)
        for burst in bursts:
            prepared = subject.prepare(workload.queries(burst))
            matched = run("match", operations["match"], [subject.convert(key) for key in prepared])
            expected = workload.shared // subject.granularity * subject.granularity
            if set(matched) != {expected}:
                raise AssertionError(f"{subject.name} matched {sorted(set(matched))} tokens instead of {expected}")
        for name in filter(operations.__contains__, BY_HANDLE):
            for start in range(0, len(handles), FEW):
                answers = run(name, operations[name], handles[start : start + FEW])
                if name == "shared_with_peers" and answers[-1] != [(workload.shared, workload.branches - 1)]:
                    raise AssertionError(f"{subject.name} sees {answers[-1]} around a key")
    if type(subject).convert is Subject.convert:
        del found["convert"]
    return {name: statistics.median(values) for name, values in found.items()}


def measure(subjects: list[Subject], workload: Workload, repeats: int) -> Rounds:
    """Measure every subject in every round, each round beginning with another one."""
    rounds: Rounds = {subject.name: {} for subject in subjects}
    # What vLLM's import left would be looked through before every measurement.
    gc.collect()
    gc.freeze()
    for repeat in range(-1, repeats):
        place = repeat % len(subjects)
        for subject in subjects[place:] + subjects[:place]:
            for name, value in one_round(subject, workload).items():
                # The round before the first warms up.
                if repeat >= 0:
                    rounds[subject.name].setdefault(name, []).append(value)
    return rounds


def medians(rounds: Rounds) -> dict[str, dict[str, float]]:
    """Reduce to the medians over the rounds."""
    return {
        subject: {name: statistics.median(values) for name, values in times.items()}
        for subject, times in rounds.items()
    }


def times_faster(rounds: Rounds, slow: str, fast: str, operation: str) -> float:
    """Return the median over the rounds of how many times as long the slow one took in the same round."""
    pairs = zip(rounds[slow][operation], rounds[fast][operation], strict=True)
    return statistics.median(slower / faster for slower, faster in pairs)
