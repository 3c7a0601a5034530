"""The endpoint plugin on an application of its own, with an engine that is scripted: what a real one rarely does."""

import asyncio
from argparse import Namespace
from types import SimpleNamespace

import httpx
import pytest
import torch
from fastapi import FastAPI
from transformers import AutoTokenizer
from vllm.exceptions import QueueOverflowError, VLLMValidationError
from vllm.logprobs import Logprob
from vllm.outputs import CompletionOutput, PoolingOutput, PoolingRequestOutput, RequestOutput
from vllm.pooling_params import PoolingParams
from vllm.v1.engine.exceptions import EngineDeadError

from radixflow.decisions import MANIFEST_FILE, ManifestError
from radixflow.models import embedded_model
from radixflow.models.decision_model import decision_model
from radixflow.serving.plugin import DecisionPlugin
from radixflow.serving.settings import ENVIRONMENT_VARIABLE

PATH = "/v1/systemone"
NAMES = '{"strategies": {"label": {"label_form": "names", "label_form_by_type": {"score": "letters"}}}}'
BRANCH = '{"strategies": {"branch": {"template": "{state} {question} {options} {option}", "temperature": 2.0}}}'
BODY = {
    "state": "The parcel is late.",
    "questions": {
        "team": {"type": "choice", "criteria": {"shipping": None, "billing": None}},
        "mood": {"type": "score", "criteria": ["calm", "annoyed", "furious"]},
    },
}


class Queue:
    """A request of the scripted engine: its outputs are ready, or never come."""

    def __init__(self, request_id, outcome):
        self.request_id, self.outcome, self.closed = request_id, outcome, False

    def get_nowait(self):
        return None

    async def get(self):
        if self.outcome is None:
            await asyncio.Event().wait()
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome

    def close(self):
        self.closed = True


class Engine:
    """Records what it is asked for; `script(index, params, prompt)` says what comes of a request."""

    def __init__(self, folder, script, *, runner="generate", tasks=("generate",), ranks=1, room=1000):
        self.model_config = SimpleNamespace(
            model=str(folder),
            runner_type=runner,
            logprobs_mode="raw_logprobs",
            max_model_len=8192,
            skip_tokenizer_init=False,
        )
        self.vllm_config = SimpleNamespace(
            parallel_config=SimpleNamespace(data_parallel_size=ranks, local_engines_only=False)
        )
        self.script, self.tasks, self.room = script, tasks, room
        self.queues, self.aborted, self.ranks, self.params, self.prompts = [], [], [], [], []
        self.delay = 0.0

    async def get_supported_tasks(self):
        return self.tasks

    def get_tokenizer(self):
        return AutoTokenizer.from_pretrained(embedded_model())

    def check_admission(self, n, request_id):
        if n > self.room:
            raise QueueOverflowError

    async def add_request(self, request_id, prompt, params, *, lora_request, priority, data_parallel_rank):
        await asyncio.sleep(self.delay)
        queue = Queue(f"{request_id}-internal", self.script(len(self.queues), params, prompt))
        self.queues.append(queue)
        self.ranks.append(data_parallel_rank)
        self.params.append(params)
        self.prompts.append(prompt)
        return queue

    async def abort(self, request_id, internal):
        assert internal
        self.aborted += request_id


def labels_answer(_, params, prompt):
    """The first label has e times the probability of the second, and so on."""
    ids = params.logprob_token_ids
    logprobs = {token: Logprob(-1.0 - place) for place, token in enumerate(ids)}
    done = CompletionOutput(0, "", [ids[0]], None, [logprobs], finish_reason="length")
    return RequestOutput("r", None, prompt["prompt_token_ids"], None, [done], True, num_cached_tokens=3)


def served(engine, environ=(), monkeypatch=None):
    """Build the application as vLLM does: routes, then state."""
    for name, value in dict(environ).items():
        monkeypatch.setenv(name, value)
    app = FastAPI()
    plugin = DecisionPlugin()
    plugin.attach_router(app)
    app.state.openai_serving_models = SimpleNamespace(
        base_model_paths=[SimpleNamespace(name="tiny", model_path="tiny")], lora_requests={"adapter": "its request"}
    )
    asyncio.run(plugin.init_state(engine, app.state, Namespace(chat_template=None)))
    return app


def ask(app, body=BODY, **more):
    async def run():
        transport = httpx.ASGITransport(app, raise_app_exceptions=True)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            return await client.post(PATH, json=body, **more)

    return asyncio.run(run())


