"""`/v1/systemone` on a real engine: the README's request, formulas from direct reads, fields, headers, keys."""

import math
import secrets
import time

import httpx
import pytest

from radixflow.bench.server import HOST
from radixflow.client import DecisionClient, DecisionRequestError, choice, noul, score
from radixflow.decisions import MANIFEST_FILE, load_manifest, parse_decision, plan_branches, render_chat
from radixflow.models.decision_model import decision_model

PATH = "/v1/systemone"
STATE = "Since this morning every payment fails. We lose money by the minute."
README = {
    "state": STATE,
    "questions": {
        "team": {
            "type": "choice",
            "instructions": "Who should handle it?",
            "criteria": {"billing": "invoices and payments", "outage": "something is down", "other": None},
        },
        "urgent": {"type": "noul", "instructions": "Is it urgent?"},
        "mood": {
            "type": "score",
            "instructions": "How angry is the writer?",
            "criteria": ["calm", "annoyed", "furious"],
        },
    },
}
# The rounding of bfloat16 in another batch; a formula that is wrong is off by far more.
ROUNDING = 0.02


def tokenizer(strategy):
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(decision_model(strategy))


def direct_labels(decisions, body):
    """Read each question's labels through `/v1/completions`, from a prompt written with the library's tokenizer."""
    tools = tokenizer("label")
    decision = parse_decision(body)
    plan = plan_branches(decision, load_manifest(decision_model("label") / MANIFEST_FILE))

    def render(messages):
        return tools.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)

    found = {}
    with decisions.client("label") as client:
        for branch, part in zip(plan.branches, render_chat(plan, render).branches, strict=True):
            text = render_chat(plan, render).shared + part.own
            prompt = tools.encode(text, add_special_tokens=False)
            tail = text[text.rindex("<|im_start|>") + len("<|im_start|>") :]
            start = len(tools.encode(tail, add_special_tokens=False))
            ids = [tools.encode(tail + label, add_special_tokens=False)[start] for label in branch.labels]
            sent = {
                "model": "radixflow-tiny",
                "prompt": prompt,
                "max_tokens": 1,
                "temperature": 0,
                "logprobs": len(ids),
                "logprob_token_ids": ids,
                "return_tokens_as_token_ids": True,
                "cache_salt": secrets.token_hex(8),
            }
            reply = client.post("/v1/completions", json=sent).raise_for_status().json()
            logprobs = reply["choices"][0]["logprobs"]
            first = logprobs["top_logprobs"][0]
            found[branch.question_id] = {
                "prompt_tokens": len(prompt),
                "logprobs": [first[f"token_id:{token}"] for token in ids],
                "greedy_is_label": logprobs["tokens"][0] in {f"token_id:{token}" for token in ids},
            }
    return found


def test_the_readme_request_gets_a_sensible_choice_noul_and_score(decisions):
    for server in ("label", "branch"):
        with decisions.client(server) as client:
            answer = client.post(PATH, json=README).raise_for_status().json()
        answers = answer["answers"]
        assert list(answers) == ["team", "urgent", "mood"]
        assert answers["team"]["choice"] == "outage", (server, answers)
        assert answers["urgent"]["noul"] > 0.5, (server, answers)
        assert answers["mood"]["score"] > 0.5, (server, answers)


