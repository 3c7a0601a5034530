"""`radixflow doctor --check-partial-hits` on real engines: what passes is exact, what rounds otherwise is refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from radixflow.models.families import family_model, family_settings


@pytest.fixture(scope="module")
def verdict(tmp_path_factory):
    """Gated DeltaNet with blocks of 128 tokens: three engines, one after the other."""
    serve = family_settings("qwen3-next")
    flags = [flag for flag in serve.flags if not flag.startswith("--block-size")]
    command = [sys.executable, "-m", "radixflow.cli", "doctor", str(family_model("qwen3-next")), *flags]
    env = {**os.environ, **serve.env, "RADIXFLOW_HOME": str(tmp_path_factory.mktemp("home"))}
    done = subprocess.run(
        [*command, "--block-size=128", "--check-partial-hits", "--units", "16,64", "--json"],
        env=env,
        capture_output=True,
        text=True,
        timeout=580,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3_000:]
    return json.loads(done.stdout)


def test_every_copied_state_is_the_computed_one_to_the_last_bit(verdict):
    assert verdict["block_size"] == 128
    for unit in verdict["units"]:
        assert unit["hits"] == unit["expected_hits"] > 0
        assert unit["state_delta"] == 0.0


def test_a_unit_off_the_kernels_grid_is_refused_and_the_chunks_are_why(verdict):
    fine = next(unit for unit in verdict["units"] if unit["unit"] == 16)
    assert fine["plain_delta"] > verdict["tolerance"]
    # No more than the same chunks do without a prefix cache.
    assert fine["plain_delta"] <= fine["chunk_delta"]


def test_a_unit_on_the_grid_changes_nothing_at_all(verdict):
    coarse = next(unit for unit in verdict["units"] if unit["unit"] == 64)
    assert coarse["plain_delta"] == 0.0
    assert coarse["answers_changed"] == 0
