"""Runs a plan in one process: engines of a family's arms side by side, driven turn by turn; a JSON line a result.

    python bench/family_bench/worker.py PLAN.json RESULTS.jsonl

An import of vLLM takes longer than everything else here, and an engine in this process is built in seconds. Only the
engine whose turn it is has requests.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
import traceback
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from family_bench.plan import INSIDE, INSIDE_BLOCK, INSIDE_UNIT, STOCK, Plan, ends_past_a_block
from radixflow.bench.client import CallResult
from radixflow.bench.rounds import total_rounds
from radixflow.bench.runner import repeat_order
from radixflow.bench.workloads import LABEL_IDS, Call
from radixflow.models.families import QWEN3_NEXT, family_model, family_settings

UNCACHED = "uncached"
_RING = 1_000_000
_POLL_S = 1e-3


class Engine:
    """One arm's engine, in this process."""

    def __init__(self, family: str, arm: str, policy: Mapping[str, Any] | None = None) -> None:
        """Build it.

        Args:
            family: one of `radixflow.models.families.FAMILIES`.
            arm: `stock`, `uncached` (stock without a prefix cache), `inside` (see the plan) or a preset.
            policy: further RadixFlow settings of a preset.
        """
        from vllm.engine.arg_utils import EngineArgs
        from vllm.utils.argparse_utils import FlexibleArgumentParser
        from vllm.v1.engine.llm_engine import LLMEngine

        serve = family_settings(family)
        parser = EngineArgs.add_cli_args(FlexibleArgumentParser())
        arguments = EngineArgs.from_cli_args(
            parser.parse_args(["--model", str(family_model(family).resolve()), *serve.flags])
        )
        settings: dict[str, Any] = {"ring_size": _RING}
        if arm in (STOCK, UNCACHED):
            arguments.scheduler_cls = "radixflow.engine.stock.CountingScheduler"
        else:
            arguments.scheduler_cls = "radixflow.Scheduler"
            settings.update(policy or {}, policy="planned" if arm == INSIDE else arm)
        block_size = serve.block_size
        if arm == INSIDE:
            block_size = arguments.block_size = INSIDE_BLOCK
            arguments.prefix_match_unit = INSIDE_UNIT
            settings["partial_states"] = "on"
        if arm == UNCACHED:
            arguments.enable_prefix_caching = False
            arguments.mamba_cache_mode = "none"
        arguments.additional_config = {"radixflow": settings}
        started = time.monotonic()
        self.engine = LLMEngine.from_engine_args(arguments)
        self.startup_s = time.monotonic() - started
        self.scheduler: Any = self.engine.engine_core.engine_core.scheduler
        self.block_size = int(self.scheduler.block_size)
        self.clock: Callable[[], float] = time.monotonic
        if arm != UNCACHED and self.block_size != block_size:
            raise RuntimeError(f"{family}: vLLM runs blocks of {self.block_size} tokens, not {block_size}")

    def pin_cost(self, fixed_s: float, per_token_s: float) -> None:
        """Let the policy believe this of rounds, whatever they take."""
        from radixflow.policies import RoundCost

        controller = getattr(self.scheduler, "controller", None)
        if controller is not None:
            controller.cost.cost = RoundCost(fixed_s, per_token_s)
            controller.cost.observe = lambda tokens, seconds: None

    def drive(self, calls: Sequence[Call], concurrency: int, salt: str) -> list[CallResult]:
        """Send calls in a closed loop, each client's next one between the step that ended its last and the next step.

        Args:
            calls: what to send, in order.
            concurrency: calls in flight.
            salt: cache salt of every prompt.
        """
        from vllm import SamplingParams

        parameters = SamplingParams(max_tokens=1, temperature=0.0, logprob_token_ids=list(LABEL_IDS))
        waiting = deque(enumerate(calls))
        started: dict[int, float] = {}
        answers: dict[int, dict[int, tuple[float, ...]]] = {}
        results: list[CallResult] = []

        def send() -> None:
            index, call = waiting.popleft()
            started[index], answers[index] = self.clock(), {}
            for branch, prompt in enumerate(call.prompts):
                text = {"prompt_token_ids": list(prompt), "cache_salt": salt}
                self.engine.add_request(f"{salt}/{index}/{branch}", text, parameters)

        for _ in range(min(concurrency, len(calls))):
            send()
        rounds = self.scheduler.recorder.totals["rounds"]
        while len(results) < len(calls):
            for output in self.engine.step():
                if not output.finished:
                    continue
                index, branch = (int(part) for part in output.request_id.split("/")[-2:])
                by_id = output.outputs[0].logprobs[0]
                answers[index][branch] = tuple(by_id[label].logprob for label in LABEL_IDS)
                prompts = calls[index].prompts
                if len(answers[index]) == len(prompts):
                    rows = tuple(answers[index][number] for number in range(len(prompts)))
                    tokens = sum(map(len, prompts))
                    results.append(CallResult(index, started[index], self.clock(), rows, tokens))
                    if waiting:
                        send()
            if self.scheduler.recorder.totals["rounds"] == rounds:
                # Nothing was scheduled, during a hold: vLLM's own loop sleeps as long.
                time.sleep(_POLL_S)
            rounds = self.scheduler.recorder.totals["rounds"]
        return sorted(results, key=lambda result: result.index)

    def take_records(self) -> list[dict[str, Any]]:
        """Return the rounds since the last time."""
        ring = self.scheduler.recorder.ring
        records = [record.to_json() for record in ring.records]
        ring.records.clear()
        return records

    def close(self) -> None:
        """Let go of the model and the cache."""
        self.engine.engine_core.shutdown()
        del self.engine, self.scheduler


