"""Result folders are named, sealed and checked; nothing in them names the machine."""

import datetime
import json
import math
import platform
from pathlib import Path

import pytest

from radixflow.bench import environment
from radixflow.bench.errors import BenchError
from radixflow.bench.results import SUMS, create_folder, plain, seal, verify, write_json, write_rows
from radixflow.models import serve_settings

DAY = datetime.date(2026, 2, 3)


def test_folders_of_one_day_and_name_are_numbered(tmp_path):
    made = [create_folder(tmp_path / "new", "demo", DAY).name for _ in range(3)]
    assert made == ["2026-02-03_demo", "2026-02-03_demo-2", "2026-02-03_demo-3"]


def test_a_folder_that_cannot_be_made_names_the_field(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(BenchError, match="result_dir"):
        create_folder(tmp_path / "file", "demo", DAY)


def test_plain_values_are_json():
    document = plain({"a": (1, 2.0), 3: math.nan, "c": {"d": math.inf}, "p": Path("somewhere/deep/x")})
    assert document == {"a": [1, 2.0], "3": None, "c": {"d": None}, "p": "x"}


def test_a_sealed_folder_verifies_until_it_is_changed(tmp_path):
    write_json(tmp_path / "summary.json", {"b": 1, "a": math.nan})
    write_rows(tmp_path / "rows.jsonl", [{"x": 1}, {"x": 2}])
    seal(tmp_path)
    assert verify(tmp_path) == []
    assert [line.split("  ")[1] for line in (tmp_path / SUMS).read_text().splitlines()] == [
        "rows.jsonl",
        "summary.json",
    ]
    (tmp_path / "rows.jsonl").write_text('{"x":3}\n')
    (tmp_path / "extra.txt").write_text("")
    assert verify(tmp_path) == ["rows.jsonl: changed", "extra.txt: not listed"]
    (tmp_path / "summary.json").unlink()
    assert "summary.json: missing" in verify(tmp_path)


def test_an_unsealed_folder_is_an_error(tmp_path):
    with pytest.raises(BenchError, match=SUMS):
        verify(tmp_path)


def test_environment_names_versions_and_no_place(tmp_path):
    model = tmp_path / "models" / "tiny-gdn-1"
    text = json.dumps(plain(environment.describe(serve_settings(device="cpu"), model, {"stock": "ab"})))
    document = json.loads(text)
    assert document["python"] == platform.python_version()
    assert document["cores"] >= 1
    assert document["cpu"]
    assert document["schedule_sha256"] == {"stock": "ab"}
    assert document["model"] == "tiny-gdn-1"
    for place in (str(tmp_path), str(Path.home()) + "/", str(Path.cwd())):
        assert place not in text


def test_scrub_replaces_the_longest_folder_first(tmp_path):
    model = tmp_path / "m"
    text = environment.scrub(f"{model}/config.json in {Path.cwd()}/x", model)
    assert text == "<model>/config.json in <cwd>/x"
