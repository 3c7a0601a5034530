"""A decision from its bytes to its answers."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from radixflow.decisions import (
    Branch,
    BranchPlan,
    Decision,
    DecisionError,
    DecisionResponse,
    QuestionRead,
    branch_hints,
    build_response,
    encode_branches,
    parse_body,
    parse_decision,
    plan_branches,
    render_chat,
)
from radixflow.decisions.errors import question_param
from radixflow.serving.engine import Branches, Job
from radixflow.serving.model import ServedModel
from radixflow.serving.protocols import Output
from radixflow.telemetry.decision_metrics import DecisionMetrics


@dataclass(frozen=True, slots=True)
class Prepared:
    """A decision that was checked as a whole and written as prompts; nothing has run yet."""

    decision: Decision
    plan: BranchPlan
    prompts: Sequence[Sequence[int]]
    label_ids: Sequence[Sequence[int]]
    """Of each branch; empty where scores are read."""
    shared_tokens: int


class DecisionService:
    """Answers decisions with one served model."""

    def __init__(
        self,
        model: ServedModel,
        branches: Branches,
        metrics: DecisionMetrics,
        *,
        near_tie_margin: float,
        find_lora: Callable[[str | None], object],
    ) -> None:
        """Take the parts.

        Args:
            model: what is served and how it is read.
            branches: the engine.
            metrics: counters of this process.
            near_tie_margin: difference of the two highest probabilities below which an answer is a near-tie.
            find_lora: name of a model to its adapter, None for the base model.

        """
        self.model = model
        self.metrics = metrics
        self._branches = branches
        self._near_tie_margin = near_tie_margin
        self._find_lora = find_lora
        # Parsing and encoding hold the loop up for as long as a request is large: they have a thread, just one,
        # because the tokenizer is no more than one user's at a time.
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="radixflow-prompts")

    async def decide(self, body: bytes, header_id: str | None = None) -> DecisionResponse:
        """Answer one request.

        Args:
            body: as it was sent.
            header_id: the request-id header, which wins over the body's field.

        Raises:
            DecisionError: the request is wrong (400).
            UnknownModelError: no such model (404).
            LabelError: this model can't be read (501).
            ReadError: the engine's output can't be (500).
            vllm.exceptions.VLLMError: what vLLM has against it.
        """
        start = time.perf_counter()
        loop = asyncio.get_running_loop()
        prepared = await loop.run_in_executor(self._worker, self._prepare, body)
        request = prepared.decision.request
        lora_request = self._find_lora(request.model)
        request_id = header_id or request.request_id
        read = self.model.read(prepared.plan.strategy)
        # A client may use an id twice at a time; its decisions are still two groups.
        hints = branch_hints(f"{request_id[:64]}-{secrets.token_hex(8)}", len(prepared.prompts), prepared.shared_tokens)
        job = Job(
            name=f"decision-{request_id}",
            prompts=prepared.prompts,
            params=[read.params(ids, hints) for ids in prepared.label_ids],
            # Prefixes of different requests are not compared with each other unless their senders ask for it.
            cache_salt=request.cache_salt or secrets.token_hex(16),
            priority=request.priority,
            lora_request=lora_request,
        )
        outputs = await self._branches.run(job)
        reads = _by_question(prepared, outputs, read.question)
        response = build_response(
            prepared.decision,
            reads,
            model=request.model or self.model.name,
            created=int(time.time()),
            request_id=request_id,
            near_tie_margin=self._near_tie_margin,
        )
        answers = response.answers.values()
        self.metrics.answered([(answer.type, answer.near_tie) for answer in answers], time.perf_counter() - start)
        return response

    def _prepare(self, body: bytes) -> Prepared:
        """Check a request and write its prompts; every error of its sender's is found here."""
        decision = parse_decision(parse_body(body))
        self.model.check_name(decision.request.model)
        plan = plan_branches(decision, self.model.manifest)
        prompts, labels = self.model.prompts, self.model.labels
        if plan.is_chat:
            plan = render_chat(plan, prompts.renderer(decision.request.chat_template_kwargs))
        ids: list[tuple[int, ...]] = []
        for branch in plan.branches:
            ids.append(labels.ids(branch) if labels is not None and branch.form is not None else ())
        encoded = encode_branches(plan.shared, [branch.own for branch in plan.branches], prompts.encode, prompts.decode)
        for branch, prompt in zip(plan.branches, encoded.prompts, strict=True):
            self._check_prompt(branch, prompt, encoded.shared_tokens)
        return Prepared(decision, plan, encoded.prompts, ids, encoded.shared_tokens)

    def _check_prompt(self, branch: Branch, prompt: Sequence[int], shared_tokens: int) -> None:
        """Refuse a prompt that is too long, or that ends where no label was checked."""
        room = self.model.max_model_len - (1 if branch.form is not None else 0)
        if len(prompt) > room:
            param = "state" if shared_tokens > room else question_param(branch.question_id)
            raise DecisionError(
                param,
                f"makes a prompt of {len(prompt)} tokens, {shared_tokens} of them shared by all questions",
                f"shorten it: this model reads {room}",
            )
        if branch.form is not None and self.model.labels is not None:
            self.model.labels.check(prompt, "chat_template_kwargs")

    def close(self) -> None:
        """Let the thread go."""
        self._worker.shutdown(wait=False, cancel_futures=True)


def _by_question(
    prepared: Prepared, outputs: Sequence[Output], read: Callable[..., QuestionRead]
) -> dict[str, QuestionRead]:
    """Read each question from the outputs of its branches."""
    reads = {}
    places: dict[str, list[int]] = {}
    for place, branch in enumerate(prepared.plan.branches):
        places.setdefault(branch.question_id, []).append(place)
    for question in prepared.decision.questions:
        mine = places[question.id]
        reads[question.id] = read(
            question,
            [prepared.plan.branches[place] for place in mine],
            [prepared.label_ids[place] for place in mine],
            [outputs[place] for place in mine],
        )
    return reads