@pytest.fixture
def folder(tmp_path):
    (tmp_path / MANIFEST_FILE).write_text(NAMES)
    return tmp_path


@pytest.fixture
def branch_folder(tmp_path):
    (tmp_path / MANIFEST_FILE).write_text(BRANCH)
    return tmp_path


def test_every_branch_carries_its_decisions_hints_and_salt(folder):
    engine = Engine(folder, labels_answer)
    reply = ask(served(engine)).raise_for_status().json()
    assert reply["answers"]["team"]["choice"] == "shipping"
    assert reply["answers"]["team"]["probabilities"]["shipping"] == pytest.approx(1 / (1 + 2.718281828**-1))
    assert reply["diagnostics"]["mood"]["cached_tokens"] == 3
    hints = [params.extra_args for params in engine.params]
    assert len({hint["radixflow_group"] for hint in hints}) == 1
    assert [hint["radixflow_group_size"] for hint in hints] == [2, 2]
    first, second = (prompt["prompt_token_ids"] for prompt in engine.prompts)
    shared = hints[0]["radixflow_shared_tokens"]
    assert first[:shared] == second[:shared]
    assert first[shared] != second[shared]
    assert len({prompt["cache_salt"] for prompt in engine.prompts}) == 1
    ask(served(engine))
    assert len({prompt["cache_salt"] for prompt in engine.prompts}) == 2
    assert len({params.extra_args["radixflow_group"] for params in engine.params}) == 2


def test_all_branches_of_a_decision_go_to_one_rank(folder):
    engine = Engine(folder, labels_answer, ranks=4)
    app = served(engine)
    for _ in range(3):
        ask(app).raise_for_status()
    assert engine.ranks == [0, 0, 1, 1, 2, 2]


def test_an_adapter_is_passed_on_and_named(folder):
    engine = Engine(folder, labels_answer)
    reply = ask(served(engine), {**BODY, "model": "adapter"}).raise_for_status().json()
    assert reply["model"] == "adapter"


def test_scores_are_read_through_a_softmax_at_the_manifests_temperature(branch_folder):
    def script(index, params, prompt):
        assert isinstance(params, PoolingParams)
        assert params.use_activation is False
        pooled = PoolingOutput(torch.tensor([float(index)]))
        return PoolingRequestOutput("r", pooled, prompt["prompt_token_ids"], 0, True)

    engine = Engine(branch_folder, script, runner="pooling", tasks=("classify",))
    body = {"state": "x", "questions": {"team": BODY["questions"]["team"]}}
    reply = ask(served(engine), body).raise_for_status().json()
    share = 1 / (1 + 2.718281828**-0.5)
    assert reply["answers"]["team"]["probabilities"] == pytest.approx({"shipping": 1 - share, "billing": share})
    assert reply["usage"]["output_tokens"] == 0
    assert [params.extra_kwargs["radixflow_group_size"] for params in engine.params] == [2, 2]


def check_error(reply, status, part):
    assert reply.status_code == status, reply.text
    assert part in reply.json()["error"]["message"]
    assert reply.json()["error"]["code"] == status


@pytest.mark.parametrize(
    ("manifest", "options", "part"),
    [
        (None, {"runner": "pooling", "tasks": ("classify",)}, f"has no {MANIFEST_FILE}"),
        (NAMES, {"runner": "pooling", "tasks": ("classify",)}, "--runner generate"),
        (BRANCH, {}, "--runner pooling"),
        (BRANCH, {"runner": "pooling", "tasks": ("embed",)}, "--convert classify"),
    ],
)
def test_a_model_that_cannot_be_asked_is_a_501_that_says_why(tmp_path, manifest, options, part):
    if manifest is not None:
        (tmp_path / MANIFEST_FILE).write_text(manifest)
    engine = Engine(tmp_path, labels_answer, **options)
    check_error(ask(served(engine)), 501, part)
    assert engine.queues == []


def test_letters_that_are_not_one_token_are_a_501(tmp_path):
    check_error(ask(served(Engine(tmp_path, labels_answer))), 501, "label 'yes' is 2 tokens")


