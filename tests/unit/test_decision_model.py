"""The shipped decision model: two folders from one file of weights, the same bytes on any machine, small."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import safetensors
import tokenizers

from radixflow.decisions import (
    MANIFEST_FILE,
    LabelForm,
    LabelReader,
    ReadStrategy,
    letter_sets,
    letter_tokens,
    load_manifest,
    parse_decision,
    plan_branches,
)
from radixflow.models import decision_model as module
from radixflow.models.decision_model import TRAINED, decision_manifest, decision_model, decision_shape
from radixflow.models.store import ModelStoreError
from radixflow.synthetic import wordings
from radixflow.synthetic.ticket import TOPICS

NAMES = [name for topic in TOPICS for name in topic.names] + [*wordings.OTHERS]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("home")
    return {kind: decision_model(kind, root=root) for kind in ReadStrategy}


@pytest.fixture(scope="module")
def tokenizer():
    return tokenizers.Tokenizer.from_file(str(TRAINED / "tokenizer.json"))


@pytest.fixture(scope="module")
def reader(tokenizer):
    def encode(text):
        return tokenizer.encode(text, add_special_tokens=False).ids

    tail = tuple(encode("assistant\n"))
    return LabelReader(encode, lambda ids: tokenizer.decode(list(ids), skip_special_tokens=False), tail)


def test_what_ships_is_small():
    assert sum(path.stat().st_size for path in TRAINED.iterdir()) <= 10_000_000
    assert (TRAINED / "model.safetensors").stat().st_size <= 5_000_000


@pytest.mark.parametrize("kind", list(ReadStrategy))
def test_a_folder_is_read_one_way(folders, kind):
    manifest = load_manifest(folders[kind] / MANIFEST_FILE)
    assert manifest.trained_for == (kind,)
    recipe = json.loads((TRAINED / "recipe.json").read_text())
    assert manifest == decision_manifest(kind, temperature=recipe["temperature"])


@pytest.mark.parametrize(("kind", "head"), [("label", "lm_head.weight"), ("branch", "score.weight")])
def test_a_folder_has_its_own_head_and_the_shape_of_its_config(folders, kind, head):
    folder = folders[ReadStrategy(kind)]
    config = json.loads((folder / "config.json").read_text())
    tensors = dict(safetensors.deserialize((folder / "model.safetensors").read_bytes()))
    assert {name for name in tensors if not name.startswith("model.")} == {head}
    assert {tensor["dtype"] for tensor in tensors.values()} == {"BF16"}
    assert list(tensors["model.embed_tokens.weight"]["shape"]) == [config["vocab_size"], config["hidden_size"]]
    rows = config["vocab_size"] if kind == "label" else config["num_labels"]
    assert list(tensors[head]["shape"]) == [rows, config["hidden_size"]]
    shipped = dict(safetensors.deserialize((TRAINED / "model.safetensors").read_bytes()))
    assert {name: tensor["data"] for name, tensor in tensors.items()} == {
        name: shipped[name]["data"] for name in tensors
    }


def test_the_same_bytes_again(folders, tmp_path):
    for kind, folder in folders.items():
        again = decision_model(kind, root=tmp_path)
        assert again.name == folder.name
        assert {path.name: path.read_bytes() for path in again.iterdir()} == {
            path.name: path.read_bytes() for path in folder.iterdir()
        }
    assert len({folder.name for folder in folders.values()}) == 2


def test_names_are_one_token_each_where_an_answer_begins(reader):
    tokens = {name: reader.tokens(name) for name in NAMES}
    assert {name for name, ids in tokens.items() if len(ids) != 1} == set()
    assert len(set(tokens.values())) == len(set(NAMES))
    letter_tokens(reader, letter_sets())


@pytest.mark.parametrize("text", ["plain", "Ünïcode 日本語 🙂", "tabs\tand\nlines", "0123456789", ""])
def test_any_text_is_encodable_in_lower_case(tokenizer, text):
    assert tokenizer.decode(tokenizer.encode(text).ids, skip_special_tokens=False) == text.lower()


def test_the_vocabulary_is_the_shapes(tokenizer):
    assert tokenizer.get_vocab_size() == decision_shape().vocab_size


def test_scores_are_asked_for_by_number_and_choices_by_name():
    body = {
        "state": "text",
        "questions": {
            "a": {"type": "choice", "instructions": "Who?", "criteria": {"billing": None, "other": None}},
            "b": {"type": "score", "instructions": "How much?", "criteria": ["low", "high"]},
        },
    }
    label = plan_branches(parse_decision(body), decision_manifest("label"))
    assert [branch.form for branch in label.branches] == [LabelForm.NAMES, LabelForm.LETTERS]
    branch = plan_branches(parse_decision(body), decision_manifest("branch"))
    assert branch.branches[1].own.endswith("Candidate: other\nFit:")


def test_missing_weights_are_named(monkeypatch, tmp_path):
    monkeypatch.setattr(module, "TRAINED", tmp_path / "nowhere")
    module._trained.cache_clear()
    try:
        with pytest.raises(ModelStoreError, match=r"nowhere.*install the package again"):
            decision_model("label", root=tmp_path)
    finally:
        module._trained.cache_clear()


def test_nothing_heavy_is_imported():
    code = "import sys, radixflow.models.decision_model, radixflow.synthetic;"
    code += "sys.exit(bool({'vllm', 'torch', 'transformers', 'tokenizers'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_table_of_the_document_is_that_of_the_figures():
    root = Path(__file__).parents[2]
    figures = json.loads((root / "training/figures.json").read_text())
    rows = re.findall(
        r"^\| (\w[^|]*) \| (\d+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|$", (root / "docs/model.md").read_text(), re.M
    )
    assert len(rows) >= 8
    for name, count, chance, label, branch in rows:
        assert int(count) == figures["label"][name]["n"]
        assert float(chance) == pytest.approx(figures["label"][name]["chance"], abs=0.006)
        assert float(label) == pytest.approx(figures["label"][name]["accuracy"], abs=0.0006)
        assert float(branch) == pytest.approx(figures["branch"][name]["accuracy"], abs=0.0006)
