"""`radixflow serve` as a command line: what is added to vLLM's, and what a user sets stays."""

import json
from importlib import metadata
from pathlib import Path

import pytest

from radixflow.errors import ConfigError
from radixflow.serving import command
from radixflow.serving.command import plan_launch
from radixflow.serving.settings import ENVIRONMENT_VARIABLE, EndpointSettings, check_settings, load_settings


def launch(*arguments, environ=None, **settings):
    return plan_launch(arguments, EndpointSettings(**settings), environ or {}, "/metrics")


def value(arguments, flag):
    return arguments[arguments.index(flag) + 1]


def test_a_model_of_ones_own_gets_scheduler_caching_and_endpoint():
    made = launch("org/model", "--port", "9")
    assert made.arguments[:4] == ["serve", "org/model", "--port", "9"]
    assert value(made.arguments, "--scheduler-cls") == "radixflow.Scheduler"
    assert "--enable-prefix-caching" in made.arguments
    assert value(made.arguments, "--shutdown-timeout") == "10"
    assert made.env["VLLM_PLUGINS"].split(",")[-1] == "radixflow"
    assert made.env["PROMETHEUS_MULTIPROC_DIR"] == "/metrics"
    # The settings of the embedded model are its own.
    assert not any(flag.startswith("--block-size") for flag in made.arguments)
    assert "VLLM_CPU_KVCACHE_SPACE" not in made.env


@pytest.mark.parametrize("arguments", [("--model", "m"), ("--model=m",), ("--config", "file.yaml"), ("m",)])
def test_a_model_is_seen_however_it_is_named(arguments):
    assert not any(flag.startswith("--served-model-name") for flag in launch(*arguments).arguments)


def test_no_model_is_the_embedded_one_read_by_labels():
    made = launch("--port=9")
    folder = made.arguments[1]
    manifest = json.loads((Path(folder) / "radixflow_manifest.json").read_text())
    assert set(manifest["strategies"]) == {"label"}
    assert "--served-model-name=radixflow-tiny" in made.arguments
    assert "--block-size=32" in made.arguments
    assert "--convert=classify" not in made.arguments


@pytest.mark.parametrize("runner", [("--runner", "pooling"), ("--runner=pooling",)])
def test_no_model_and_the_pooling_runner_is_the_one_read_by_branches(runner):
    made = launch(*runner)
    manifest = json.loads((Path(made.arguments[1]) / "radixflow_manifest.json").read_text())
    assert set(manifest["strategies"]) == {"branch"}
    assert "--convert=classify" in made.arguments


def test_what_the_user_sets_stays():
    made = launch(
        "--block-size=64",
        "--max_model_len",
        "512",
        "--no-enable-prefix-caching",
        "--scheduler-cls",
        "mine.Scheduler",
        "--served-model-name",
        "name",
        "--shutdown-timeout=3",
        environ={"OMP_NUM_THREADS": "4", "PROMETHEUS_MULTIPROC_DIR": "/own", "VLLM_PLUGINS": "other,"},
    )
    assert sum(flag.startswith("--block-size") for flag in made.arguments) == 1
    assert not any(flag.startswith("--max-model-len") for flag in made.arguments)
    assert "--enable-prefix-caching" not in made.arguments
    assert made.arguments.count("--scheduler-cls") == 1
    assert "--shutdown-timeout" not in made.arguments
    assert "--served-model-name=radixflow-tiny" not in made.arguments
    assert "OMP_NUM_THREADS" not in made.env
    assert "PROMETHEUS_MULTIPROC_DIR" not in made.env
    assert made.env["VLLM_PLUGINS"] == "other,radixflow"


def test_plugins_that_load_without_the_variable_still_do(monkeypatch):
    points = {
        "vllm.general_plugins": ["lora_resolver"],
        "vllm.platform_plugins": ["chip"],
        "vllm.stat_logger_plugins": ["stats"],
        "vllm.io_processor_plugins": ["io"],
        # vLLM loads an endpoint only where it is named: another one stays off.
        "vllm.endpoint_plugins": ["radixflow", "stranger"],
    }
    made = {
        group: [metadata.EntryPoint(name, "module:thing", group) for name in names] for group, names in points.items()
    }
    monkeypatch.setattr(command, "entry_points", lambda group: made[group])
    names = launch("model").env["VLLM_PLUGINS"].split(",")
    assert sorted(names) == ["chip", "io", "lora_resolver", "radixflow", "stats"]


def test_our_plugin_is_an_entry_point():
    (point,) = [point for point in metadata.entry_points(group="vllm.endpoint_plugins") if point.name == "radixflow"]
    assert point.value == "radixflow.serving.plugin:DecisionPlugin"


def test_settings_travel_through_the_environment():
    made = launch("model", near_tie_margin=0.1, max_body_bytes=2048)
    read = load_settings(made.env)
    assert (read.near_tie_margin, read.max_body_bytes, read.manifest) == (0.1, 2048, None)
    assert ENVIRONMENT_VARIABLE not in launch("model").env
    assert load_settings({}) == EndpointSettings()


@pytest.mark.parametrize(
    ("value", "part"),
    [
        ({"near_tie_margin": 2}, "'near_tie_margin' is 2"),
        ({"near_tie_margin": float("nan")}, "'near_tie_margin'"),
        ({"max_body_bytes": 0}, "1,024 to 1 GiB"),
        ({"max_body": 5}, "the fields are near_tie_margin, max_body_bytes, manifest"),
        ([], "(whole)"),
    ],
)
def test_bad_settings_name_field_value_and_fix(value, part):
    with pytest.raises(ConfigError) as caught:
        check_settings(value, "here")
    assert part in str(caught.value)
    assert str(caught.value).startswith("here: field")


def test_settings_that_are_no_json_name_the_variable():
    with pytest.raises(ConfigError, match=ENVIRONMENT_VARIABLE):
        load_settings({ENVIRONMENT_VARIABLE: "{"})


def test_the_command_line_can_be_pasted():
    line = launch("my model", max_body_bytes=2048).command()
    assert line.startswith("env ")
    assert "vllm serve 'my model'" in line


def test_what_is_printed_makes_its_own_folder_for_counters(monkeypatch):
    monkeypatch.delenv("PROMETHEUS_MULTIPROC_DIR", raising=False)
    line = command.serve(["org/model"], EndpointSettings(), dry_run=True)
    assert 'PROMETHEUS_MULTIPROC_DIR="$(mktemp -d)"' in line
    assert line.endswith(
        " vllm serve org/model --scheduler-cls radixflow.Scheduler --enable-prefix-caching --shutdown-timeout 10"
    )


def test_a_manifest_that_isnt_there_is_said_before_anything_runs(tmp_path):
    with pytest.raises(ConfigError, match="check the path"):
        command.serve(["org/model"], EndpointSettings(manifest=tmp_path / "gone.json"), dry_run=True)
