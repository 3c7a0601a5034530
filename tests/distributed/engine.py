"""One engine of a hybrid model on a CPU, in this process, over some tensor-parallel workers; prints JSON.

    python engine.py TENSOR_PARALLEL_SIZE SCHEDULER

Four branches of a decision that share 320 of 360 tokens, three times under salts of their own: label
log-probabilities, cached tokens, and the scheduler's counts.
"""

from __future__ import annotations

import json
import os
import random
import sys
import tempfile
from pathlib import Path

os.environ |= {
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "1",
    "TORCHDYNAMO_DISABLE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    # The scheduler in this process, so that its counts can be read; the workers are processes in any case.
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "RADIXFLOW_CONFIG": json.dumps({"policy": "radixflow", "wait_ms": 0}),
}
BLOCK, LABELS = 64, (65, 66, 67)


def main() -> None:
    """Run, and print."""
    from vllm import LLM, SamplingParams

    from radixflow.models.shape import ModelShape
    from radixflow.models.store import build_files

    workers, scheduler = int(sys.argv[1]), sys.argv[2]
    with tempfile.TemporaryDirectory() as folder:
        # Two recurrent heads, so that they can be split.
        for name, data in build_files(ModelShape(linear_heads=2, block_size=BLOCK)).items():
            Path(folder, name).write_bytes(data)
        llm = LLM(
            folder,
            tensor_parallel_size=workers,
            scheduler_cls=None if scheduler == "stock" else scheduler,
            enable_prefix_caching=True,
            enforce_eager=True,
            block_size=BLOCK,
            max_model_len=2048,
            dtype="bfloat16",
        )
        draw = random.Random(0)
        reading = SamplingParams(max_tokens=1, temperature=0, logprob_token_ids=list(LABELS))
        answers, cached = [], []
        for number in range(3):
            shared = [draw.randrange(3, 250) for _ in range(320)]
            prompts = [
                {
                    "prompt_token_ids": [*shared, *(draw.randrange(3, 250) for _ in range(40))],
                    "cache_salt": str(number),
                }
                for _ in range(4)
            ]
            for output in llm.generate(prompts, reading, use_tqdm=False):
                found = output.outputs[0].logprobs[0]
                answers.append([found[label].logprob for label in LABELS])
                cached.append(output.num_cached_tokens)
        core = llm.llm_engine.engine_core.engine_core.scheduler
        totals = dict(core.recorder.totals) if scheduler != "stock" else {}
        kind = f"{type(core).__module__}.{type(core).__name__}"
        sys.stdout.write("RESULT " + json.dumps({"answers": answers, "cached": cached, "totals": totals, "kind": kind}))
        sys.stdout.write("\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
