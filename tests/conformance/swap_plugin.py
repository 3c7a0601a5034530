"""Run vLLM's own scheduler tests against RadixFlow's scheduler: a pytest plugin.

vLLM's tests name its classes (``from vllm.v1.core.sched.scheduler import Scheduler``). This plugin rebinds those
names before any test module is imported, so that the unchanged tests construct, drive and inspect ours:

========================================================= =========================================
name in vLLM                                              becomes, with ``--scheduler=radixflow``
========================================================= =========================================
``vllm.v1.core.sched.scheduler.Scheduler``                ``radixflow.engine.scheduler.Scheduler``
``vllm.v1.core.sched.async_scheduler.AsyncScheduler``     ``radixflow.engine.scheduler.AsyncVariant``
========================================================= =========================================

The sync slot holds the public class, so its choice of a variant is under test too. The async slot holds the
variant itself: a sync class in the async slot, or the reverse, fails tests even if it changes nothing.

Usage
-----
From a folder that holds vLLM's ``tests/`` (out of its source distribution; *not* beside ``vllm/``, which would be
imported in place of the installed one) and stand-ins for the hub models the tests name::

    PYTHONPATH=<clone>/python:<clone>/tests/conformance RADIXFLOW_CONFIG='{"policy": "radixflow", "wait_ms": 0}' \\
        python -m pytest -p swap_plugin --scheduler=radixflow --scheduler-report=ours.json tests/v1/core

``--scheduler=stock`` swaps nothing and reports the same way; compare the two reports with
``compare_reports.py``. The policy comes from ``RADIXFLOW_CONFIG``, as in any engine. Always give ``wait_ms`` 0:
vLLM's tests expect a step to schedule what is there, and a hold is meant to do the opposite.

``--edited-everywhere``: most of vLLM's tests build a scheduler without a prefix cache, where RadixFlow leaves vLLM's
``schedule()`` alone. With this option the edited function and the policy run there too. It is not what users
get; it puts many more tests on the edit.

Engines that RadixFlow refuses (KV connectors, pipeline parallelism, encoder-decoders, diffusion) fail their tests
with ``UnsupportedError``, as they should. With ``"on_unsupported": "native"`` they run as vLLM does, and the report
lists each such test under ``refused``, with the reason.

The report
----------
``outcomes`` (per test), ``constructed`` (``type(self)`` in vLLM's real ``Scheduler.__init__``: which class ran is
seen, not assumed), ``totals`` (sums of ``scheduler.recorder.totals``, by the preset that ran), ``questions`` (how
often the edited function asked, and how often the answer was yes), the same ``by_file``, ``refused`` and ``errors``
(messages of failed tests).

Two more things are done:

* On a CPU, vLLM's platform clears ``async_scheduling`` in every configuration, also in those of tests that go on
  to construct an ``AsyncScheduler``. RadixFlow rightly refuses that pair, so while it looks (and only then: vLLM's
  own code sees what it always saw) the flag says what the test constructs.
* In both arms, tests that load no model are marked ``skip_global_cleanup``, vLLM's own mark for them: its fixture tears
  down a distributed environment that they never set up and collects garbage, about a second a test.

It is not collected by RadixFlow's own test run: it is no ``test_*.py``, and nothing loads it but ``-p``.
"""

from __future__ import annotations

import functools
import json
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

STOCK = "stock"
RADIXFLOW = "radixflow"
_QUESTIONS = ("gate", "allocation", "zero")
_LONGEST_MESSAGE = 600
_LOADS_A_MODEL = "e2e"


