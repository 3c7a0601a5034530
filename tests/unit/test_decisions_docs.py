"""What the document on decisions shows is true: its request, its prompt and its manifest work as they stand."""

from __future__ import annotations

import json
import re
from pathlib import Path

from radixflow.decisions import MANIFEST_FILE, LabelForm, parse_decision, parse_manifest, plan_branches

TEXT = (Path(__file__).parents[2] / "docs/decisions.md").read_text()
REQUEST, MANIFEST = map(json.loads, re.findall(r"```json\n(.*?)```", TEXT, re.DOTALL))


def test_the_prompt_shown_is_that_of_the_request_shown():
    team = parse_decision(REQUEST).questions[0]
    (shown,) = re.findall(r"\n((?:    .*\n)+)\nThe first line is left out", TEXT)
    assert [line.strip() for line in shown.splitlines()] == team.text(LabelForm.LETTERS).splitlines()


def test_the_manifest_shown_serves_the_request_shown():
    manifest = parse_manifest(MANIFEST, MANIFEST_FILE)
    for strategy, branches in (("label", 3), ("branch", 3 + 2 + 3)):
        plan = plan_branches(parse_decision({**REQUEST, "strategy": strategy}), manifest)
        assert len(plan.branches) == branches
