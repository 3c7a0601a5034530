"""vLLM's own load generator sends to our server what docs/laboratory.md shows, and its result file is whole."""

import json
import os
import subprocess
import sys

from radixflow.bench.server import MODEL_NAME
from radixflow.models import embedded_model, serve_settings


def test_vllm_bench_serve_measures_our_server(arms, tmp_path):
    workload = {"prefix-len": 600, "suffix-len": 40, "num-prefixes": 2, "output-len": 1}
    flags = [part for name, value in workload.items() for part in (f"--prefix-repetition-{name}", str(value))]
    done = subprocess.run(
        [
            *(sys.executable, "-m", "vllm.entrypoints.cli.main", "bench", "serve", "--backend", "openai"),
            *("--base-url", arms.url("planned"), "--model", MODEL_NAME, "--tokenizer", str(embedded_model().resolve())),
            *("--dataset-name", "prefix_repetition", *flags, "--num-prompts", "8", "--disable-tqdm"),
            *("--save-result", "--result-dir", str(tmp_path), "--result-filename", "out.json"),
        ],
        env={**os.environ, **serve_settings().env},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    saved = json.loads((tmp_path / "out.json").read_text())
    assert (saved["completed"], saved["failed"]) == (8, 0)
    assert saved["total_input_tokens"] >= 8 * 600
