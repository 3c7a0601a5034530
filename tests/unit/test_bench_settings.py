"""Bad settings are refused with the field, the value and the fix; good ones say which cells are run."""

import pytest

from radixflow.bench.settings import BenchSettings, checked_settings
from radixflow.errors import ConfigError


def test_defaults_compare_stock_with_the_default_preset():
    settings = checked_settings()
    assert settings.arms == ["stock", "planned"]
    assert settings.baseline == "stock"
    assert [cell.label for cell in settings.cells()] == [
        "short C1",
        "short C8",
        "long C1",
        "long C8",
        "burst C1",
    ]


def test_quick_sets_only_what_was_not_given():
    quick = checked_settings(quick=True)
    assert [cell.label for cell in quick.cells()] == ["short C1", "long C1", "burst C1"]
    assert checked_settings(quick=True, concurrency=[2]).concurrency == [2]
    assert checked_settings(quick=True, decisions=3).decisions == 3


def test_without_stock_the_first_arm_is_the_baseline():
    assert BenchSettings(arms=["native", "flex"]).baseline == "native"


@pytest.mark.parametrize(
    ("values", "pattern"),
    [
        ({"arms": ["stock", "fastest"]}, r"arms: .*'fastest'.*radixflow.*'stock'"),
        ({"arms": ["stock", "stock"]}, r"arms: \['stock'\] is given more than once"),
        ({"arms": []}, "arms"),
        ({"workloads": ["wide"]}, r"workloads: 'wide' is unknown; known: short, long, burst"),
        ({"concurrency": [0]}, r"concurrency\.0 is 0: .*greater than or equal to 1"),
        ({"decisions": 0}, r"decisions is 0: .*greater than or equal to 1"),
        ({"repeats": "many"}, r"repeats is 'many'"),
        ({"name": "a/b"}, r"name is 'a/b'"),
        ({"policy": {"wait_ms": -1}}, r"wait_ms"),
        ({"colour": "red"}, r"colour is 'red'"),
    ],
)
def test_bad_settings_name_the_field_and_the_value(values, pattern):
    with pytest.raises(ConfigError, match=pattern):
        checked_settings(**values)


def test_a_model_folder_without_config_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"model: .*config\.json"):
        checked_settings(model=tmp_path)
