"""The audit: what is sent together, how answers are compared, and the whole command against a server of its own."""

import asyncio
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from radixflow.audit.command import run_audit
from radixflow.audit.compare import by_margin, changes, reference_of, summarise
from radixflow.audit.play import ALONE, BATCHES, CROWD, Played, play, waves
from radixflow.audit.questions import audit_decisions
from radixflow.audit.settings import AuditSettings, audit_settings
from radixflow.bench import results
from radixflow.decisions import DecisionResponse
from radixflow.errors import ConfigError, RadixFlowError


def response(**choices):
    """Build a response of choices: question id to the probability of its first option of two."""
    answers = {
        name: {
            "type": "choice",
            "choice": "a" if first >= 0.5 else "b",
            "probabilities": {"a": first, "b": 1 - first},
            "confidence": max(first, 1 - first),
            "margin": abs(2 * first - 1),
            "near_tie": abs(2 * first - 1) < 0.02,
        }
        for name, first in choices.items()
    }
    return {
        "id": "decision-x",
        "object": "structured_decision",
        "created": 0,
        "model": "m",
        "answers": answers,
        "usage": {"input_tokens": 1, "output_tokens": 1},
        "diagnostics": {name: {"label_mass": 1.0, "argmax_is_label": True} for name in choices},
    }


def played(mode, decision, repeat=0, **choices):
    return Played(mode, decision, repeat, DecisionResponse.model_validate(response(**choices)))


def test_every_decision_is_sent_once_alone_and_once_in_batches():
    settings = AuditSettings(batch=4)
    assert list(waves(ALONE, 3, settings)) == [[0], [1], [2]]
    assert list(waves(BATCHES, 10, settings)) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def test_the_crowd_has_its_requests_in_an_order_that_the_seed_fixes():
    (crowd,) = waves(CROWD, 10, AuditSettings(requests=25, seed=1))
    assert len(crowd) == 25
    assert sorted(crowd[:10]) == sorted(crowd[10:20]) == list(range(10))
    assert crowd == next(waves(CROWD, 10, AuditSettings(requests=25, seed=1)))
    assert crowd != next(waves(CROWD, 10, AuditSettings(requests=25, seed=2)))


def test_flips_are_counted_with_the_margin_that_the_reference_had():
    reference = reference_of([played(ALONE, 0, q=0.505, r=0.9), played(ALONE, 1, q=0.2)])
    rows = changes("radixflow", [played(CROWD, 0, q=0.495, r=0.8), played(CROWD, 1, q=0.2)], reference)
    assert [(row.question, row.flipped, row.near_tie) for row in rows] == [
        ("q", True, True),
        ("r", False, False),
        ("q", False, False),
    ]
    found = summarise(rows)
    assert (found["answers"], found["flips"], found["flips_at_near_ties"], found["unequal"]) == (3, 1, 1, 2)
    assert found["max_delta_p"] == pytest.approx(0.1)
    assert found["largest_flipped_margin"] == pytest.approx(0.01)
    bins = {row["margin_from"]: row for row in by_margin(rows)}
    assert (bins[0.004]["answers"], bins[0.004]["flips"]) == (1, 1)
    assert sum(row["answers"] for row in bins.values()) == 3


def test_a_margin_of_one_is_in_the_last_bin():
    rows = changes("x", [played(CROWD, 0, q=1.0)], reference_of([played(ALONE, 0, q=1.0)]))
    assert by_margin(rows)[-1]["answers"] == 1


def test_the_first_answer_is_the_reference():
    reference = reference_of([played(ALONE, 0, 1, q=0.9), played(ALONE, 0, 0, q=0.1)])
    assert reference[0, "q"].probabilities["a"] == 0.1


@pytest.mark.parametrize(
    ("given", "part"),
    [
        ({"count": 0}, "'count' is 0"),
        ({"batch": 1}, "2 to 1,024"),
        ({"url": "http://x", "serve_arguments": ("m",)}, "leave one of them out"),
        ({"name": "a/b"}, "'name' is 'a/b'"),
    ],
)
def test_bad_settings_name_field_value_and_fix(given, part):
    with pytest.raises(ConfigError) as caught:
        audit_settings(**given)
    assert part in str(caught.value)


