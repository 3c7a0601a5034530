"""Which text stands for an option, and which single token of it is read."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from radixflow.decisions.errors import DecisionError, LabelError, question_param, shorten

Encode = Callable[[str], Sequence[int]]
"""Text to token ids, without special tokens added."""
Decode = Callable[[Sequence[int]], str]
"""Token ids to text, special tokens kept."""


class LabelForm(StrEnum):
    """What a model was trained to answer with."""

    LETTERS = "letters"
    """A letter for a choice, a digit for a score, yes or no: what a general instruct model is asked for."""
    NAMES = "names"
    """The option's own name, read at its first token."""


@dataclass(frozen=True, slots=True)
class LabelReader:
    """Finds the token that a label begins with, where an answer begins."""

    encode: Encode
    decode: Decode
    tail: tuple[int, ...]
    """The ids that every prompt ends with, from :func:`generation_tail`; none are allowed."""

    def tokens(self, label: str) -> tuple[int, ...]:
        """Return the ids of a label written right after the tail.

        Raises:
            LabelError: the label changes how the tail itself is split, so that no prompt can be read there.
        """
        ids = tuple(self.encode(self.decode(self.tail) + label))
        if ids[: len(self.tail)] != self.tail or len(ids) == len(self.tail):
            raise LabelError(
                f"label {shorten(label)} after the prompt's last tokens {list(self.tail)} encodes to {list(ids[:16])}, "
                "which doesn't continue them; serve a model whose tokenizer keeps them, or change the template's end"
            )
        return ids[len(self.tail) :]


def generation_tail(prompt: Sequence[int], added: Collection[int]) -> tuple[int, ...]:
    """Return what stands between a prompt's last special token and the answer.

    Args:
        prompt: ids of any chat prompt, up to where the answer begins.
        added: ids that were added to the vocabulary (role markers and the like); a tokenizer never merges them.
    """
    start = next((place + 1 for place in range(len(prompt) - 1, -1, -1) if prompt[place] in added), 0)
    return tuple(prompt[start:])


def check_tail(prompt: Sequence[int], tail: Sequence[int], param: str = "chat_template_kwargs") -> None:
    """Refuse a prompt that doesn't end where the labels were checked.

    Raises:
        DecisionError: it ends otherwise, as when the template was told to open another kind of turn.
    """
    if tail and tuple(prompt[-len(tail) :]) != tuple(tail):
        raise DecisionError(
            param,
            f"makes the prompt end with tokens {list(prompt[-len(tail) :])} instead of {list(tail)}",
            "leave out what changes the end of the chat prompt",
        )


def letter_tokens(reader: LabelReader, label_sets: Iterable[Sequence[str]]) -> dict[str, int]:
    """Check that every fixed label is exactly one token, and distinct within its set; once, at start-up.

    Args:
        reader: the tokenizer, at the end of a prompt.
        label_sets: the labels of each type of question, :func:`radixflow.decisions.letter_sets`.

    Returns:
        Label to token id.

    Raises:
        LabelError: the label, what it encodes to, or the other label of its set with the same token.
    """
    known: dict[str, int] = {}
    for labels in label_sets:
        owners: dict[int, str] = {}
        for label in labels:
            ids = reader.tokens(label)
            if len(ids) != 1:
                raise LabelError(
                    f"label {label!r} is {len(ids)} tokens ({list(ids)}) at the start of an answer, not one; "
                    "this tokenizer can't be read by letters: use a model with a manifest of label form 'names'"
                )
            other = owners.setdefault(ids[0], label)
            if other != label:
                raise LabelError(
                    f"labels {other!r} and {label!r} are the same token ({ids[0]}); "
                    "this tokenizer can't be read by letters: use a model with a manifest of label form 'names'"
                )
            known[label] = ids[0]
    return known


def name_tokens(reader: LabelReader, question_id: str, names: Sequence[str]) -> tuple[int, ...]:
    """Return the first token of each option's name.

    Raises:
        DecisionError: a name has none, or two names begin with the same one and can't be told apart.
    """
    param = question_param(question_id, "criteria")
    owners: dict[int, str] = {}
    for name in names:
        try:
            first = reader.tokens(name)[0]
        except LabelError:
            raise DecisionError(
                param, f"has the option {shorten(name)}, which has no first token of its own", "give it another name"
            ) from None
        other = owners.setdefault(first, name)
        if other != name:
            raise DecisionError(
                param,
                f"has the options {shorten(other)} and {shorten(name)}, which begin with the same token ({first})",
                "rename one: this model answers with a name's first token",
            )
    return tuple(owners)


def label_ids(
    reader: LabelReader,
    letters: Mapping[str, int],
    form: LabelForm,
    question_id: str,
    labels: Sequence[str],
) -> tuple[int, ...]:
    """Return the token to read for each label of a question, in the order of its options.

    Args:
        reader: the tokenizer, at the end of a prompt.
        letters: what :func:`letter_tokens` returned; not used for names.
        form: what the labels are.
        question_id: named in errors.
        labels: ``Branch.labels``.

    Raises:
        DecisionError: names that can't be told apart.
        LabelError: a letter that wasn't checked at start-up.
    """
    if form is LabelForm.NAMES:
        return name_tokens(reader, question_id, labels)
    unknown = next((label for label in labels if label not in letters), None)
    if unknown is not None:
        raise LabelError(f"label {unknown!r} was not checked at start-up; pass the label sets of every question type")
    return tuple(letters[label] for label in labels)
