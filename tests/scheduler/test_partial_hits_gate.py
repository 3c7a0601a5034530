"""States inside blocks are stored where the check passed with this model, and loudly refused elsewhere."""

from __future__ import annotations

import json

import pytest
import vllm

import radixflow
from radixflow.engine import compat
from radixflow.engine.doctor import examine
from radixflow.errors import UnsupportedError
from radixflow.partial_hits import records
from radixflow.partial_hits.fingerprint import fingerprint
from radixflow.partial_hits.verdict import UnitMeasures, Verdict
from radixflow.serving import command
from radixflow.serving.settings import EndpointSettings
from radixflow.simulate.rig import build_scheduler, vllm_config

PASSED = {
    "expected_hits": 9,
    "hits": 9,
    "state_delta": 0.0,
    "plain_delta": 0.0,
    "chunk_delta": 0.0,
    "crowd_delta": 0.0,
    "batch_delta": 0.0,
    "answers_changed": 0,
}


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("RADIXFLOW_HOME", str(tmp_path))
    return tmp_path


def keep(config, block=32, unit=4, **changes):
    marked = fingerprint(config, vllm.__version__)
    measures = UnitMeasures(**{"unit": unit, **PASSED, **changes})
    records.keep(Verdict(fingerprint=marked.digest, about=marked.about, block_size=block, units=(measures,)))


def engine(inside="auto", policy="planned", unit=4, **settings):
    config = vllm_config(
        block_size=32, match_unit=unit, settings={"policy": policy, "partial_states": inside, **settings}
    )
    return config, lambda: build_scheduler(radixflow.Scheduler, config)


def test_without_a_check_they_stay_off_and_the_log_says_how_to_check(logged):
    _, build = engine()
    assert not build().controller.stores_inside
    (warning,) = logged("WARNING")
    assert "states inside a block stay off: it was never checked with this model here" in warning
    assert "radixflow doctor MODEL [flags] --check-partial-hits" in warning


def test_after_a_check_that_passed_they_are_on_and_quiet(logged):
    config, build = engine()
    keep(config)
    assert build().controller.stores_inside
    assert logged("WARNING") == []
    assert "a prefix below one unit of 4 tokens isn't shared" in logged("INFO")[-1]


@pytest.mark.parametrize(
    ("known", "reason"),
    [
        ({"plain_delta": 0.25}, "values differ from those without a cache by 0.2500"),
        ({"state_delta": 0.25}, "a copied state moves a value"),
        ({"unit": 8}, "units of 8 tokens were checked, this engine has 4"),
        ({"block": 64}, "it was checked with blocks of 64 tokens, this engine has 32"),
    ],
)
def test_after_a_check_of_something_else_or_one_that_failed_they_are_refused(logged, known, reason):
    config, build = engine()
    keep(config, **known)
    assert not build().controller.stores_inside
    assert reason in logged("WARNING")[0]


@pytest.mark.parametrize(("inside", "expected"), [("on", True), ("off", False)])
def test_the_setting_overrides_the_check_without_a_word(logged, inside, expected):
    _, build = engine(inside)
    assert build().controller.stores_inside is expected
    assert logged("WARNING") == []


def test_a_record_that_cant_be_read_stops_no_engine(logged, monkeypatch):
    def broken(digest):
        raise RuntimeError("a folder on fire")

    monkeypatch.setattr("radixflow.engine.scheduler.find", broken)
    _, build = engine()
    assert not build().controller.stores_inside
    assert "a folder on fire" in logged("WARNING")[0]


@pytest.mark.parametrize("policy", ["radixflow", "flex"])
def test_presets_without_junctions_store_none_and_say_nothing(logged, policy):
    _, build = engine("auto", policy)
    assert not build().controller.stores_inside
    assert logged("WARNING") == []


def test_other_models_other_numbers_and_other_releases_have_other_fingerprints():
    config = vllm_config(block_size=32)
    base = fingerprint(config, "0.29.0")
    assert base == fingerprint(vllm_config(block_size=64), "0.29.0+cpu")
    assert base.digest != fingerprint(config, "0.30.0").digest
    config.cache_config.mamba_ssm_cache_dtype = "float32"
    other = fingerprint(config, "0.29.0")
    assert other.digest != base.digest
    config.model_config.hf_config.hidden_size = 17
    assert fingerprint(config, "0.29.0").digest != other.digest
    config.model_config.hf_config.hidden_size = 16


def test_another_function_that_copies_blocks_is_refused(monkeypatch):
    name = "vllm.v1.worker.utils:copy_kv_cache_blocks_inplace"
    release = compat.RELEASES["0.29.0"]
    monkeypatch.setitem(compat._RELIED_ON_INSIDE_0_29_0, name, "0" * 64)
    assert release.relied_on_inside[name] == "0" * 64
    _, build = engine("on")
    with pytest.raises(
        UnsupportedError, match=r"copy_kv_cache_blocks_inplace has sha256 \w+, 000000000000 was expected"
    ):
        build()
    _, build = engine("on", on_unsupported="native")
    assert build().controller is None
    # Engines without such hits don't rely on it.
    _, build = engine("on", unit=None)
    assert build().controller is not None


@pytest.fixture
def granite(home):
    """A model folder and its flags, as `radixflow doctor` takes them; nothing is loaded."""
    from radixflow.models.families import family_model, family_settings

    return [str(family_model("granite-moe-hybrid")), *family_settings("granite-moe-hybrid").flags]


def test_doctor_names_the_unit_and_serve_passes_it_on(granite, monkeypatch):
    report = examine(granite)
    assert report.prefix_match_unit is None
    assert any("never checked" in note for note in report.notes)

    from radixflow.engine import doctor

    keep(doctor._engine_config(granite), block=32, unit=8)
    assert examine(granite).prefix_match_unit == 8
    scheduler = ["--scheduler-cls", command.SCHEDULER]
    assert command._after_examining([*granite, *scheduler]) == ["--prefix-match-unit", "8"]
    assert command._after_examining([*granite, *scheduler, "--prefix-match-unit=16"]) == []
    assert command._after_examining([*granite, "--scheduler-cls", "vllm.v1.core.sched.scheduler.Scheduler"]) == []
    assert json.loads(examine(granite).model_dump_json())["prefix_match_unit"] == 8

    keep(doctor._engine_config(granite), block=528, unit=8)
    assert any("checked with blocks of 528 tokens, not of 32" in note for note in examine(granite).notes)
    keep(doctor._engine_config(granite), block=32, unit=8, hits=0)
    assert any("no unit passed" in note for note in examine(granite).notes)


@pytest.mark.parametrize("kind", ["label", "branch"])
def test_the_embedded_decision_model_was_checked_with_blocks_of_512(kind):
    """So `radixflow serve --block-size 512` shares states below a block without anybody's doing."""
    arguments = ["--block-size=512", *(["--runner", "pooling"] if kind == "branch" else [])]
    launch = command.plan_launch(arguments, EndpointSettings(), {}, "unused")
    assert examine(launch.arguments[1:]).prefix_match_unit == 64
    assert command._after_examining(launch.arguments[1:]) == ["--prefix-match-unit", "64"]
