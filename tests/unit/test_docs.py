"""What the documents show is true: the policy of the README works, and the settings table is the code's."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from radixflow.config import RadixFlowConfig, describe_range
from radixflow.policies import PRESETS, DeferPending, resolve_policy

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("document", ["README.md", "docs/policies.md"])
def test_the_policy_shown_works_as_it_stands(tmp_path, document):
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / document).read_text(), re.DOTALL)
    lines = [line for line in code.splitlines() if line.strip() and not line.startswith("# ")]
    assert len(lines) <= 15
    path = tmp_path / "patient.py"
    path.write_text(code)
    policy = resolve_policy(RadixFlowConfig(policy=f"{path}:Patient"))
    assert isinstance(policy.traversal, DeferPending)


def test_the_settings_table_is_the_codes():
    text = (ROOT / "docs/operations.md").read_text()
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", text, re.MULTILINE))
    assert set(rows) == set(RadixFlowConfig.model_fields)
    for name, info in RadixFlowConfig.model_fields.items():
        default = rows[name].strip("`")
        assert default in (str(info.default), f"{info.default:g}" if isinstance(info.default, float) else "none"), name
        numbers = re.findall(rf"^\| `{name}` \| .*? \| (\d+)\.\.(\d+) \|", text, re.MULTILINE)
        if numbers:
            low, high = describe_range(info).split("..")
            assert (float(low), float(high)) == tuple(float(number) for number in numbers[0])


def test_every_preset_is_documented():
    text = (ROOT / "docs/policies.md").read_text()
    for name in PRESETS:
        assert f"| `{name}`" in text


DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_link_inside_the_repository_leads_somewhere(document):
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", document.read_text()):
        assert (document.parent / target).exists(), target


def test_the_table_of_the_readme_is_that_of_its_result_folder():
    text = (ROOT / "README.md").read_text()
    (folder,) = set(re.findall(r"\((bench/results/[^)/]+)\)", text))
    shown = [line for line in text.splitlines() if re.match(r"\| (short|long|burst) C\d", line)]
    measured = (ROOT / folder / "table.md").read_text().splitlines()
    assert len(shown) >= 6
    assert set(shown) <= set(measured)


def test_results_in_the_repository_are_as_they_were_sealed():
    from radixflow.bench.results import verify

    for name in set(re.findall(r"\((bench/results/[^)/]+)\)", (ROOT / "README.md").read_text())):
        assert verify(ROOT / name) == []


def test_the_tables_of_the_index_are_those_of_its_result_folder():
    from radixflow.bench.results import verify

    text = (ROOT / "docs/index.md").read_text()
    (folder,) = set(re.findall(r"\((?:\.\./)(bench/results/[^)/]+)\)", text))
    (shown,) = re.findall(r"<!-- index -->\n(.*?)<!-- /index -->", text, re.DOTALL)
    assert shown.strip() in (ROOT / folder / "table.md").read_text()
    assert verify(ROOT / folder) == []
    assert "MISSED" not in shown