def test_numbers_are_those_of_the_formulas_on_a_direct_read(decisions):
    with decisions.client("label") as client:
        reply = client.post(PATH, json=README).raise_for_status().json()
    direct = direct_labels(decisions, README)
    for name, read in direct.items():
        answer, diagnostics = reply["answers"][name], reply["diagnostics"][name]
        raw = [math.exp(value) for value in read["logprobs"]]
        expected = [value / sum(raw) for value in raw]
        got = list(answer["probabilities"].values())
        assert got == pytest.approx(expected, abs=ROUNDING)
        assert diagnostics["label_mass"] == pytest.approx(sum(raw), abs=ROUNDING)
        assert diagnostics["argmax_is_label"] == read["greedy_is_label"]
        # What follows from the numbers shown is exact.
        first, second = sorted((*got, 0.0), reverse=True)[:2]
        assert answer["confidence"] == pytest.approx(max(got) * diagnostics["label_mass"], abs=1e-12)
        assert answer["margin"] == pytest.approx(first - second, abs=1e-12)
        assert answer["near_tie"] == (answer["margin"] < 0.02)
        assert sum(got) == pytest.approx(1.0, abs=1e-12)
    answers = reply["answers"]
    team, mood = answers["team"]["probabilities"], answers["mood"]["probabilities"]
    assert answers["team"]["choice"] == max(team, key=team.get)
    assert answers["urgent"]["noul"] == answers["urgent"]["probabilities"]["yes"]
    assert answers["mood"]["score"] == pytest.approx(sum(int(level) * p for level, p in mood.items()), abs=1e-12)
    assert answers["mood"]["legend"] == {"0": "calm", "1": "annoyed", "2": "furious"}
    assert reply["usage"] == {
        "input_tokens": sum(read["prompt_tokens"] for read in direct.values()),
        "output_tokens": 3,
    }


def test_branches_are_the_softmax_of_their_direct_scores(decisions):
    body = {"state": STATE, "questions": {"team": README["questions"]["team"]}}
    manifest = load_manifest(decision_model("branch") / MANIFEST_FILE)
    plan = plan_branches(parse_decision(body), manifest)
    tools = tokenizer("branch")
    prompts = [tools.encode(plan.shared + branch.own, add_special_tokens=False) for branch in plan.branches]
    with decisions.client("branch") as client:
        reply = client.post(PATH, json=body).raise_for_status().json()
        sent = {"model": "radixflow-tiny", "input": prompts, "use_activation": False}
        rows = client.post("/classify", json=sent).raise_for_status().json()["data"]
    temperature = manifest.strategies.branch.temperature
    raw = [math.exp(row["probs"][0] / temperature) for row in sorted(rows, key=lambda row: row["index"])]
    got = list(reply["answers"]["team"]["probabilities"].values())
    assert got == pytest.approx([value / sum(raw) for value in raw], abs=ROUNDING)
    assert reply["usage"] == {"input_tokens": sum(map(len, prompts)), "output_tokens": 0}
    assert reply["diagnostics"]["team"]["label_mass"] == 1.0
    assert reply["diagnostics"]["team"]["argmax_is_label"] is True


def test_the_fields_of_a_0_32_client_work_unchanged(decisions):
    body = {
        "model": None,
        "state": {"subject": "Invoice", "body": "I was charged twice.", "tags": [1, 2.5, None, True]},
        "instructions": "You read tickets.",
        "questions": {
            "q1": {"type": "choice", "instructions": None, "criteria": {"billing": None, "shipping": "parcels"}},
            "q2": {"type": "noul", "criteria": None},
            "q3": {"type": "noul", "criteria": {"true": "somebody is locked out", "false": None}},
            "q4": {"type": "score", "instructions": 17, "criteria": ["low", "middle", "high", "top", "utmost"]},
        },
        "images": None,
        "audio": [],
        "videos": None,
        "chat_template_kwargs": {"enable_thinking": False},
        "cache_salt": "tenant-7",
        "priority": 0,
        "request_id": "mine",
        "a_field_of_another_version": {"ignored": True},
    }
    with decisions.client("label") as client:
        reply = client.post(PATH, json=body).raise_for_status().json()
        other = client.post(PATH, json={**body, "model": ""}, headers={"X-Request-Id": "header"})
    # Every field that a 0.32 response has, with its type.
    assert set(reply) >= {"id", "object", "created", "model", "answers", "usage", "diagnostics"}
    assert reply["id"] == "decision-mine"
    assert other.raise_for_status().json()["id"] == "decision-header"
    assert reply["object"] == "structured_decision"
    assert isinstance(reply["created"], int)
    assert reply["model"] == "radixflow-tiny"
    assert list(reply["answers"]) == ["q1", "q2", "q3", "q4"]
    assert set(reply["answers"]["q1"]) >= {"type", "choice", "probabilities", "confidence"}
    assert set(reply["answers"]["q2"]) >= {"type", "noul", "probabilities", "confidence"}
    assert set(reply["answers"]["q4"]) >= {"type", "score", "legend", "probabilities", "confidence"}
    for answer in reply["answers"].values():
        assert all(isinstance(value, float) for value in answer["probabilities"].values())
    for diagnostics in reply["diagnostics"].values():
        assert set(diagnostics) >= {"label_mass", "argmax_is_label"}
    assert reply["usage"]["output_tokens"] == 4


