"""Which tokens a served model answers with: checked once, when the server starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from radixflow.decisions import (
    QUESTION_TYPES,
    Branch,
    LabelForm,
    LabelReader,
    LabelStrategy,
    check_tail,
    generation_tail,
    label_ids,
    letter_tokens,
)
from radixflow.serving.prompts import Prompts


@dataclass(frozen=True, slots=True)
class Labels:
    """How the answers of one model begin."""

    reader: LabelReader
    letters: Mapping[str, int]
    """Token of each letter, digit, yes and no; empty where everything is read by names."""

    def ids(self, branch: Branch) -> tuple[int, ...]:
        """Return the token of each label of a branch, in the order of its options.

        Raises:
            DecisionError: names that begin with the same token.
        """
        assert branch.form is not None
        return label_ids(self.reader, self.letters, branch.form, branch.question_id, branch.labels)

    def check(self, prompt: Sequence[int], param: str) -> None:
        """Refuse a prompt that ends otherwise than the one that was checked at the start.

        Raises:
            DecisionError: naming ``param``.
        """
        check_tail(prompt, self.reader.tail, param)


def find_labels(prompts: Prompts, strategy: LabelStrategy) -> Labels:
    """Look where an answer begins, and check every fixed label there.

    Raises:
        LabelError: this tokenizer or template can't be read by labels; the message says why.
    """
    template = strategy.parsed
    if template is None:
        probe = prompts.renderer()([{"role": "user", "content": "Hello"}])
        ids = prompts.encode(probe)
        tail = generation_tail(ids, prompts.added)
    else:
        tail = generation_tail(prompts.encode(template.tail), prompts.added)
    reader = LabelReader(prompts.encode, prompts.decode, tuple(tail))
    by_letter = [
        kind.letter_set for name, kind in QUESTION_TYPES.items() if strategy.form_of(name) is LabelForm.LETTERS
    ]
    if not by_letter:
        # Names differ by request; whether anything at all can be read here shows now.
        reader.tokens("yes")
    return Labels(reader, letter_tokens(reader, by_letter))
