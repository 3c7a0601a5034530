"""Sends the branches of a decision to the engine together, and leaves nothing behind when that ends early."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass

from vllm.inputs.engine import tokens_input

from radixflow.serving.protocols import EngineClient, Output, OutputQueue
from radixflow.serving.ranks import RankBook


@dataclass(frozen=True, slots=True)
class Job:
    """The prompts of one decision, ready to run."""

    name: str
    """Start of the requests' ids."""
    prompts: Sequence[Sequence[int]]
    """Token ids."""
    params: Sequence[object]
    """One a prompt."""
    cache_salt: str
    priority: int = 0
    lora_request: object = None


class Branches:
    """Runs jobs on vLLM's asynchronous engine client."""

    def __init__(self, client: EngineClient, ranks: RankBook) -> None:
        """Take the client; ``add_request`` is used where ``encode`` would do, because it takes a rank."""
        self._client = client
        self._ranks = ranks

    async def run(self, job: Job) -> list[Output]:
        """Run every branch and return vLLM's final outputs, in order.

        Cancelling it, or a failure of one branch, aborts all of them.

        Raises:
            vllm.exceptions.VLLMError: what vLLM says of a prompt, of a full queue (HTTP 503), or of itself.
        """
        self._client.check_admission(len(job.prompts), job.name)
        with self._ranks.place(len(job.prompts)) as rank:
            queues: list[OutputQueue] = []
            # A request is known to vLLM before the call that adds it returns, so that call may not be cut short:
            # nobody would know what to abort.
            submission = asyncio.ensure_future(self._submit(job, rank, queues))
            try:
                await asyncio.shield(submission)
                return [await _final(queue) for queue in queues]
            except BaseException:
                with contextlib.suppress(Exception):
                    await submission
                await asyncio.shield(self._abort(queues))
                raise
            finally:
                for queue in queues:
                    queue.close()

    async def _submit(self, job: Job, rank: int | None, queues: list[OutputQueue]) -> None:
        """Add all requests, one right after the other."""
        for index, (prompt, params) in enumerate(zip(job.prompts, job.params, strict=True)):
            queue = await self._client.add_request(
                f"{job.name}-{index}",
                tokens_input(list(prompt), cache_salt=job.cache_salt),
                params,
                lora_request=job.lora_request,
                priority=job.priority,
                data_parallel_rank=rank,
            )
            queues.append(queue)

    async def _abort(self, queues: Sequence[OutputQueue]) -> None:
        """Abort what has not finished; vLLM ignores what has."""
        if queues:
            await self._client.abort([queue.request_id for queue in queues], internal=True)


async def _final(queue: OutputQueue) -> Output:
    """Wait for a request's last output."""
    while True:
        output = queue.get_nowait() or await queue.get()
        if output.finished:
            return output
