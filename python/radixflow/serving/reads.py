"""The two ways to read a decision from an engine: what each branch is sent with, and what comes back of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from vllm.pooling_params import PoolingParams
from vllm.sampling_params import RequestOutputKind, SamplingParams

from radixflow.decisions import (
    Branch,
    BranchTokens,
    Question,
    QuestionRead,
    ReadError,
    read_branches,
    read_labels,
)
from radixflow.serving.protocols import Output


class Read(ABC):
    """How branches of one strategy are sent and read."""

    output_tokens: int
    """Tokens that the engine decodes for each branch."""

    @abstractmethod
    def params(self, label_ids: Sequence[int], hints: Mapping[str, str | int]) -> object:
        """Return the parameters of one branch.

        Args:
            label_ids: tokens to read, one an option; of a branch that is read by its score: none.
            hints: what the scheduler may know, from :func:`radixflow.decisions.branch_hints`.
        """

    @abstractmethod
    def question(
        self,
        question: Question,
        branches: Sequence[Branch],
        label_ids: Sequence[Sequence[int]],
        outputs: Sequence[Output],
    ) -> QuestionRead:
        """Read one question.

        Args:
            question: what was asked.
            branches: its branches, in order.
            label_ids: of each branch.
            outputs: vLLM's final output of each branch.

        Raises:
            ReadError: an output lacks what the formulas need.
        """

    def tokens(self, output: Output) -> BranchTokens:
        """Return what one branch took."""
        cached = output.num_cached_tokens
        return BranchTokens(len(output.prompt_token_ids), self.output_tokens, None if cached is None else int(cached))


class LabelRead(Read):
    """One prompt a question: full-vocabulary log-probabilities of its labels at the first position of the answer."""

    output_tokens = 1

    def params(self, label_ids: Sequence[int], hints: Mapping[str, str | int]) -> SamplingParams:
        """Return greedy sampling of one token, with the labels' log-probabilities."""
        return SamplingParams(
            max_tokens=1,
            temperature=0.0,
            logprob_token_ids=list(label_ids),
            detokenize=False,
            output_kind=RequestOutputKind.FINAL_ONLY,
            extra_args=dict(hints) or None,
        )

    def question(
        self,
        question: Question,
        branches: Sequence[Branch],
        label_ids: Sequence[Sequence[int]],
        outputs: Sequence[Output],
    ) -> QuestionRead:
        """Read the first position of the only branch."""
        (output,), (ids,) = outputs, label_ids
        completion = output.outputs[0] if output.outputs else None
        if completion is None or not completion.token_ids or not completion.logprobs:
            reason = completion.finish_reason if completion is not None else "no output"
            raise ReadError(f"question {question.id!r} has no answer's first position ({reason})")
        first = {token: entry.logprob for token, entry in completion.logprobs[0].items()}
        return QuestionRead(read_labels(first, ids, completion.token_ids[0]), (self.tokens(output),))


class BranchRead(Read):
    """One prompt a candidate: a scalar head at the last position."""

    output_tokens = 0

    def __init__(self, temperature: float) -> None:
        """Take the manifest's temperature, which scores are divided by."""
        self.temperature = temperature

    def params(self, label_ids: Sequence[int], hints: Mapping[str, str | int]) -> PoolingParams:
        """Return pooling by the classifier head, its number as it is."""
        return PoolingParams(
            task="classify",
            use_activation=False,
            # vLLM leaves it off where a pooler may need every token; one at the last position doesn't.
            skip_reading_prefix_cache=False,
            extra_kwargs=dict(hints) or None,
        )

    def question(
        self,
        question: Question,
        branches: Sequence[Branch],
        label_ids: Sequence[Sequence[int]],
        outputs: Sequence[Output],
    ) -> QuestionRead:
        """Read the scores of a question's candidates."""
        scores = []
        for output in outputs:
            values = output.outputs.data.flatten().tolist()
            if len(values) != 1:
                raise ReadError(
                    f"question {question.id!r}: the head gave {len(values)} numbers for a candidate, not one"
                )
            scores.append(float(values[0]))
        return QuestionRead(read_branches(scores, self.temperature), tuple(self.tokens(output) for output in outputs))