def test_a_salt_shares_with_itself_and_a_request_without_one_with_nobody(decisions):
    body = {"state": "word " * 200, "questions": {"urgent": {"type": "noul"}}}

    def cached(**fields):
        with decisions.client("label") as client:
            reply = client.post(PATH, json={**body, **fields}).raise_for_status().json()
        return reply["diagnostics"]["urgent"]["cached_tokens"]

    salt = secrets.token_hex(8)
    # Two runs: the state that a third can start from is stored where the first two were seen to part.
    assert cached(cache_salt=salt) == 0
    cached(cache_salt=salt)
    assert cached(cache_salt=salt) > 0
    assert cached() == cached() == 0
    assert cached(cache_salt=f"{salt}-other") == 0


def test_the_api_key_and_the_request_id_header_are_vllms(decisions):
    with httpx.Client(base_url=decisions.url("branch"), timeout=60, trust_env=False) as client:
        for method, path in (("POST", PATH), ("GET", f"{PATH}/schema"), ("GET", "/v1/radixflow/stats")):
            assert client.request(method, path, json=README).status_code == 401, path
    with decisions.client("branch") as client:
        reply = client.post(PATH, json=README, headers={"X-Request-Id": "abc"})
        assert reply.headers["X-Request-Id"] == "abc"
        assert reply.json()["id"] == "decision-abc"


def test_the_client_asks_and_is_told_what_is_wrong(decisions):
    with DecisionClient(decisions.url("label")) as client:
        reply = client.decide(
            STATE,
            {
                "team": choice({"billing": "invoices and payments", "outage": None}, instructions="Who?"),
                "urgent": noul("Is it urgent?"),
                "mood": score(["calm", "annoyed", "furious"], instructions="How angry is the writer?"),
            },
        )
        assert [answer.type for answer in reply.answers.values()] == ["choice", "noul", "score"]
        assert client.schema()["openapi"].startswith("3.1")
        stats = client.stats()
        assert stats["available"] is True
        assert stats["strategies"] == ["label"]
        with pytest.raises(DecisionRequestError, match=r"questions\.mood\.criteria") as caught:
            client.decide(STATE, {"mood": score(["only one"])})
        assert caught.value.status == 400


def test_counters_are_on_metrics_and_in_the_stats(decisions):
    with decisions.client("label") as client:
        before = client.get("/metrics").raise_for_status().text
        client.post(PATH, json=README).raise_for_status()
        assert client.post(PATH, json={}).status_code == 400
        # The engine's process publishes what it counted twice a second.
        time.sleep(1.5)
        after = client.get("/metrics").raise_for_status().text
        stats = client.get("/v1/radixflow/stats").raise_for_status().json()

    def value(text, name):
        lines = [line for line in text.splitlines() if line.startswith(name)]
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines)

    for name, grows in (
        ('radixflow_questions_total{type="choice"}', 1),
        ('radixflow_questions_total{type="noul"}', 1),
        ('radixflow_questions_total{type="score"}', 1),
        ('radixflow_decision_errors_total{status="400"}', 1),
    ):
        assert value(after, name) - value(before, name) == grows, name
    assert value(after, "radixflow_rounds_total") > value(before, "radixflow_rounds_total")
    assert stats["scheduler"]
    assert stats["decisions"]


def test_no_server_is_one_clear_error():
    from radixflow.bench.server import free_port
    from radixflow.client import DecisionConnectionError

    with DecisionClient(f"http://{HOST}:{free_port()}", retries=0) as client, pytest.raises(DecisionConnectionError):
        client.decide(STATE, {"urgent": noul("Is it urgent?")})