class Worker:
    """Runs a plan, family after family; what was measured stays written whatever fails later."""

    def __init__(self, plan: Plan, path: Path) -> None:
        """Open the file of results."""
        self.plan = plan
        self._stream = path.open("w")

    def _say(self, kind: str, **values: object) -> None:
        self._stream.write(json.dumps({"kind": kind, **values}) + "\n")
        self._stream.flush()

    def run(self) -> bool:
        """Run every family; return whether all went well."""
        # The first model of a process decides whether there is a group for experts, and this one wants it.
        families = sorted(self.plan.families, key=lambda family: family != QWEN3_NEXT)
        well = True
        for family in families:
            engines: dict[str, Engine] = {}
            try:
                self._family(family, engines)
            except Exception as error:  # noqa: BLE001 - the other families are still worth measuring
                traceback.print_exc()
                self._say("failed", family=family, error=repr(error)[:2_000])
                well = False
            for engine in engines.values():
                engine.close()
            engines.clear()
            gc.collect()
        self._say("done")
        return well

    def _family(self, family: str, engines: dict[str, Engine]) -> None:
        plan = self.plan
        for arm in plan.arms:
            engines[arm] = Engine(family, arm, plan.policy)
            if plan.pinned_cost is not None:
                engines[arm].pin_cost(*plan.pinned_cost)
            self._say(
                "engine",
                family=family,
                arm=arm,
                block_size=engines[arm].block_size,
                startup_s=engines[arm].startup_s,
                schedule_sha256=engines[arm].scheduler.recorder.schedule_sha256,
            )
        block_size = engines[plan.arms[0]].block_size
        calls = plan.calls(block_size)
        for arm, engine in engines.items():
            engine.drive(plan.calls(block_size, stream="warm-up"), plan.concurrency, f"{family}/{arm}/warm-up")
        for repeat in range(plan.repeats):
            for arm in repeat_order(plan.arms, repeat):
                engine = engines[arm]
                engine.take_records()
                results = engine.drive(calls, plan.concurrency, f"{family}/{arm}/{repeat}")
                self._say(
                    "run",
                    family=family,
                    arm=arm,
                    repeat=repeat,
                    results=[asdict(result) for result in results],
                    totals=asdict(total_rounds(engine.take_records())),
                    since_start=dict(engine.scheduler.recorder.totals),
                )
        self._uncached(family, calls, block_size, engines)

    def _uncached(self, family: str, calls: Sequence[Call], block_size: int, engines: dict[str, Engine]) -> None:
        """Answer without a prefix cache the prompts whose last token another kernel may compute."""
        places = [
            (index, branch)
            for index, call in enumerate(calls)
            for branch, prompt in enumerate(call.prompts)
            if ends_past_a_block(prompt, block_size)
        ]
        if not places:
            return
        engine = engines[UNCACHED] = Engine(family, UNCACHED)
        rows = []
        for index, branch in places:
            decision = calls[index].decisions[0]
            alone = Call((type(decision)(decision.shared, (decision.prompts[branch],)),))
            (result,) = engine.drive([alone], 1, f"{family}/uncached/{index}-{branch}")
            rows.append({"decision": index, "branch": branch, "logprobs": result.logprobs[0]})
        self._say("uncached", family=family, answers=rows)


def main(arguments: list[str]) -> int:
    """Run the plan in the file of the first argument; results go to the file of the second."""
    plan = Plan.read(json.loads(Path(arguments[0]).read_text()))
    # Every family needs the same environment, and vLLM reads it when it is imported.
    os.environ.update(family_settings(plan.families[0]).env)
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")
    return 0 if Worker(plan, Path(arguments[1])).run() else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
