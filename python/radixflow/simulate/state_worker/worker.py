"""Answers a scheduler's rounds as vLLM's model runner would, and checks every read of the cache."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from vllm.v1.kv_cache_interface import FullAttentionSpec, MambaSpec
from vllm.v1.outputs import ModelRunnerOutput

from radixflow.simulate.rig import END_TOKEN
from radixflow.simulate.state_worker.batch import Batch, Row
from radixflow.simulate.state_worker.memory import NULL_BLOCK, STATE_SLOT, BlockMemory, Mark, StateFault, advance
from radixflow.simulate.stepper import Stepper


@dataclass
class StateWorker(Stepper):
    """A stepper with a memory: what a block holds is what a round really wrote there.

    A round runs as on a device: blocks are zeroed and copied, running states are carried to their new blocks,
    then every request computes its chunk from its own state and reads its whole prefix in the attention groups.
    Rounds run when they are completed, in that order, so several may be in flight. The sampled token is a
    function of what was read, so two schedulers that serve the same prompts rightly give the same tokens.

    Raises:
        StateFault: a request read something else than its prefix (``strict``; otherwise it goes on from what it
            read, as a model would, and the fault is noted in ``faults``).
        ValueError: a cache group is neither full attention nor recurrent in ``align`` mode.
    """

    strict: bool = True
    faults: list[StateFault] = field(default_factory=list)
    answers: dict[str, list[Any]] = field(default_factory=dict)
    """Tokens (or pooled values) by request id, as the scheduler handed them out."""
    memory: BlockMemory = field(default_factory=BlockMemory)
    batch: Batch = field(default_factory=Batch)

    def __post_init__(self) -> None:
        """Read the cache's groups from the scheduler; nothing else of it is looked at."""
        self._recurrent: dict[int, int] = {}
        self._attention: dict[int, int] = {}
        for group, described in enumerate(self.scheduler.kv_cache_config.kv_cache_groups):
            spec = described.kv_cache_spec
            if isinstance(spec, MambaSpec) and spec.mamba_cache_mode == "align":
                self._recurrent[group] = spec.block_size
            elif isinstance(spec, FullAttentionSpec):
                self._attention[group] = spec.block_size
            else:
                raise ValueError(f"cache group {group} is {spec!r}; only full attention and 'align' states are known")
        self._samples = self.scheduler.vllm_config.model_config.get_vocab_size() - END_TOKEN - 1

    def complete(self, output: Any) -> None:  # noqa: ANN401
        """Run a round and give the scheduler its answer."""
        outputs = self.scheduler.update_from_output(output, self.execute(output))
        for group in outputs.values():
            for answer in group.outputs:
                given = [answer.pooling_output] if answer.pooling_output is not None else answer.new_token_ids
                self.answers.setdefault(answer.request_id, []).extend(given)
                if answer.finish_reason is not None:
                    self.finished.append(answer.request_id)

    def execute(self, output: Any) -> ModelRunnerOutput:  # noqa: ANN401
        """Run a round: what its ``SchedulerOutput`` says, and nothing else."""
        self.memory.zero(output.new_block_ids_to_zero or ())
        self.copy_blocks(output.kv_cache_block_copies or ())
        rows = self.batch.update(output)
        scheduled = output.num_scheduled_tokens
        self.carry_states([(row, scheduled[row.request_id]) for row in rows])
        written: dict[tuple[int, int], str] = {}
        values: dict[str, int] = {}
        # Attention may read what an earlier part of the same prefix writes in this round: that part starts earlier.
        for row in sorted(rows, key=lambda row: row.computed):
            values[row.request_id] = self.forward(row, scheduled[row.request_id], written)
        return self._answer(rows, scheduled, values)

    def copy_blocks(self, copies: Any) -> None:  # noqa: ANN401
        """Copy whole blocks, before anything else in the round reads or writes them."""
        self.memory.copy([(copy.src_block_id, copy.dst_block_id) for copy in copies])

    def carry_states(self, rows: list[tuple[Row, int]]) -> None:
        """Copy each running state into the block that this round's tokens end in.

        The running state of a request that is new or comes back is where its hit ends: in the column of its last
        computed token.
        """
        for group, block_size in self._recurrent.items():
            pairs = []
            for row, count in rows:
                before = row.columns.get(group, (row.computed - 1) // block_size)
                after = -(-(row.computed + count) // block_size) - 1
                row.columns[group] = after
                if before not in (-1, after):
                    pairs.append((row.blocks[group][before], row.blocks[group][after]))
            self.memory.copy(pairs)

    def forward(self, row: Row, count: int, written: dict[tuple[int, int], str]) -> int:
        """Compute ``count`` tokens of one request; returns the value its sample depends on.

        Args:
            row: the request.
            count: tokens of this round.
            written: by block and slot, who wrote it in this round; two writers are a fault.
        """
        start, end = row.computed, row.computed + count
        if end > len(row.tokens):
            raise ValueError(f"request {row.request_id!r}: token {end} of {len(row.tokens)} is to be computed")
        value = 0
        for group, block_size in self._recurrent.items():
            block = row.blocks[group][(end - 1) // block_size]
            digest = self._read(row, group, block, STATE_SLOT, start) if start else 0
            for token in row.tokens[start:end]:
                digest = advance(digest, token)
            self._write(row, group, (block, STATE_SLOT), Mark(end, digest, row.request_id), written)
            value = advance(value, digest)
        for group, block_size in self._attention.items():
            blocks, wrong = row.blocks[group], 0
            for position in range(start):
                block, slot = blocks[position // block_size], position % block_size
                wrong += self._read(row, group, block, slot, position + 1) - row.digest(position + 1)
            # Deeper layers keep what they read: one wrong slot spoils all that is written after it.
            digest = row.digest(start) + wrong
            for position in range(start, end):
                digest = advance(digest, row.tokens[position])
                place = blocks[position // block_size], position % block_size
                self._write(row, group, place, Mark(position + 1, digest, row.request_id), written)
            value = advance(value, digest)
        return value

    def _read(self, row: Row, group: int, block: int, slot: int, length: int) -> int:
        """Return the digest in a slot, which must be that of the request's first ``length`` tokens."""
        found = None if block == NULL_BLOCK else self.memory.read(group, block, slot)
        expected = row.digest(length)
        if found is None or not found.holds(length, expected):
            kind = "the state after" if group in self._recurrent else "attention over"
            why = f"expected {kind} its first {length} tokens"
            self._fault(StateFault(row.request_id, group, block, length, found, why))
        return found.digest if found else advance(expected, block)

    def _write(
        self, row: Row, group: int, place: tuple[int, int], mark: Mark, written: dict[tuple[int, int], str]
    ) -> None:
        block, slot = place
        other = written.setdefault(place, row.request_id)
        if block == NULL_BLOCK or other != row.request_id:
            why = "it writes into no block" if block == NULL_BLOCK else f"{other!r} writes there in the same round"
            found = self.memory.read(group, block, slot)
            self._fault(StateFault(row.request_id, group, block, mark.length, found, why))
        self.memory.write(group, block, slot, mark)

    def _fault(self, fault: StateFault) -> None:
        self.faults.append(fault)
        if self.strict:
            raise fault

    def _answer(self, rows: list[Row], scheduled: dict[str, int], values: dict[str, int]) -> ModelRunnerOutput:
        """Sample for the requests whose known tokens are all computed, and remember the samples."""
        sampled: list[list[int]] = []
        pooled: list[Any] = []
        for row in rows:
            ended = row.computed + scheduled[row.request_id] == len(row.tokens)
            value = values[row.request_id]
            pooled.append(value if ended and row.pooling else None)
            sampled.append([END_TOKEN + 1 + value % self._samples] if ended and not row.pooling else [])
            row.tokens.extend(sampled[-1])
        ids = [row.request_id for row in rows]
        return ModelRunnerOutput(
            req_ids=ids,
            req_id_to_index={request_id: index for index, request_id in enumerate(ids)},
            sampled_token_ids=sampled,
            logprobs=None,
            prompt_logprobs_dict={},
            pooler_output=pooled,
        )
