"""Settings: what is accepted, and that every refusal names the field, the value and the fix."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixflow.config import ENVIRONMENT_VARIABLE, RadixFlowConfig, load_config, parse_config
from radixflow.errors import ConfigError


def test_defaults_are_the_documented_ones():
    config = RadixFlowConfig()
    assert (config.policy, config.wait_ms, config.max_bypass, config.max_wait_ms) == (
        "planned",
        5.0,
        16,
        1000.0,
    )
    assert (config.round_tokens, config.tail_states) == ("auto", "auto")
    assert (config.on_unsupported, config.trace_path, config.ring_size) == ("refuse", None, 0)


@pytest.mark.parametrize(
    ("field", "value", "allowed"),
    [
        ("wait_ms", 100.5, "0.0..100.0"),
        ("wait_ms", -1, "0.0..100.0"),
        ("wait_ms", "5", "0.0..100.0"),
        ("wait_ms", True, "0.0..100.0"),
        ("wait_ms", float("nan"), "0.0..100.0"),
        ("max_bypass", 0, "1..10000"),
        ("max_bypass", 1.5, "1..10000"),
        ("max_wait_ms", 1e9, "0.0..600000.0"),
        ("round_tokens", 0, "1..10000000 | 'auto' | 'budget'"),
        ("round_tokens", "most", "1..10000000 | 'auto' | 'budget'"),
        ("round_tokens", True, "1..10000000 | 'auto' | 'budget'"),
        ("tail_states", "drop", "'auto' | 'keep'"),
        ("on_unsupported", "ignore", "'refuse' | 'native'"),
        ("ring_size", -1, "0..1000000"),
        ("policy", 3, "str"),
        ("policy", "", "str"),
    ],
)
def test_a_bad_value_is_refused_with_field_value_and_range(field, value, allowed):
    with pytest.raises(ConfigError) as caught:
        parse_config({field: value}, "a test")
    message = str(caught.value)
    assert "a test" in message
    assert repr(field) in message
    assert repr(value) in message
    assert allowed in message


def test_an_unknown_key_is_refused_and_the_known_ones_are_listed():
    with pytest.raises(ConfigError, match=r"field 'wait' is unknown \(value 5\); the fields are: .*wait_ms"):
        parse_config({"wait": 5}, "a test")


def test_every_bad_field_is_reported_at_once():
    with pytest.raises(ConfigError) as caught:
        parse_config({"wait_ms": 500, "max_bypass": 0}, "a test")
    assert "'wait_ms'" in str(caught.value)
    assert "'max_bypass'" in str(caught.value)


@pytest.mark.parametrize("settings", [[], "radixflow", 3, None])
def test_settings_that_are_no_object_are_refused(settings):
    with pytest.raises(ConfigError, match="JSON object"):
        load_config({"radixflow": settings})


def test_the_flag_wins_over_the_environment():
    environ = {ENVIRONMENT_VARIABLE: json.dumps({"wait_ms": 1})}
    assert load_config({"radixflow": {"wait_ms": 2}}, environ).wait_ms == 2
    assert load_config({"other": 1}, environ).wait_ms == 1
    assert load_config({}, {}).wait_ms == 5


@pytest.mark.parametrize("key", ["radixfow", "RadixFlow", "radix_flow", "radixflow "])
def test_a_misspelt_key_is_not_taken_for_somebody_elses(key):
    with pytest.raises(ConfigError, match=f"'{key}'.*spell it 'radixflow'"):
        load_config({key: {"policy": "native"}}, {})


def test_the_environment_must_hold_json():
    with pytest.raises(ConfigError, match=r"RADIXFLOW_CONFIG: not JSON.*'\{wait_ms: 5\}'"):
        load_config({}, {ENVIRONMENT_VARIABLE: "{wait_ms: 5}"})


def test_a_platforms_own_config_object_is_left_alone():
    assert load_config(object(), {}) == RadixFlowConfig()


@given(st.dictionaries(st.text(max_size=12), st.one_of(st.none(), st.integers(), st.text(), st.floats()), max_size=4))
def test_settings_are_taken_or_refused_never_anything_else(settings):
    try:
        config = parse_config(settings, "a test")
    except ConfigError:
        return
    assert set(settings) <= set(RadixFlowConfig.model_fields)
    assert 0 <= config.wait_ms <= 100
