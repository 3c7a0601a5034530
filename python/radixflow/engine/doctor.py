"""Says whether RadixFlow would schedule here: every check that can be made before a model is loaded."""

from __future__ import annotations

import inspect
import os
import platform
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field

import radixflow
from radixflow.config import load_config
from radixflow.engine.compat import RELEASES, public_version, source_sha256
from radixflow.engine.rewrite import count_sites
from radixflow.engine.support import prepare_rewrite, refusals
from radixflow.errors import RadixFlowError, UnsupportedError
from radixflow.partial_hits.fingerprint import fingerprint
from radixflow.partial_hits.records import find
from radixflow.policies import resolve_policy


class DoctorReport(BaseModel):
    """What was found. ``reasons`` is empty exactly when ``supported``; each says what to change."""

    supported: bool = True
    vllm: str | None = Field(default=None, description="public version of the installed vLLM")
    vllm_build: str | None = Field(default=None, description="its full version, local label included")
    schedule_sha256: str | None = Field(default=None, description="hash of Scheduler.schedule()'s source")
    expected_sha256: str | None = Field(default=None, description="the released one, if the version is known")
    sites: dict[str, int] = Field(default_factory=dict, description="places of the rewrite, as found")
    scheduler: dict[str, str] = Field(
        default_factory=dict, description="variant per kind of engine, or of the engine asked about"
    )
    index: str | None = Field(default=None, description="file of the index's extension module")
    policy: str | None = Field(default=None, description="policy that the settings in the environment choose")
    on_unsupported: str | None = Field(default=None, description="what the settings say to do where it isn't")
    prefix_match_unit: int | None = Field(
        default=None, description="unit of hits inside blocks that passed --check-partial-hits with this model, tokens"
    )
    radixflow: str = radixflow.__version__
    python: str = Field(default_factory=platform.python_version)
    reasons: list[str] = Field(default_factory=list)
    notes: list[str] = Field(default_factory=list)

    def refuse(self, reason: str) -> None:
        """Add a reason against."""
        self.supported = False
        self.reasons.append(reason)


def _check_vllm(report: DoctorReport) -> bool:
    """Look at the installed vLLM; returns whether there is one."""
    try:
        import vllm
        from vllm.v1.core.sched.scheduler import Scheduler
    except ImportError as error:
        known = ", ".join(RELEASES)
        report.refuse(f"vLLM can't be imported ({error}); install vllm=={known} beside radixflow")
        return False
    report.vllm_build = vllm.__version__
    report.vllm = public_version(vllm.__version__)
    release = RELEASES.get(report.vllm)
    report.expected_sha256 = release.schedule_sha256 if release else None
    try:
        report.schedule_sha256 = source_sha256(Scheduler.schedule)
        report.sites = count_sites(inspect.getsource(Scheduler.schedule.__code__))
    except UnsupportedError as error:
        # The sites are for the report; whether they matter is decided with the version, below.
        report.notes.append(str(error))
    except (OSError, TypeError, AttributeError) as error:
        report.notes.append(f"the source of Scheduler.schedule() can't be read ({error})")
    try:
        prepare_rewrite(Scheduler.schedule, vllm.__version__)
    except UnsupportedError as error:
        report.refuse(str(error))
    return True


def _check_index(report: DoctorReport) -> None:
    """See that the extension module is there and answers."""
    try:
        import radixflow._index as extension
        from radixflow.index import PrefixIndex

        index = PrefixIndex()
        first, second = index.insert([1, 2, 3]), index.insert([1, 2, 4])
        if index.shared_with_peers(first) != [(2, 1)] or second not in index:
            report.refuse("the index answers wrongly; rebuild the extension module (make build)")
        report.index = extension.__file__
    except ImportError as error:
        report.refuse(f"the index's extension module can't be imported ({error}); build it (make build)")


def _default_variants() -> dict[str, str]:
    """Say which variant an engine with default flags gets on this platform."""
    from vllm.platforms import current_platform

    if current_platform.is_cpu():
        return {"generate": "sync", "pooling": "sync"}
    return {"generate": "async", "pooling": "sync"}


def _engine_config(arguments: list[str]) -> Any:  # noqa: ANN401
    """Build the ``VllmConfig`` that ``vllm serve`` would, from its own flags; loads no model."""
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    parser = FlexibleArgumentParser()
    AsyncEngineArgs.add_cli_args(parser)
    model = ["--model"] if arguments and not arguments[0].startswith("-") else []
    parsed, _ = parser.parse_known_args([*model, *arguments])
    return AsyncEngineArgs.from_cli_args(parsed).create_engine_config()


def _check_settings(report: DoctorReport, additional_config: object) -> None:
    """Read the settings as the scheduler would, and see that the trace can be written."""
    try:
        settings = load_config(additional_config)
        report.on_unsupported = settings.on_unsupported
        report.policy = resolve_policy(settings).name
        if settings.trace_path is not None:
            folder = Path(settings.trace_path).resolve().parent
            if not os.access(folder, os.W_OK | os.X_OK):
                report.refuse(
                    f"field 'trace_path' is {settings.trace_path!r}, whose folder can't be written to; "
                    "give a file in a folder that exists and is writable"
                )
    except RadixFlowError as error:
        report.refuse(str(error))


def _check_engine(report: DoctorReport, arguments: list[str]) -> None:
    """Check the configuration of the engine asked about."""
    try:
        config = _engine_config(arguments)
    except Exception as error:  # noqa: BLE001 - vLLM raises what it likes; the person wants its words
        report.refuse(f"vLLM refuses this engine itself: {error}")
        return
    for reason in refusals(config):
        report.refuse(reason)
    variant = "async" if config.scheduler_config.async_scheduling else "sync"
    report.scheduler = {"this engine": variant}
    if not config.cache_config.enable_prefix_caching:
        report.notes.append("prefix caching is off: pass --enable-prefix-caching, or RadixFlow has nothing to do")
    if not (config.model_config.is_hybrid or config.model_config.has_inner_state):
        report.notes.append("this model has no recurrent state: only admission differs from vLLM")
    _check_partial_hits(report, config)
    _check_settings(report, config.additional_config)


def _check_partial_hits(report: DoctorReport, config: Any) -> None:  # noqa: ANN401
    """Say which unit of hits inside blocks this engine may use."""
    import vllm

    cache = config.cache_config
    if not config.model_config.is_hybrid or not cache.enable_prefix_caching:
        return
    verdict = find(fingerprint(config, vllm.__version__).digest)
    if verdict is None:
        report.notes.append(
            "hits inside blocks were never checked with this model: `radixflow doctor MODEL [flags] "
            "--check-partial-hits` loads it and measures them"
        )
        return
    unit = verdict.unit()
    if unit is None:
        report.notes.append("hits inside blocks were checked with this model, and no unit passed")
    elif cache.block_size not in (None, verdict.block_size):
        report.notes.append(
            f"hits inside blocks were checked with blocks of {verdict.block_size} tokens, not of {cache.block_size}"
        )
    else:
        report.prefix_match_unit = unit


def examine(arguments: list[str] | None = None) -> DoctorReport:
    """Run every check.

    Args:
        arguments: model and flags as for ``vllm serve``; none: only what holds for any engine.
    """
    report = DoctorReport()
    _check_index(report)
    if _check_vllm(report):
        if arguments:
            _check_engine(report, arguments)
            return report
        report.scheduler = _default_variants()
    _check_settings(report, None)
    return report
