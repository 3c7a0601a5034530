"""The missing worker: answers every round of a scheduler, and keeps what happened in it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from vllm.v1.outputs import ModelRunnerOutput
from vllm.v1.request import RequestStatus

from radixflow.simulate.rig import END_TOKEN

_SAMPLED = END_TOKEN + 1


@dataclass
class Stepper:
    """Drives one scheduler, a call of ``schedule()`` at a time.

    A request is answered with one sampled token (or one pooled value) in the round that ends its prefill.
    """

    scheduler: Any
    rounds: list[dict[str, int]] = field(default_factory=list)
    """Tokens by request id, for every call, empty ones included."""
    finished: list[str] = field(default_factory=list)

    def schedule(self) -> Any:  # noqa: ANN401
        """Call ``schedule()`` and note what it scheduled; the round is in flight until :meth:`complete`."""
        output = self.scheduler.schedule()
        self.rounds.append(dict(output.num_scheduled_tokens))
        return output

    def complete(self, output: Any) -> None:  # noqa: ANN401
        """Answer a round as a worker would."""
        scheduler = self.scheduler
        ids = list(output.num_scheduled_tokens)
        sampled: list[list[int]] = []
        pooled: list[Any] = []
        for request_id in ids:
            request = scheduler.requests.get(request_id)
            ended = request is not None and request.num_computed_tokens >= request.num_tokens
            pooling = request is not None and request.pooling_params is not None
            sampled.append([_SAMPLED] if ended and not pooling else [])
            pooled.append(object() if ended and pooling else None)
        answers = scheduler.update_from_output(
            output,
            ModelRunnerOutput(
                req_ids=ids,
                req_id_to_index={request_id: index for index, request_id in enumerate(ids)},
                sampled_token_ids=sampled,
                logprobs=None,
                prompt_logprobs_dict={},
                pooler_output=pooled,
            ),
        )
        for group in answers.values():
            self.finished.extend(answer.request_id for answer in group.outputs if answer.finish_reason is not None)

    def step(self) -> dict[str, int]:
        """Schedule and answer one round; returns its tokens by request id."""
        self.complete(self.schedule())
        return self.rounds[-1]

    def run(self, most: int = 10_000) -> list[dict[str, int]]:
        """Step until nothing is unfinished; returns the non-empty rounds.

        Raises:
            RuntimeError: requests are left after ``most`` calls.
        """
        for _ in range(most):
            if not self.scheduler.has_unfinished_requests():
                return [tokens for tokens in self.rounds if tokens]
            self.step()
        raise RuntimeError(f"{self.scheduler.get_num_unfinished_requests()} requests unfinished after {most} calls")

    def abort(self, *request_ids: str) -> None:
        """Abort requests, as a client that disconnects does."""
        self.scheduler.finish_requests(request_ids, RequestStatus.FINISHED_ABORTED)

    def free_blocks(self) -> int:
        """Count the blocks of the pool that nobody holds; the null block is never free."""
        return int(self.scheduler.kv_cache_manager.block_pool.get_num_free_blocks())