class Watch:
    """What happened in this run; the report is made of it."""

    def __init__(self, arm: str) -> None:
        """Start with nothing seen."""
        self.arm = arm
        self.constructed: Counter[str] = Counter()
        self.recorders: list[tuple[str, Counter[str]]] = []
        self.questions: Counter[str] = Counter()
        self.outcomes: dict[str, str] = {}
        self.errors: dict[str, str] = {}
        self.test = ""
        """Id of the test that runs."""
        self.by_file: dict[str, Counter[str]] = {}
        self.refused: dict[str, list[str]] = {}

    def count(self, what: str) -> None:
        """Count something for the whole run and for the file that runs."""
        self.questions[what] += 1
        self.by_file.setdefault(self.test.partition("::")[0], Counter())[what] += 1

    def report(self) -> dict[str, Any]:
        """Return the report as plain data."""
        totals: dict[str, Counter[str]] = {}
        instances: Counter[str] = Counter()
        for preset, counts in self.recorders:
            instances[preset] += 1
            totals.setdefault(preset, Counter()).update(counts)
        return {
            "arm": self.arm,
            "settings": os.environ.get("RADIXFLOW_CONFIG") if self.arm == RADIXFLOW else None,
            "constructed": dict(self.constructed),
            "instances": dict(instances),
            "totals": {preset: dict(sorted(counts.items())) for preset, counts in totals.items()},
            "questions": dict(sorted(self.questions.items())),
            "by_file": {name: dict(sorted(counts.items())) for name, counts in sorted(self.by_file.items())},
            "refused": self.refused,
            "outcomes": self.outcomes,
            "errors": self.errors,
        }

    # Wrappers: each calls the real thing and changes nothing about it.

    def watch_construction(self, scheduler_class: type) -> None:
        """Count ``type(self)`` in vLLM's real ``__init__``, however it was reached."""
        real = scheduler_class.__init__  # type: ignore[misc]

        @functools.wraps(real)
        def counted(instance: Any, *arguments: Any, **keywords: Any) -> None:
            kind = type(instance)
            self.constructed[f"{kind.__module__}.{kind.__qualname__}"] += 1
            real(instance, *arguments, **keywords)

        scheduler_class.__init__ = counted  # type: ignore[misc]

    def watch_recorders(self, recorder_class: type) -> None:
        """Keep every recorder's counts, not the recorder: a scheduler must stay collectable."""
        real = recorder_class.__init__  # type: ignore[misc]

        @functools.wraps(real)
        def kept(instance: Any, *arguments: Any, **keywords: Any) -> None:
            real(instance, *arguments, **keywords)
            self.recorders.append((instance.preset, instance.totals))

        recorder_class.__init__ = kept  # type: ignore[misc]

    def watch_questions(self, scheduler_class: type) -> None:
        """Count what the edited ``schedule()`` asks and what it is told."""
        for name in _QUESTIONS:
            attribute = f"_radixflow_{name}"
            setattr(scheduler_class, attribute, self._counted_question(name, getattr(scheduler_class, attribute)))

    def watch_refusals(self, scheduler_class: Any) -> None:
        """Note which tests build an engine that a policy refuses, and why."""
        from radixflow.engine.support import refusals
        from radixflow.policies import resolve_policy

        real = scheduler_class._prepare

        @functools.wraps(real)
        def noted(instance: Any, vllm_config: Any, settings: Any) -> Any:
            reasons = refusals(vllm_config)
            if reasons and not resolve_policy(settings).is_native:
                self.refused[self.test] = reasons
            return real(instance, vllm_config, settings)

        scheduler_class._prepare = noted

    def _counted_question(self, name: str, real: Callable[..., bool]) -> Callable[..., bool]:
        @functools.wraps(real)
        def asked(instance: Any, *arguments: Any) -> bool:
            answer = real(instance, *arguments)
            self.count(f"{name}.asked")
            if answer:
                self.count(f"{name}.yes")
            return answer

        return asked


def match_async_flag(scheduler_class: Any, async_class: type) -> None:
    """Let the variant check see the flag that the test meant, not what the platform made of it."""
    real = scheduler_class._check_variant

    @functools.wraps(real)
    def matched(instance: Any, vllm_config: Any) -> None:
        scheduling = vllm_config.scheduler_config
        found = scheduling.async_scheduling
        scheduling.async_scheduling = found or isinstance(instance, async_class)
        try:
            real(instance, vllm_config)
        finally:
            scheduling.async_scheduling = found

    scheduler_class._check_variant = matched


