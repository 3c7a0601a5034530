"""The dashboard asks for series that exist, and for all of them; the documents name the same ones."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from radixflow.telemetry.decision_metrics import DECISION_SERIES
from radixflow.telemetry.prometheus import SCHEDULER_SERIES

ROOT = Path(__file__).parents[2]
SERIES = {series.name: series for series in (*SCHEDULER_SERIES, *DECISION_SERIES)}
NAME = re.compile(r"\bradixflow_\w+")


def base(name):
    """Return the series that a sample belongs to."""
    return re.sub(r"_(bucket|sum|count)$", "", name)


@pytest.fixture(scope="module")
def dashboard():
    return json.loads((ROOT / "dashboards/radixflow.json").read_text())


@pytest.fixture(scope="module")
def panels(dashboard):
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


def test_every_series_has_a_panel_and_every_panel_its_series(dashboard, panels):
    asked = {name for panel in panels for target in panel["targets"] for name in NAME.findall(target["expr"])}
    assert {base(name) for name in asked} == set(SERIES)
    for name in asked:
        # A histogram has no sample of its own name, a counter none of the others.
        assert (name == base(name)) is not bool(SERIES[base(name)].bounds), name
    variables = [item for item in dashboard["templating"]["list"] if item["type"] == "query"]
    assert all(base(name) in SERIES for item in variables for name in NAME.findall(item["definition"]))


def test_labels_in_queries_are_those_of_the_series(panels):
    for target in (target for panel in panels for target in panel["targets"]):
        for name, selector in re.findall(r"(radixflow_\w+)(?:\{([^}]*)\})?", target["expr"]):
            labels = SERIES[base(name)].labels
            assert set(re.findall(r"(\w+)=~?\"", selector)) <= set(labels), target["expr"]
            grouped = re.findall(r"by \(([^)]*)\)", target["expr"])
            assert all(label in (*labels, "le") for group in grouped for label in group.split(", ")), target["expr"]
        for label in re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]):
            assert re.search(rf"by \({label}\)", target["expr"]), target["legendFormat"]


def test_counters_are_read_as_rates(panels):
    for target in (target for panel in panels for target in panel["targets"]):
        for found in NAME.finditer(target["expr"]):
            assert re.search(r"(rate|increase)\($", target["expr"][: found.start()]), target["expr"]
        assert target["expr"].count("(") == target["expr"].count(")")


def test_grafana_can_read_it(dashboard, panels):
    assert dashboard["schemaVersion"] >= 36
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
    assert [item["type"] for item in dashboard["templating"]["list"]] == ["datasource", "query"]
    for panel in panels:
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        assert panel["fieldConfig"]["defaults"]["unit"]
        assert panel["description"].endswith(".")
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
    taken = [
        (x, y)
        for panel in dashboard["panels"]
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(set(taken)) == len(taken)


def test_the_table_of_the_documents_is_the_codes():
    text = (ROOT / "docs/metrics.md").read_text()
    rows = re.findall(r"^\| `(radixflow_\w+)` \|([^|]*)\|", text, re.MULTILINE)
    assert [name for name, _ in rows] == list(SERIES)
    for name, labels in rows:
        assert tuple(re.findall(r"`(\w+)`", labels)) == SERIES[name].labels, name


@pytest.mark.parametrize("document", ["docs/operations.md", "docs/metrics.md"])
def test_no_document_names_a_series_that_is_none(document):
    for name in NAME.findall((ROOT / document).read_text()):
        known = base(name) in SERIES or name in ("radixflow_frag", "radixflow_manifest", "radixflow_group")
        assert known, name
