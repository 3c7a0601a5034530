"""The embedded model is the same bytes everywhere, and arrives on disk whole."""

import hashlib
import json
import multiprocessing
import struct
import subprocess
import sys
from functools import partial

import numpy as np
import pytest
import safetensors
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from radixflow.models import ModelShape, ModelStoreError, embedded_model, home, serve_settings
from radixflow.models.store import build_files, content_hash
from radixflow.models.weights import safetensors_bytes, tensors, to_bfloat16

# A change of this value is a change of every benchmark's answers: make it on purpose.
CONTENT_SHA256 = "93b8953c152d499622625bbb2aae19953be5dea8fecc8a0088a2246bfdac264a"


def test_content_is_pinned():
    assert content_hash(build_files(ModelShape())) == CONTENT_SHA256


def test_two_builds_give_the_same_bytes(tmp_path):
    first, second = embedded_model(root=tmp_path / "a"), embedded_model(root=tmp_path / "b")
    assert first.name == second.name == f"tiny-gdn-{CONTENT_SHA256[:16]}"
    names = sorted(path.name for path in first.iterdir())
    assert names == sorted(path.name for path in second.iterdir())
    for name in names:
        assert (first / name).read_bytes() == (second / name).read_bytes()


def test_another_seed_is_another_folder(tmp_path):
    assert embedded_model(root=tmp_path) != embedded_model(ModelShape(seed=1), root=tmp_path)


def test_a_second_call_writes_nothing(tmp_path):
    folder = embedded_model(root=tmp_path)
    before = {path: path.stat().st_mtime_ns for path in [folder, *folder.iterdir()]}
    assert embedded_model(root=tmp_path) == folder
    assert {path: path.stat().st_mtime_ns for path in [folder, *folder.iterdir()]} == before


@pytest.mark.parametrize("damage", ["cut", "remove"])
def test_a_damaged_folder_is_replaced(tmp_path, damage):
    folder = embedded_model(root=tmp_path)
    weights = folder / "model.safetensors"
    if damage == "cut":
        weights.write_bytes(weights.read_bytes()[:100])
    else:
        weights.unlink()
    assert embedded_model(root=tmp_path) == folder
    assert weights.read_bytes() == safetensors_bytes(ModelShape())
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


def test_builders_at_the_same_time_end_with_one_whole_folder(tmp_path):
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        folders = pool.map(partial(embedded_model, root=tmp_path), [None] * 4)
    assert len(set(folders)) == 1
    assert [path.name for path in (tmp_path / "models").iterdir()] == [f"tiny-gdn-{CONTENT_SHA256[:16]}"]


def test_manifest_lists_every_file(tmp_path):
    folder = embedded_model(root=tmp_path)
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["content_sha256"] == CONTENT_SHA256
    assert manifest["seed"] == manifest["shape"]["seed"] == ModelShape().seed
    assert set(manifest["files"]) == {path.name for path in folder.iterdir()} - {"manifest.json"}
    for name, digest in manifest["files"].items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    blocker = tmp_path / "file"
    blocker.write_text("")
    with pytest.raises(ModelStoreError, match=r"RADIXFLOW_HOME"):
        embedded_model(root=blocker)


def test_home_follows_the_environment(tmp_path):
    assert home({"RADIXFLOW_HOME": str(tmp_path)}) == tmp_path
    assert home({"XDG_CACHE_HOME": str(tmp_path)}) == tmp_path / "radixflow"
    assert home({}).parts[-2:] == (".cache", "radixflow")


def test_safetensors_file_loads_and_has_the_shapes_of_the_config():
    data = safetensors_bytes(ModelShape())
    loaded = dict(safetensors.deserialize(data))
    expected = {name: list(values.shape) for name, values in tensors(ModelShape())}
    assert {name: list(item["shape"]) for name, item in loaded.items()} == expected
    assert {item["dtype"] for item in loaded.values()} == {"BF16"}
    assert len(data) < 4_000_000
    (header,) = struct.unpack("<Q", data[:8])
    assert header % 8 == 0


def test_weights_are_spread_as_asked():
    by_name = dict(tensors(ModelShape()))
    head = by_name["lm_head.weight"]
    assert abs(float(head.mean())) < 0.01
    assert float(head.std()) * np.sqrt(128) == pytest.approx(2.5, rel=0.02)


@given(st.lists(st.floats(width=32, min_value=-(2.0**120), max_value=2.0**120)))
def test_bfloat16_rounds_to_the_nearest_pattern(values):
    array = np.array(values, dtype=np.float32)
    patterns = to_bfloat16(array)
    rounded = (patterns.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    for step in (-1, 1):
        neighbour = ((patterns.astype(np.int64) + step) % 2**16).astype(np.uint32) << 16
        other = neighbour.view(np.float32).astype(np.float64)
        with np.errstate(invalid="ignore"):
            closer = np.abs(other - array) < np.abs(rounded - array)
        assert not closer[np.isfinite(other)].any()


def test_bfloat16_ties_go_to_even_and_infinity_is_refused():
    exact = np.array([1.0, 1.00390625, 1.01171875], dtype=np.float32)  # 1, a tie down, a tie up
    assert to_bfloat16(exact).tolist() == [0x3F80, 0x3F80, 0x3F82]
    with pytest.raises(ValueError, match="finite"):
        to_bfloat16(np.array([np.inf], dtype=np.float32))


def test_shapes_that_do_not_fit_are_refused():
    with pytest.raises(ValidationError, match=r"block_size=32.*raise num_kv_heads"):
        ModelShape(num_kv_heads=1)
    with pytest.raises(ValidationError, match="full_attention_interval"):
        ModelShape(num_layers=5)
    with pytest.raises(ValidationError, match="num_kv_heads=3"):
        ModelShape(num_kv_heads=3)


def test_serve_settings_by_device():
    cpu, cuda = serve_settings(device="cpu"), serve_settings(device="cuda")
    assert cpu.env["TORCHDYNAMO_DISABLE"] == "1"
    assert cpu.env["OMP_NUM_THREADS"] == "1"
    assert not any(name.startswith("VLLM_CPU") for name in cuda.env)
    for settings in (cpu, cuda):
        assert settings.block_size == 32
        assert {"--enable-prefix-caching", "--mamba-cache-mode=align", "--block-size=32"} <= set(settings.flags)
        assert settings.env["HF_HUB_OFFLINE"] == "1"


def test_models_import_neither_vllm_nor_torch():
    code = "import sys, radixflow.models; sys.exit(bool({'vllm', 'torch', 'transformers'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
