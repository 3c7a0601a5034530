"""From a decision to its branches: prompts that share a beginning, and what the scheduler may know of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from radixflow.decisions.decision import Decision
from radixflow.decisions.encoding import common_length
from radixflow.decisions.errors import DecisionError, shorten
from radixflow.decisions.labels import LabelForm
from radixflow.decisions.manifest import BranchStrategy, LabelStrategy, ModelManifest
from radixflow.decisions.question import Question
from radixflow.decisions.template import ReadStrategy, Template

Render = Callable[[list[dict[str, str]]], str]
"""Chat messages to the text of a prompt, up to where the answer begins."""


@dataclass(frozen=True, slots=True)
class Branch:
    """One prompt of a decision, after what all of them share."""

    question_id: str
    own: str
    labels: tuple[str, ...] = ()
    """Read by labels: what the model may answer, in the order of the options."""
    form: LabelForm | None = None
    """What those labels are."""
    option: int | None = None
    """Read by branches: place of the option that this branch is a candidate for."""


@dataclass(frozen=True, slots=True)
class BranchPlan:
    """The prompts of a decision; a prompt's text is ``shared + branch.own``."""

    strategy: ReadStrategy
    shared: str
    branches: tuple[Branch, ...]
    """By question in the order of the request, then by option."""
    is_chat: bool = False
    """The texts are those of a user turn, and the chat template is still to be put around them."""
    system: str = ""
    """Of a chat: text of the system message; empty: none."""

    def messages(self, branch: Branch) -> list[dict[str, str]]:
        """Return a branch as chat messages."""
        user = {"role": "user", "content": self.shared + branch.own}
        return [{"role": "system", "content": self.system}, user] if self.system else [user]


def plan_branches(decision: Decision, manifest: ModelManifest) -> BranchPlan:
    """Write the prompts of a decision as its model was trained to read them.

    Args:
        decision: what to ask.
        manifest: the model's; its strategy is used, or the one that the request names.

    Raises:
        DecisionError: the request asks for a strategy or a system message that the model has no place for.
    """
    strategy = manifest.choose(decision.request.strategy)
    label, branch = manifest.strategies.label, manifest.strategies.branch
    if strategy is ReadStrategy.LABEL and label is not None:
        return _plan_labels(decision, label)
    assert branch is not None
    return _plan_candidates(decision, branch)


def _plan_labels(decision: Decision, settings: LabelStrategy) -> BranchPlan:
    """Write one prompt a question."""
    template = settings.parsed
    forms = [settings.form_of(question.type_name) for question in decision.questions]
    texts = [question.text(form) for question, form in zip(decision.questions, forms, strict=True)]
    shared = f"{decision.state}\n\n"
    if template is not None:
        _check_system(decision, template)
        values = {"system": decision.system, "state": decision.state}
        filled = [template.fill({**values, "question": text}, "question") for text in texts]
        shared, texts = filled[0][0], [own for _, own in filled]
    branches = tuple(
        Branch(question.id, text, question.labels(form), form)
        for question, form, text in zip(decision.questions, forms, texts, strict=True)
    )
    if template is not None:
        return BranchPlan(ReadStrategy.LABEL, shared, branches)
    return BranchPlan(ReadStrategy.LABEL, shared, branches, is_chat=True, system=decision.system)


def _plan_candidates(decision: Decision, settings: BranchStrategy) -> BranchPlan:
    """Write one prompt an option."""
    template = settings.parsed
    _check_system(decision, template)
    # The candidates of a lone question share it too; those of several questions share the state only.
    own_from = "option" if len(decision.questions) == 1 else "question"
    shared, branches = "", []
    for question in decision.questions:
        for place, values in enumerate(_candidates(decision, question)):
            shared, own = template.fill(values, own_from)
            branches.append(Branch(question.id, own, option=place))
    return BranchPlan(ReadStrategy.BRANCH, shared, tuple(branches))


def _candidates(decision: Decision, question: Question) -> list[dict[str, str]]:
    """Return what a template's places hold, for each option of a question."""
    values = {
        "system": decision.system,
        "state": decision.state,
        "question": question.question_line,
        "options": "\n".join(question.option_lines(LabelForm.NAMES)),
    }
    return [{**values, "option": option.own_text} for option in question.options]


def _check_system(decision: Decision, template: Template) -> None:
    """Refuse a system message that would be dropped."""
    if decision.system and "system" not in template.places:
        raise DecisionError(
            "instructions",
            f"is {shorten(decision.system)}, but this model's prompts have no place for it",
            "leave it out, or write it into the questions",
        )


def render_chat(plan: BranchPlan, render: Render) -> BranchPlan:
    """Put the chat template around every branch.

    Args:
        plan: from :func:`plan_branches`; one that is no chat is returned as it is.
        render: the chat template, called once a branch, so that whatever it does to a text is in the prompt.

    Returns:
        A plan of complete prompts. They are cut after the state where the template left it in place, else where
        they really part.
    """
    if not plan.is_chat:
        return plan
    texts = [render(plan.messages(branch)) for branch in plan.branches]
    place = texts[0].rfind(plan.shared)
    shared = texts[0][: place + len(plan.shared)] if place >= 0 else ""
    if not shared or not all(text.startswith(shared) for text in texts):
        shared = texts[0][: min(common_length(texts[0], text) for text in texts)]
    branches = tuple(
        replace(branch, own=text[len(shared) :]) for branch, text in zip(plan.branches, texts, strict=True)
    )
    return BranchPlan(plan.strategy, shared, branches)
