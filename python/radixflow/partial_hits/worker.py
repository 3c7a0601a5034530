"""Answers the check's prompts on one real engine, in a process of its own.

    python -m radixflow.partial_hits.worker SPEC.json RESULT.json

A process an engine: whatever a device's memory is left like, the next engine finds it as the first one did.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from radixflow.partial_hits.cases import PromptFamily, prompt_families

EVERYWHERE = "radixflow.partial_hits.everywhere:Everywhere"
_READ = 16


class Spec(BaseModel):
    """What one engine is to do."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    arguments: tuple[str, ...]
    """Model and flags as for `vllm serve`."""
    unit: int | None
    """Tokens; None: an engine without a prefix cache."""
    families: tuple[PromptFamily, ...] = ()
    """Prompts to answer without a cache; with one they are drawn here, for the block size found."""


class Values(BaseModel):
    """What was read of each prompt, prompts in order: log-probabilities of some tokens, or pooled values."""

    alone: list[list[float]]
    """Each prompt by itself; with a cache, starting from a copied state."""
    crowd: list[list[float]]
    """All prompts at once."""
    cold: list[list[float]] = []
    """With a cache: by itself, with a chunk that ends at the junction, from nothing."""
    starts: list[int] = []
    """With a cache: tokens each prompt of `alone` started from."""


class Result(BaseModel):
    """What one engine did."""

    fingerprint: str
    about: dict[str, str]
    block_size: int
    partial: bool
    """Whether this engine can start requests inside a block."""
    families: list[PromptFamily] = []
    values: Values | None = None


class Reader:
    """One engine, asked prompt by prompt or all at once."""

    def __init__(self, spec: Spec) -> None:
        """Build it."""
        from vllm.engine.arg_utils import EngineArgs
        from vllm.utils.argparse_utils import FlexibleArgumentParser
        from vllm.v1.engine.llm_engine import LLMEngine

        parser = EngineArgs.add_cli_args(FlexibleArgumentParser())
        named = bool(spec.arguments) and not spec.arguments[0].startswith("-")
        parsed, _ = parser.parse_known_args([*(["--model"] if named else []), *spec.arguments])
        arguments = EngineArgs.from_cli_args(parsed)
        settings: dict[str, Any] = {"policy": "native"}
        arguments.enable_prefix_caching = spec.unit is not None
        arguments.prefix_match_unit = spec.unit
        if spec.unit is None:
            arguments.mamba_cache_mode = "none"
        else:
            settings = {"policy": EVERYWHERE, "partial_states": "on", "round_tokens": "budget", "tail_states": "keep"}
        arguments.scheduler_cls = "radixflow.Scheduler"
        arguments.additional_config = {"radixflow": settings}
        self.engine = LLMEngine.from_engine_args(arguments)
        self.config = self.engine.vllm_config
        self.scheduler: Any = self.engine.engine_core.engine_core.scheduler
        self.is_pooling = self.config.model_config.runner_type == "pooling"
        vocabulary = self.config.model_config.get_vocab_size()
        self._read = [1 + number * (vocabulary - 1) // _READ for number in range(_READ)]
        self._count = 0

    def ask(self, prompts: Sequence[Sequence[int]], salt: str, hints: dict[str, Any] | None = None) -> list[Any]:
        """Send prompts together and return (values, tokens started from) of each, in order."""
        names = []
        for prompt in prompts:
            self._count += 1
            names.append(f"check-{self._count}")
            text = {"prompt_token_ids": list(prompt), "cache_salt": salt}
            self.engine.add_request(names[-1], text, self._parameters(hints))
        answers: dict[str, Any] = {}
        while len(answers) < len(names):
            for output in self.engine.step():
                if output.finished:
                    name = next(name for name in names if output.request_id.startswith(name))
                    answers[name] = self._values(output), int(output.num_cached_tokens or 0)
        return [answers[name] for name in names]

    def _parameters(self, hints: dict[str, Any] | None) -> Any:  # noqa: ANN401
        from vllm import PoolingParams, SamplingParams

        if self.is_pooling:
            task = "classify" if "classify" in self.engine.get_supported_tasks() else "embed"
            return PoolingParams(task=task, use_activation=False, extra_kwargs=hints)
        return SamplingParams(
            max_tokens=1, temperature=0.0, logprob_token_ids=self._read, detokenize=False, extra_args=hints
        )

    def _values(self, output: Any) -> list[float]:  # noqa: ANN401
        if self.is_pooling:
            return [float(value) for value in output.outputs.data.flatten().tolist()]
        by_id = output.outputs[0].logprobs[0]
        return [float(by_id[token].logprob) for token in self._read]


def answer(spec: Spec) -> Result:
    """Build the engine of a spec and read what it answers."""
    import vllm

    from radixflow.partial_hits.fingerprint import fingerprint

    reader = Reader(spec)
    marked = fingerprint(reader.config, vllm.__version__)
    scheduler = reader.scheduler
    block = int(scheduler.block_size)
    result = Result(
        fingerprint=marked.digest, about=marked.about, block_size=block, partial=bool(scheduler.mamba_partial_cache_hit)
    )
    if spec.unit is None:
        result.values = _uncached(reader, spec.families)
    elif result.partial:
        model = reader.config.model_config
        result.families = prompt_families(spec.unit, block, model.get_vocab_size(), model.max_model_len - 1)
        result.values = _cached(reader, result.families)
    return result


def _uncached(reader: Reader, families: Sequence[PromptFamily]) -> Values:
    prompts = [prompt for family in families for prompt in family.prompts]
    alone = [reader.ask([prompt], "alone")[0][0] for prompt in prompts]
    return Values(alone=alone, crowd=[values for values, _ in reader.ask(prompts, "crowd")])


def _cached(reader: Reader, families: Sequence[PromptFamily]) -> Values:
    alone: list[list[float]] = []
    cold: list[list[float]] = []
    starts: list[int] = []
    for number, family in enumerate(families):
        # A client that announces a sibling: the chunk ends where that one would part.
        hints = {"radixflow_group": f"f{number}", "radixflow_shared_tokens": family.junction}
        for sibling, prompt in enumerate(family.prompts):
            values, start = reader.ask([prompt], f"cold-{number}-{sibling}", hints)[0]
            if start:
                raise RuntimeError(f"a prompt of a salt of its own started from {start} tokens")
            cold.append(values)
            # The first one stores the state, the others start from copies of it.
            values, start = reader.ask([prompt], f"warm-{number}", None if sibling else hints)[0]
            alone.append(values)
            starts.append(start)
    prompts = [prompt for family in families for prompt in family.prompts]
    return Values(alone=alone, cold=cold, starts=starts, crowd=[values for values, _ in reader.ask(prompts, "crowd")])


def main(arguments: Sequence[str]) -> None:
    """Read a spec, write a result."""
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    spec_path, result_path = map(Path, arguments)
    result = answer(Spec.model_validate_json(spec_path.read_bytes()))
    result_path.write_text(result.model_dump_json())


if __name__ == "__main__":
    main(sys.argv[1:])
