"""What a model runner remembers of its requests between rounds, from scheduler outputs alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from radixflow.simulate.state_worker.memory import advance


@dataclass
class Row:
    """One request as the runner knows it."""

    request_id: str
    tokens: list[int]
    """Prompt, and what was sampled since."""
    blocks: list[list[int]]
    """Block ids by group and column."""
    computed: int
    """Tokens computed before the coming round, by the scheduler's account."""
    pooling: bool = False
    columns: dict[int, int] = field(default_factory=dict)
    """By recurrent group: the column of the running state. Unknown for who is new or comes back."""
    _digests: list[int] = field(default_factory=lambda: [0])

    def digest(self, length: int) -> int:
        """Return the digest of the first ``length`` tokens."""
        digests = self._digests
        for token in self.tokens[len(digests) - 1 : length]:
            digests.append(advance(digests[-1], token))
        return digests[length]

    def replace_tokens(self, tokens: list[int]) -> None:
        """Take the scheduler's tokens for the runner's own."""
        self.tokens = list(tokens)
        self._digests = [0]


class Batch:
    """The rows by request id, kept up to date as vLLM's V1 runner does; outputs of the V2 runner's kind fit too."""

    def __init__(self) -> None:
        """Start without requests."""
        self.rows: dict[str, Row] = {}

    def update(self, output: Any) -> list[Row]:  # noqa: ANN401
        """Apply a ``SchedulerOutput``; returns the rows of this round, in its order."""
        for request_id in output.finished_req_ids:
            self.rows.pop(request_id, None)
        for request_id in output.preempted_req_ids or ():
            if request_id in self.rows:
                self.rows[request_id].columns.clear()
        for new in output.scheduled_new_reqs:
            tokens = new.prompt_token_ids if new.prefill_token_ids is None else new.prefill_token_ids
            self.rows[new.req_id] = Row(
                request_id=new.req_id,
                tokens=list(tokens),
                blocks=[list(ids) for ids in new.block_ids],
                computed=new.num_computed_tokens,
                pooling=new.pooling_params is not None,
            )
        cached = output.scheduled_cached_reqs
        for index, request_id in enumerate(cached.req_ids):
            self._continue(cached, index, self.rows[request_id])
        return [self.rows[request_id] for request_id in output.num_scheduled_tokens]

    def _continue(self, cached: Any, index: int, row: Row) -> None:  # noqa: ANN401
        """Bring a known request up to date: more blocks, or others if it comes back from preemption."""
        row.computed = cached.num_computed_tokens[index]
        new_blocks = cached.new_block_ids[index]
        if row.request_id in cached.resumed_req_ids:
            row.blocks = [list(ids) for ids in new_blocks]
            row.columns.clear()
            # A sample that was in flight at a reset is dropped, and the scheduler's tokens are without it.
            row.replace_tokens(cached.all_token_ids[row.request_id])
        elif new_blocks is not None:
            for own, more in zip(row.blocks, new_blocks, strict=True):
                own.extend(more)