def edit_everywhere(scheduler_class: Any) -> None:
    """Run the policy without a prefix cache too; engines that RadixFlow refuses stay refused."""
    from radixflow.engine.support import refusals
    from radixflow.policies import resolve_policy

    real = scheduler_class._prepare

    @functools.wraps(real)
    def prepared(instance: Any, vllm_config: Any, settings: Any) -> Any:
        policy = real(instance, vllm_config, settings)
        return policy if refusals(vllm_config) else resolve_policy(settings)

    scheduler_class._prepare = prepared


def install(watch: Watch, everywhere: bool) -> None:
    """Swap the names and start watching. No module that imports them by name may have been imported."""
    from vllm.v1.core.sched import async_scheduler, scheduler

    vllm_scheduler, vllm_async = scheduler.Scheduler, async_scheduler.AsyncScheduler
    if watch.arm == RADIXFLOW:
        # Imported while vLLM's names are the real classes: ours derive from them.
        from radixflow.engine import recorder
        from radixflow.engine import scheduler as ours

        if not issubclass(ours.Scheduler, vllm_scheduler) or not issubclass(ours.AsyncVariant, vllm_async):
            raise pytest.UsageError("radixflow was imported before this plugin could swap vLLM's classes")
        # The check looks vLLM's functions up by name, so it has to be made while the names are vLLM's; it is kept.
        ours.rewritten()
        watch.watch_recorders(recorder.Recorder)
        watch.watch_questions(ours.Scheduler)
        watch.watch_refusals(ours.Scheduler)
        match_async_flag(ours.Scheduler, vllm_async)
        if everywhere:
            edit_everywhere(ours.Scheduler)
        scheduler.Scheduler, async_scheduler.AsyncScheduler = ours.Scheduler, ours.AsyncVariant
    watch.watch_construction(vllm_scheduler)


_WATCH = pytest.StashKey[Watch]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare this plugin's options."""
    group = parser.getgroup("radixflow conformance")
    group.addoption("--scheduler", choices=[STOCK, RADIXFLOW], default=RADIXFLOW, help="class that the tests get")
    group.addoption("--scheduler-report", metavar="FILE", help="write a JSON report of the run")
    group.addoption("--edited-everywhere", action="store_true", help="run the policy without a prefix cache too")


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Swap before the first conftest: it may import test helpers."""
    options = early_config.known_args_namespace
    watch = early_config.stash[_WATCH] = Watch(options.scheduler)
    install(watch, options.edited_everywhere)
    early_config.pluginmanager.register(_Outcomes(watch), "radixflow-conformance-outcomes")


def pytest_configure(config: pytest.Config) -> None:
    """Declare the mark, which vLLM declares in a file that lies beside its package."""
    config.addinivalue_line("markers", "skip_global_cleanup: vLLM's mark for tests that load no model")


class _Outcomes:
    """The part of the plugin that listens while tests run."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            if _LOADS_A_MODEL not in item.path.name:
                item.add_marker("skip_global_cleanup")

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Know which test it is that builds schedulers."""
        self.watch.test = nodeid

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep a test's outcome: its call's, unless set-up or tear-down went wrong or skipped it."""
        outcome = report.outcome if report.when == "call" or report.outcome != "failed" else "error"
        if report.when == "call" or outcome != "passed":
            self.watch.outcomes[report.nodeid] = outcome
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            self.watch.errors[report.nodeid] = str(crash or report.longrepr)[:_LONGEST_MESSAGE]


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Say which class ran and what it did."""
    report = config.stash[_WATCH].report()
    terminalreporter.section(f"scheduler under test: {report['arm']}")
    for name in ("settings", "constructed", "instances", "totals", "questions"):
        terminalreporter.write_line(f"{name}: {json.dumps(report[name])}")


def pytest_unconfigure(config: pytest.Config) -> None:
    """Write the report."""
    path = config.getoption("--scheduler-report")
    if path and _WATCH in config.stash:
        Path(path).write_text(json.dumps(config.stash[_WATCH].report(), indent=1) + "\n")
