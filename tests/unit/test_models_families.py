"""The families' tiny models are the same bytes everywhere, and fit the pages of a prefix cache."""

import json

import numpy as np
import pytest
import safetensors.numpy

from radixflow.models import embedded_model, serve_settings
from radixflow.models.families import FAMILIES, QWEN3_NEXT, family_model, family_settings, family_shape
from radixflow.models.weights import Source

# A change of these values is a change of every measured answer: make it on purpose.
CONTENT = {
    "qwen3-next": "93b8953c152d4996",
    "granite-moe-hybrid": "07b31c1785160d4a",
    "falcon-h1": "92ce8a69d8597035",
    "zamba2": "ee3045f71c3c22a3",
    "nemotron-h": "d242b8897c3ec586",
}
MAMBA = tuple(family for family in FAMILIES if family != QWEN3_NEXT)


@pytest.mark.parametrize("family", FAMILIES)
def test_content_is_pinned_and_written_once(tmp_path, family):
    folder = family_model(family, root=tmp_path)
    assert folder.name.rpartition("-")[2] == CONTENT[family]
    before = {path: path.stat().st_mtime_ns for path in [folder, *folder.iterdir()]}
    assert family_model(family, root=tmp_path) == folder
    assert {path: path.stat().st_mtime_ns for path in [folder, *folder.iterdir()]} == before


def test_qwen3_next_is_the_embedded_model(tmp_path):
    assert family_model(QWEN3_NEXT, root=tmp_path) == embedded_model(root=tmp_path)
    assert family_settings(QWEN3_NEXT, device="cpu") == serve_settings(device="cpu")


@pytest.mark.parametrize("family", MAMBA)
def test_a_state_fits_the_page_of_a_block(family):
    # Otherwise vLLM raises the block size on its own, and shared prefixes fall below one block.
    shape = family_shape(family)
    assert shape.state_page_bytes <= shape.attention_page_bytes
    assert shape.block_size in (32, 64)
    assert f"--block-size={shape.block_size}" in family_settings(family, device="cpu").flags


@pytest.mark.parametrize("family", MAMBA)
def test_weights_are_finite_and_of_the_embedded_tokenizers_vocabulary(tmp_path, family):
    folder = family_model(family, root=tmp_path)
    config = json.loads((folder / "config.json").read_text())
    assert config["vocab_size"] == 320
    tensors = dict(family_shape(family).tensors(Source(1)))
    assert all(np.isfinite(values).all() for values in tensors.values())
    header = safetensors.safe_open(folder / "model.safetensors", framework="numpy")
    assert set(header.keys()) == set(tensors)
    embedded = embedded_model(root=tmp_path)
    assert (folder / "tokenizer.json").read_bytes() == (embedded / "tokenizer.json").read_bytes()


def test_an_unknown_family_is_named_with_the_known_ones():
    with pytest.raises(ValueError, match="'llama', which is unknown; known: qwen3-next, granite-moe-hybrid, falcon-h1"):
        family_model("llama")
