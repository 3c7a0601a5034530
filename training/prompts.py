"""Training rows: exactly the token ids that a server of the model reads, from the package's own code."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from jinja2 import Environment
from tokenizers import Tokenizer

from radixflow.decisions import (
    Choice,
    LabelReader,
    Noul,
    ReadStrategy,
    generation_tail,
    label_ids,
    letter_sets,
    letter_tokens,
    parse_decision,
    plan_branches,
    render_chat,
)
from radixflow.models.decision_model import decision_manifest
from radixflow.models.tokenizer import CHAT_TEMPLATE, SPECIAL_TOKENS
from radixflow.synthetic import Sample

_CHAT = Environment(trim_blocks=False).from_string(CHAT_TEMPLATE)


@dataclass(frozen=True, slots=True)
class Row:
    """One question of a decision, as it is read."""

    question_id: str
    type_name: str
    prompts: tuple[tuple[int, ...], ...]
    """Read by labels: one; by branches: one an option."""
    labels: tuple[int, ...]
    """Read by labels: the token of each option."""
    options: int
    answer: int
    """Place of the right option."""


class Renderer:
    """Turns decisions into rows."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        added = {tokenizer.token_to_id(token) for token in SPECIAL_TOKENS}
        probe = self.encode(self.render([{"role": "user", "content": "state"}]))
        decode = lambda ids: tokenizer.decode(list(ids), skip_special_tokens=False)  # noqa: E731
        self.reader = LabelReader(self.encode, decode, generation_tail(probe, added))
        self._letters = letter_tokens(self.reader, letter_sets())
        self._manifests = {kind: decision_manifest(kind) for kind in ReadStrategy}

    def encode(self, text: str) -> tuple[int, ...]:
        """Return a text's ids."""
        return tuple(self._tokenizer.encode(text, add_special_tokens=False).ids)

    @staticmethod
    def render(messages: list[dict[str, str]]) -> str:
        """Return a chat's text up to where the answer begins."""
        return _CHAT.render(messages=messages, add_generation_prompt=True)

    def rows(self, sample: Sample, strategy: ReadStrategy) -> Iterator[Row]:
        """Yield a row a question."""
        decision = parse_decision(sample.request)
        plan = render_chat(plan_branches(decision, self._manifests[strategy]), self.render)
        for question in decision.questions:
            mine = [branch for branch in plan.branches if branch.question_id == question.id]
            labels: tuple[int, ...] = ()
            if strategy is ReadStrategy.LABEL:
                (branch,) = mine
                assert branch.form is not None
                labels = label_ids(self.reader, self._letters, branch.form, question.id, branch.labels)
            expected = sample.expected[question.id]
            if isinstance(question, Choice):
                answer = [option.name for option in question.options].index(str(expected))
            elif isinstance(question, Noul):
                answer = 0 if expected else 1
            else:
                answer = int(expected)
            prompts = tuple(self.encode(plan.shared + branch.own) for branch in mine)
            yield Row(question.id, question.type_name, prompts, labels, len(question.options), answer)
