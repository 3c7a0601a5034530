"""`radixflow serve`: vLLM's own server with our scheduler, prefix caching and the endpoint switched on."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points

from radixflow.decisions import load_manifest
from radixflow.errors import RadixFlowError, UnsupportedError
from radixflow.models import serve_settings
from radixflow.models.decision_model import decision_model
from radixflow.serving.settings import ENVIRONMENT_VARIABLE, EndpointSettings

PLUGIN_NAME = "radixflow"
METRICS_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
_PLUGIN_VARIABLE = "VLLM_PLUGINS"
# Groups whose plugins vLLM loads unless the variable leaves them out. Other people's endpoint plugins are not
# among them: vLLM wants those to be named by whoever runs the server.
_PLUGIN_GROUPS = (
    "vllm.general_plugins",
    "vllm.io_processor_plugins",
    "vllm.platform_plugins",
    "vllm.stat_logger_plugins",
)
EMBEDDED_NAME = "radixflow-tiny"
SCHEDULER = "radixflow.Scheduler"
FRESH_FOLDER = "$(mktemp -d)"
"""Stands in a printed command for a folder that is made when it runs."""
DRAIN_S = 10
"""Seconds in which requests on the way are answered after SIGTERM or SIGINT."""


@dataclass(frozen=True, slots=True)
class Launch:
    """What will be run."""

    arguments: list[str]
    """For `vllm`: `serve`, the model, the flags."""
    env: dict[str, str]
    """Variables that are added or changed."""

    def command(self) -> str:
        """Return it as a line for a shell."""
        assignments = [
            f'{name}="{FRESH_FOLDER}"' if value == FRESH_FOLDER else shlex.quote(f"{name}={value}")
            for name, value in sorted(self.env.items())
        ]
        return " ".join(["env", *assignments, shlex.join(["vllm", *self.arguments])])


def plan_launch(
    arguments: Sequence[str], settings: EndpointSettings, environ: Mapping[str, str], metrics_folder: str
) -> Launch:
    """Decide flags and variables.

    Args:
        arguments: model and flags as for `vllm serve`; no model: the embedded one.
        settings: the endpoint's.
        environ: the environment; what it sets already stays.
        metrics_folder: an empty folder for the counters of several processes.
    """
    given = list(arguments)
    env: dict[str, str] = {}
    if not _names_model(given):
        given, env = _with_embedded(given)
    flags = _flags(given)
    ours = []
    if "--scheduler-cls" not in flags:
        ours += ["--scheduler-cls", SCHEDULER]
    if not flags & {"--enable-prefix-caching", "--no-enable-prefix-caching"}:
        ours.append("--enable-prefix-caching")
    if "--shutdown-timeout" not in flags:
        # Without it vLLM kills the engine first, and keeps whoever is on the way waiting until he gives up.
        ours += ["--shutdown-timeout", str(DRAIN_S)]
    env[_PLUGIN_VARIABLE] = ",".join(_plugins(environ.get(_PLUGIN_VARIABLE)))
    env[METRICS_VARIABLE] = metrics_folder
    changed = settings.model_dump(mode="json", exclude_defaults=True)
    if changed:
        env[ENVIRONMENT_VARIABLE] = EndpointSettings.model_validate(changed).model_dump_json()
    kept = {name: value for name, value in env.items() if name == _PLUGIN_VARIABLE or name not in environ}
    return Launch(["serve", *given, *ours], kept)


def serve(arguments: Sequence[str], settings: EndpointSettings, *, dry_run: bool = False) -> str | None:
    """Run the server in this process until it ends.

    Args:
        arguments: model and flags as for `vllm serve`.
        settings: the endpoint's.
        dry_run: return the command instead.

    Raises:
        RadixFlowError: vLLM isn't installed, or the embedded model can't be written.
        ManifestError: the settings name a manifest that can't be used.
        UnsupportedError: RadixFlow can't schedule this engine; each reason says what to change.
    """
    if settings.manifest is not None:
        # The server reads it, too, but only once its model is loaded.
        load_manifest(settings.manifest)
    if dry_run:
        return plan_launch(arguments, settings, os.environ, FRESH_FOLDER).command()
    folder = tempfile.mkdtemp(prefix="radixflow-metrics-")
    try:
        launch = plan_launch(arguments, settings, os.environ, folder)
        os.environ.update(launch.env)
        _run([*launch.arguments, *_after_examining(launch.arguments[1:])])
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return None


def _after_examining(arguments: Sequence[str]) -> list[str]:
    """Say in seconds what the scheduler would say after the model was loaded; returns flags to add.

    Raises:
        UnsupportedError: each reason, and what to change.
    """
    if _value_of("--scheduler-cls", arguments) != SCHEDULER:
        return []
    from radixflow.engine.doctor import examine

    report = examine(list(arguments))
    if not report.supported and report.on_unsupported != "native":
        raise UnsupportedError("\n".join(report.reasons))
    if report.prefix_match_unit is None or "--prefix-match-unit" in _flags(arguments):
        return []
    return ["--prefix-match-unit", str(report.prefix_match_unit)]


def _run(arguments: list[str]) -> None:
    """Hand over to vLLM's command."""
    try:
        from vllm.entrypoints.cli.main import main
    except ImportError as error:
        raise RadixFlowError(f"vLLM can't be imported ({error}); install vllm==0.29.0 beside radixflow") from error
    sys.argv = ["vllm", *arguments]
    main()


def _names_model(arguments: Sequence[str]) -> bool:
    """Return whether a model is named: first, or by a flag, or perhaps in a file."""
    if arguments and not arguments[0].startswith("-"):
        return True
    return bool(_flags(arguments) & {"--model", "--config"})


def _flags(arguments: Sequence[str]) -> set[str]:
    """Return the flags in use, as vLLM reads them: with hyphens, without values."""
    return {argument.partition("=")[0].replace("_", "-") for argument in arguments if argument.startswith("--")}


def _value_of(flag: str, arguments: Sequence[str]) -> str | None:
    """Return a flag's value."""
    for place, argument in enumerate(arguments):
        name, has_value, value = argument.partition("=")
        if name.replace("_", "-") == flag:
            return value if has_value else next(iter(arguments[place + 1 :]), None)
    return None


def _with_embedded(arguments: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Name the embedded model, with the settings it needs where no others are given."""
    is_pooling = _value_of("--runner", arguments) == "pooling"
    folder = decision_model("branch" if is_pooling else "label")
    needed = serve_settings()
    flags = _flags(arguments)
    used = {flag.replace("--no-", "--", 1) for flag in flags}
    extra = [flag for flag in needed.flags if flag.partition("=")[0] not in used]
    if "--served-model-name" not in flags:
        extra += [f"--served-model-name={EMBEDDED_NAME}"]
    if is_pooling and "--convert" not in flags:
        extra += ["--convert=classify"]
    return [str(folder), *arguments, *extra], dict(needed.env)


def _plugins(chosen: str | None) -> list[str]:
    """Return what `VLLM_PLUGINS` should name: what it does, else all that loads without it; and ours."""
    if chosen is None:
        names = [point.name for group in _PLUGIN_GROUPS for point in entry_points(group=group)]
    else:
        names = [name for name in chosen.split(",") if name]
    return list(dict.fromkeys([*names, PLUGIN_NAME]))
