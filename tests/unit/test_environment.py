"""The set-up script names what a machine lacks, with the package that brings it."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "environment.py"


@pytest.fixture
def script():
    spec = importlib.util.spec_from_file_location("environment_script", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_missing_piece_is_named_at_once(script, monkeypatch):
    monkeypatch.setattr(script.shutil, "which", lambda name: None)
    monkeypatch.setattr(script, "can_load", lambda name: False)
    monkeypatch.setattr(script.sys, "version_info", (3, 10, 1))
    with pytest.raises(script.SetupError) as caught:
        script.check_machine("cpu")
    message = str(caught.value)
    for package in ("python3.11", "cargo", "build-essential", "libnuma1"):
        assert package in message


def test_a_gpu_machine_needs_no_libnuma(script, monkeypatch):
    monkeypatch.setattr(script, "can_load", lambda name: False)
    script.check_machine("cuda")


def test_the_key_follows_the_pins_and_not_their_comments(script, monkeypatch, tmp_path):
    for path in script.REQUIREMENTS.iterdir():
        (tmp_path / path.name).write_text(path.read_text())
    monkeypatch.setattr(script, "REQUIREMENTS", tmp_path)
    before = script.key("cpu")
    cpu = tmp_path / "cpu.txt"
    cpu.write_text("# another comment\n" + cpu.read_text())
    assert script.key("cpu") == before
    cpu.write_text(cpu.read_text() + "another==1.0\n")
    assert script.key("cpu") != before
    assert script.key("cuda") != before


def test_an_unknown_flavor_is_refused(script, monkeypatch):
    monkeypatch.setenv("RADIXFLOW_FLAVOR", "tpu")
    with pytest.raises(script.SetupError, match="RADIXFLOW_FLAVOR is 'tpu': use cpu or cuda"):
        script.flavor()


def test_a_gpu_chooses_the_cuda_build(script, monkeypatch):
    monkeypatch.delenv("RADIXFLOW_FLAVOR", raising=False)
    monkeypatch.setattr(script, "has_nvidia_gpu", lambda: True)
    assert script.flavor() == "cuda"
    assert [path.name for path in script.requirement_files("cuda")] == ["cuda.txt", "dev.txt"]


def test_every_pin_is_exact(script):
    for path in script.REQUIREMENTS.iterdir():
        for line in path.read_text().splitlines():
            requirement = line.partition("#")[0].strip()
            assert not requirement or requirement.count("==") == 1, (path.name, line)