def test_a_line_that_is_no_decision_is_named(tmp_path):
    path = tmp_path / "decisions.jsonl"
    path.write_text('{"state": 1, "questions": {"q": {"type": "noul"}}}\n\n{"state": 1, "questions": {}}\n')
    with pytest.raises(ConfigError, match="line 3 of"):
        audit_decisions(AuditSettings(decisions=path))
    path.write_text("\n")
    with pytest.raises(ConfigError, match="holds no decision"):
        audit_decisions(AuditSettings(decisions=path))
    with pytest.raises(ConfigError, match="can't be read"):
        audit_decisions(AuditSettings(decisions=tmp_path / "none"))


def test_made_up_decisions_are_as_many_as_asked_and_the_same_for_a_seed():
    once = audit_decisions(AuditSettings(count=7))
    assert len(once) == 7
    assert once == audit_decisions(AuditSettings(count=7))


@contextmanager
def server(answer):
    """Serve `answer(body) -> (status, document)` on loopback."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status, document = answer(body)
            data = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_):
            pass

    made = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=made.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{made.server_port}"
    finally:
        made.shutdown()
        thread.join()
        made.server_close()


def decisions_file(tmp_path):
    path = tmp_path / "decisions.jsonl"
    body = {"questions": {"q": {"type": "choice", "criteria": {"a": None, "b": None}}}}
    path.write_text("".join(json.dumps({**body, "state": str(place)}) + "\n" for place in range(5)))
    return path


def test_a_running_server_is_audited_and_the_folder_sealed(tmp_path, capsys):
    seen = []

    def answer(body):
        seen.append(body)
        # The second answer to a decision is another one.
        times = sum(other["state"] == body["state"] for other in seen)
        return 200, response(q=0.506 if times == 1 else 0.494)

    with server(answer) as url:
        settings = AuditSettings(
            decisions=decisions_file(tmp_path), url=url, requests=12, concurrency=4, result_dir=tmp_path / "results"
        )
        outcome = run_audit(settings, json_output=True)
    assert len(seen) == 5 + 5 + 12
    assert len({body["cache_salt"] for body in seen}) == 1
    assert outcome.failed == 0
    assert results.verify(outcome.folder) == []
    document = json.loads(capsys.readouterr().out)
    assert [(row["mode"], row["answers"], row["flips"]) for row in document["groups"]] == [
        ("batches", 5, 5),
        ("crowd", 12, 12),
    ]
    assert document["groups"][0]["flips_at_near_ties"] == 5
    assert {path.name for path in outcome.folder.iterdir()} == {
        "SHA256SUMS",
        "audit.png",
        "environment.json",
        "rows.jsonl.gz",
        "summary.json",
        "table.md",
    }
    assert "flips" in (outcome.folder / "table.md").read_text()


def test_failures_are_kept_and_lose_nothing(tmp_path):
    count = iter(range(1000))

    def answer(_):
        return (500, {"error": {}}) if next(count) % 5 == 4 else (200, response(q=0.9))

    with server(answer) as url:
        settings = AuditSettings(url=url, requests=20, concurrency=4)
        bodies = [{"state": place, "questions": {}} for place in range(4)]
        run = play(url, CROWD, bodies, settings, salt=None, advance=lambda: None)
        sent = asyncio.run(run)
    assert len(sent) == 20
    assert sum(one.error is not None for one in sent) == 4
    assert sorted((one.decision, one.repeat) for one in sent) == [(d, r) for d in range(4) for r in range(5)]


def test_a_reference_without_answers_is_an_error_with_the_first_reason(tmp_path):
    with server(lambda _: (501, {"error": {"message": "no labels"}})) as url:
        settings = AuditSettings(decisions=decisions_file(tmp_path), url=url, requests=1, result_dir=tmp_path)
        with pytest.raises(RadixFlowError, match="no labels"):
            run_audit(settings)
