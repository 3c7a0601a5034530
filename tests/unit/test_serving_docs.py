"""What docs/serving.md shows is true: settings, statuses, routes; and the README's request is the schema's example."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from radixflow.decisions import parse_decision
from radixflow.serving.openapi import PATH, SCHEMA_PATH, STATS_PATH, openapi
from radixflow.serving.settings import EndpointSettings

ROOT = Path(__file__).parents[2]
SERVING = (ROOT / "docs/serving.md").read_text()


def test_the_settings_table_is_the_codes():
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", SERVING, re.MULTILINE))
    assert set(rows) == set(EndpointSettings.model_fields)
    for name, info in EndpointSettings.model_fields.items():
        assert rows[name] == ("the model folder's" if info.default is None else str(info.default)), name


def test_every_documented_status_is_in_the_schema_and_in_the_docs():
    statuses = set(openapi()["paths"][PATH]["post"]["responses"]) - {"200"}
    assert statuses == set(re.findall(r"^\| (\d{3}) \|", SERVING, re.MULTILINE))


def test_the_routes_are_named():
    for route in (f"POST {PATH}", f"GET {SCHEMA_PATH}", f"GET {STATS_PATH}"):
        assert f"`{route}`" in SERVING


@pytest.mark.parametrize("document", ["README.md"])
def test_the_request_shown_is_a_decision_and_the_schemas_example(document):
    text = (ROOT / document).read_text()
    (body,) = re.findall(r"/v1/systemone -H 'Content-Type: application/json' -d '(\{.*?\})'\n", text, re.DOTALL)
    decision = parse_decision(json.loads(body))
    assert [question.type_name for question in decision.questions] == ["choice", "noul", "score"]
    assert json.loads(body) == openapi()["components"]["schemas"]["DecisionRequest"]["examples"][0]