def test_no_manifest_and_a_tokenizer_that_passes_means_letters(tmp_path):
    tools = AutoTokenizer.from_pretrained(decision_model("label"))
    engine = Engine(tmp_path, labels_answer)
    engine.get_tokenizer = lambda: tools
    reply = ask(served(engine)).raise_for_status().json()
    assert reply["answers"]["team"]["choice"] == "shipping"
    # This tokenizer writes everything in lower case.
    assert tools.decode(engine.params[0].logprob_token_ids) == "ab"
    assert "a: shipping" in tools.decode(engine.prompts[0]["prompt_token_ids"])


def test_other_logprobs_modes_are_a_501(folder):
    engine = Engine(folder, labels_answer)
    engine.model_config.logprobs_mode = "raw_logits"
    check_error(ask(served(engine)), 501, "--logprobs-mode is raw_logits")


def test_a_render_server_answers_501(folder):
    check_error(ask(served(None)), 501, "has no engine")


def test_a_wrong_manifest_stops_the_start(tmp_path):
    (tmp_path / MANIFEST_FILE).write_text("{}")
    with pytest.raises(ManifestError, match="strategies"):
        served(Engine(tmp_path, labels_answer))


def test_a_manifest_of_ones_own_replaces_the_models(folder, tmp_path_factory, monkeypatch):
    path = tmp_path_factory.mktemp("own") / "own.json"
    path.write_text(BRANCH)
    environ = {ENVIRONMENT_VARIABLE: f'{{"manifest": "{path}"}}'}
    check_error(ask(served(Engine(folder, labels_answer), environ, monkeypatch)), 501, "--runner pooling")


def test_a_full_queue_is_a_503_with_a_time_to_wait(folder):
    engine = Engine(folder, labels_answer, room=1)
    reply = ask(served(engine))
    check_error(reply, 503, "busy")
    assert int(reply.headers["Retry-After"]) >= 1
    assert engine.queues == []


def test_one_failed_branch_aborts_the_others(folder):
    def script(index, params, prompt):
        return None if index == 1 else VLLMValidationError("no such prompt", parameter="prompt")

    engine = Engine(folder, script)
    check_error(ask(served(engine)), 400, "no such prompt")
    assert engine.aborted == [queue.request_id for queue in engine.queues]
    assert all(queue.closed for queue in engine.queues)


def test_an_output_that_was_aborted_is_a_500_that_names_the_question(folder):
    def script(index, params, prompt):
        done = CompletionOutput(0, "", [], None, None, finish_reason="abort")
        return RequestOutput("r", None, prompt["prompt_token_ids"], None, [done], True)

    check_error(ask(served(Engine(folder, script))), 500, "question 'team'")


def test_a_dead_engine_is_left_to_vllms_handlers(folder):
    engine = Engine(folder, lambda *_: EngineDeadError())
    with pytest.raises(EngineDeadError):
        ask(served(engine))


@pytest.mark.parametrize("delay", [0.0, 0.05])
def test_a_client_that_leaves_takes_its_branches_along(folder, delay):
    """Also while they are being sent: vLLM knows a request before the call that adds it returns."""
    engine = Engine(folder, lambda *_: None)
    engine.delay = delay
    app = served(engine)

    async def run():
        sent = [{"type": "http.request", "body": httpx.Request("POST", "/", json=BODY).content, "more_body": False}]
        answers = []

        async def receive():
            if sent:
                return sent.pop(0)
            while not engine.queues and not delay:
                await asyncio.sleep(0.001)
            await asyncio.sleep(0.02)
            return {"type": "http.disconnect"}

        async def send(message):
            answers.append(message)

        scope = {
            "type": "http",
            "method": "POST",
            "path": PATH,
            "raw_path": PATH.encode(),
            "root_path": "",
            "query_string": b"",
            "headers": [(b"content-type", b"application/json")],
            "http_version": "1.1",
            "scheme": "http",
            "server": ("test", 80),
            "client": ("test", 1),
        }
        await app(scope, receive, send)
        return answers

    asyncio.run(run())
    assert len(engine.queues) == 2
    assert sorted(engine.aborted) == sorted(queue.request_id for queue in engine.queues)
    assert app.state.radixflow.metrics.snapshot()["disconnected"] == 1


def test_stats_say_what_is_served(folder):
    app = served(Engine(folder, labels_answer))
    ask(app).raise_for_status()
    assert ask(app, {}).status_code == 400
    stats = app.state.radixflow.stats()
    assert stats["available"] is True
    assert stats["strategies"] == ["label"]
    assert stats["decisions"]["answered"] == 1
    assert stats["decisions"]["failed"] == 1
