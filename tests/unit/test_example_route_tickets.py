"""The example that routes tickets, against a server that answers by keywords."""

from __future__ import annotations

import csv
import importlib.util
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from typer.testing import CliRunner

from radixflow.decisions import parse_decision

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("route_tickets_example", EXAMPLES / "route_tickets.py")
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look their module up.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def answer(body):
    """Answer as the server does: the team named in the text, close calls for "hmm", an error for "bad"."""
    decision = parse_decision(body)
    text = decision.state
    if "bad" in text:
        return 400, {"error": {"message": "state is bad", "type": "BadRequestError", "param": "state", "code": 400}}
    teams = [option.name for option in decision.questions[0].options]
    team = next((name for name in teams if name in text), teams[0])
    near = "hmm" in text
    top = 0.51 if near else 0.9
    other = next(name for name in teams if name != team)
    shared = {"confidence": top, "margin": 0.02 if near else 0.8, "near_tie": near}
    sure = {"confidence": 0.9, "margin": 0.8, "near_tie": False}
    return 200, {
        "id": "decision-1",
        "object": "structured_decision",
        "created": 1,
        "model": "m",
        "answers": {
            "team": {"type": "choice", "choice": team, "probabilities": {team: top, other: 1 - top}, **shared},
            "urgent": {"type": "noul", "noul": 0.9, "probabilities": {"yes": 0.9, "no": 0.1}, **sure},
            "anger": {"type": "score", "score": 1.5, "legend": {"0": "calm"}, "probabilities": {"0": 1.0}, **sure},
        },
        "usage": {"input_tokens": 1, "output_tokens": 1},
        "diagnostics": {},
    }


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    asked = 0
    dies_after = 10**9
    schema_status = 200

    def log_message(self, *_):
        return

    def reply(self, status, document):
        data = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        self.reply(self.schema_status, {} if self.schema_status == 200 else {"error": {"message": "Not here"}})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        kind = type(self)
        kind.asked += 1
        if kind.asked > kind.dies_after:
            self.close_connection = True
            return
        self.reply(*answer(body))


@pytest.fixture
def server():
    class Listener(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request, client_address):
            return

    handler = type("Bound", (Handler,), {})
    listener = Listener(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    handler.url = f"http://127.0.0.1:{listener.server_address[1]}"
    yield handler
    listener.shutdown()
    listener.server_close()
    thread.join()


@pytest.fixture
def run(example, server, tmp_path):
    """Run the example; returns the result with everything it printed, and the rows it wrote."""
    import typer

    app = typer.Typer()
    app.command()(example.main)

    def call(*arguments, output="out.jsonl", url=None):
        path = tmp_path / output
        more = ["--output", str(path), "--url", url or server.url, "--retries", "0"]
        result = CliRunner().invoke(app, [*map(str, arguments), *more], env={"COLUMNS": "140"})
        if not path.exists():
            return result, None
        if path.suffix == ".csv":
            with path.open(newline="") as file:
                return result, list(csv.DictReader(file))
        return result, [json.loads(line) for line in path.read_text().splitlines()]

    return call


def write_tickets(path, texts):
    path.write_text("".join(json.dumps({"id": f"t{n}", "text": text}) + "\n" for n, text in enumerate(texts, 1)))
    return path


def test_the_tickets_beside_it_are_routed(run, example):
    result, rows = run()
    assert result.exit_code == 0, result.output
    assert len(rows) == 40
    assert {row["id"] for row in rows} == {f"T-{number:03d}" for number in range(1, 41)}
    assert sorted(row["row"] for row in rows) == list(range(1, 41))
    assert "40 tickets routed" in result.output
    assert all(team in result.output for team in example.TEAMS)


def test_near_ties_and_errors_are_shown_and_written(run, tmp_path):
    path = write_tickets(tmp_path / "in.jsonl", ["login please", "hmm, [bold] refund", "bad one", "login again"])
    result, rows = run(path)
    assert result.exit_code == 1
    by_id = {row["id"]: row for row in rows}
    assert by_id["t1"] == {
        "row": 1,
        "id": "t1",
        "team": "login",
        "team_probability": 0.9,
        "urgent": 0.9,
        "anger": 1.5,
        "near_ties": [],
        "error": "",
    }
    assert (by_id["t2"]["team"], by_id["t2"]["near_ties"]) == ("refund", ["team"])
    assert "state is bad (HTTP 400" in by_id["t3"]["error"]
    assert by_id["t3"]["team"] == ""
    assert "3 tickets routed" in result.output
    assert "hmm, [bold] refund" in result.output
    assert "Without an answer" in result.output


def test_csv_in_and_out(run, tmp_path):
    path = tmp_path / "in.csv"
    path.write_text('number,body\nA7,"shipping, two\nlines"\n,hmm outage\n', encoding="utf-8-sig")
    result, rows = run(path, "--text-field", "body", "--id-field", "number", output="out.csv")
    assert result.exit_code == 0, result.output
    by_id = {row["id"]: row for row in rows}
    assert by_id["A7"]["team"] == "shipping"
    # A row without an id has its number.
    assert (by_id["2"]["team"], by_id["2"]["near_ties"]) == ("outage", "team")


def test_a_limit_is_a_limit(run, server):
    _, rows = run("--limit", "3", "--concurrency", "2")
    assert len(rows) == server.asked == 3


def test_a_server_that_is_down_is_one_error_and_costs_no_results(run, tmp_path):
    (tmp_path / "out.jsonl").write_text('{"earlier": 1}\n')
    result, rows = run(url="http://127.0.0.1:9")
    assert result.exit_code == 2
    assert result.output.count("127.0.0.1:9") == 1
    assert "radixflow serve" in result.output
    assert "Traceback" not in result.output
    assert rows == [{"earlier": 1}]


def test_a_server_that_goes_away_ends_it_and_keeps_what_was_answered(run, server):
    server.dies_after = 10
    result, rows = run("--concurrency", "4")
    assert result.exit_code == 2
    assert sum(not row["error"] for row in rows) == 10
    assert "10 tickets were routed before" in result.output
    assert server.asked < 40


@pytest.mark.parametrize(("status", "hint"), [(401, "--api-key"), (404, "radixflow serve"), (500, "log of the server")])
def test_a_server_that_refuses_says_why(run, server, status, hint):
    server.schema_status = status
    result, rows = run()
    assert result.exit_code == 2
    assert rows is None
    assert "Not here" in result.output
    assert hint in result.output


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "has no rows"),
        ("{\n", "line 1: not JSON"),
        ('{"id": 1}\n', "row 1: no text in field 'text'"),
        ('{"text": "a"}\n["text"]\n', "row 2: no text"),
        ('{"text": " "}\n', "row 1: no text"),
        (None, "can't be read"),
    ],
)
def test_an_input_that_cannot_be_used_says_where(run, server, tmp_path, content, message):
    path = tmp_path / "in.jsonl"
    if content is not None:
        path.write_text(content)
    result, _ = run(path)
    assert result.exit_code == 2
    assert message in result.output
    assert server.asked == 0


def test_help_names_every_option(run):
    result, _ = run("--help")
    assert result.exit_code == 0
    assert "Exit status" in result.output


def test_the_tickets_are_about_every_team_and_differ(example):
    tickets = example.read_tickets(example.TICKETS, "text", "id")
    assert len({ticket.text for ticket in tickets}) == len(tickets) == 40
