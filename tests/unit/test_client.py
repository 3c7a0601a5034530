"""The typed client against a real HTTP server: what is sent, what is tried again, what comes back."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from radixflow.client import (
    AsyncDecisionClient,
    ChoiceAnswer,
    DecisionClient,
    DecisionConnectionError,
    DecisionRequestError,
    DecisionServerError,
    NoulAnswer,
    RetrySchedule,
    choice,
    noul,
    score,
)
from radixflow.client.retry import parse_retry_after
from radixflow.decisions import QuestionSpec, parse_decision

QUESTIONS = {
    "team": choice({"billing": "money", "other": None}, "Who?"),
    "urgent": noul("Is it urgent?", true="today"),
    "mood": score(["calm", "angry"], "How angry?"),
}
QUICK = RetrySchedule(retries=2, first_s=0.01, longest_s=1.5)


def response(request_id="r1", **more):
    shared = {"confidence": 0.63, "margin": 0.4, "near_tie": False}
    split = {"billing": 0.7, "other": 0.3}
    answers = {
        "team": {"type": "choice", "choice": "billing", "probabilities": split, **shared},
        "urgent": {"type": "noul", "noul": 0.7, "probabilities": {"yes": 0.7, "no": 0.3}, **shared},
        "mood": {
            "type": "score",
            "score": 0.3,
            "legend": {"0": "calm", "1": "angry"},
            "probabilities": {"0": 0.7, "1": 0.3},
            **shared,
        },
    }
    return {
        "id": f"decision-{request_id}",
        "object": "structured_decision",
        "created": 1,
        "model": "m",
        "answers": answers,
        "usage": {"input_tokens": 30, "output_tokens": 3},
        "diagnostics": {name: {"label_mass": 0.9, "argmax_is_label": True} for name in answers},
        **more,
    }


@dataclass
class Server:
    """A server that does what its script says, one entry a request; the last entry repeats."""

    script: list = field(default_factory=list)
    seen: list = field(default_factory=list)
    in_flight: int = 0
    most_in_flight: int = 0
    hung_up: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)
    url: str = ""


def error(status, message="no", headers=None, **more):
    return {"status": status, "body": {"error": {"message": message, **more}}, "headers": headers or {}}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_state: Server

    def log_message(self, *_):
        return

    def _serve(self):
        state = self.server_state
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        with state.lock:
            place = len(state.seen)
            document = json.loads(body) if body else None
            state.seen.append({"path": self.path, "headers": dict(self.headers), "body": document, "at": time.time()})
            step = state.script[min(place, len(state.script) - 1)]
            state.in_flight += 1
            state.most_in_flight = max(state.most_in_flight, state.in_flight)
        try:
            self._act(step, document)
        finally:
            with state.lock:
                state.in_flight -= 1

    do_GET = do_POST = _serve

    def _act(self, step, document):
        if callable(step):
            step = step(document)
        if step == "reset":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.close_connection = True
            self.connection.close()
            return
        if step == "hang up":
            self.close_connection = True
            return
        if step == "half":
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{")
            self.close_connection = True
            return
        if step == "hang":
            self.connection.settimeout(10)
            if self.connection.recv(1) == b"":
                self.server_state.hung_up.set()
            self.close_connection = True
            return
        content = step["body"] if isinstance(step["body"], bytes) else json.dumps(step["body"]).encode()
        self.send_response(step.get("status", 200))
        for name, value in step.get("headers", {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


class QuietServer(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request, client_address):
        return


@pytest.fixture
def server():
    state = Server(script=[{"body": response()}])
    listener = QuietServer(("127.0.0.1", 0), type("Bound", (Handler,), {"server_state": state}))
    state.url = f"http://127.0.0.1:{listener.server_address[1]}"
    thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield state
    listener.shutdown()
    listener.server_close()
    thread.join()


@pytest.fixture(params=["blocking", "asynchronous"])
def decide(request):
    """Ask once with a client of either kind; keywords of the client in ``client``."""

    def blocking(server, state="text", questions=QUESTIONS, client=None, **options):
        with DecisionClient(server.url, **{"retries": QUICK, **(client or {})}) as made:
            return made.decide(state, questions, **options)

    def asynchronous(server, state="text", questions=QUESTIONS, client=None, **options):
        async def ask():
            async with AsyncDecisionClient(server.url, **{"retries": QUICK, **(client or {})}) as made:
                return await made.decide(state, questions, **options)

        return asyncio.run(ask())

    return blocking if request.param == "blocking" else asynchronous


def test_a_decision_is_sent_and_read(server, decide):
    found = decide(server, {"ticket": "Zürich"}, client={"api_key": "secret"}, request_id="r1")
    assert isinstance(found.answers["team"], ChoiceAnswer)
    assert isinstance(found.answers["urgent"], NoulAnswer)
    assert (found.answers["team"].choice, found.answers["mood"].score) == ("billing", 0.3)
    (sent,) = server.seen
    assert sent["path"] == "/v1/systemone"
    assert sent["headers"]["Authorization"] == "Bearer secret"
    assert sent["headers"]["Content-Type"] == "application/json"
    # Nothing but what was said: defaults are the server's.
    assert sent["body"] == {"state": {"ticket": "Zürich"}, "questions": QUESTIONS, "request_id": "r1"}
    assert parse_decision(sent["body"]).request.request_id == "r1"


def test_every_field_arrives_and_is_one_the_server_knows(server, decide):
    options = {
        "instructions": "be brief",
        "cache_salt": "tenant",
        "priority": -3,
        "request_id": "r2",
        "strategy": "label",
        "model": "m",
        "chat_template_kwargs": {"tone": "dry"},
    }
    decide(server, None, {"q": QuestionSpec(type="noul", instructions="Is it?")}, **options)
    body = server.seen[0]["body"]
    request = parse_decision(body).request
    assert {name: getattr(request, name) for name in options} == options
    assert request.state is None


def test_an_id_is_made_up_where_none_is_given(server, decide):
    decide(server)
    decide(server)
    first, second = (sent["body"]["request_id"] for sent in server.seen)
    assert first != second
    assert len(first) == 32


@pytest.mark.parametrize("suffix", ["/", "/v1", "/v1/"])
def test_the_address_may_end_as_others_want_it(server, decide, suffix):
    server.url += suffix
    assert decide(server).id == "decision-r1"


def test_fields_of_later_servers_break_nothing(server, decide):
    body = response(joint=None, service_tier="x")
    body["answers"]["team"]["rank"] = ["billing", "other"]
    body["usage"]["cached_tokens"] = 4
    body["diagnostics"]["team"]["tokens"] = {"a": 1}
    server.script = [{"body": body}]
    assert decide(server).answers["team"].choice == "billing"


@pytest.mark.parametrize("problem", [error(503), "hang up", "reset"])
def test_what_was_not_answered_is_sent_again(server, decide, problem):
    server.script = [problem, problem, {"body": response()}]
    assert decide(server).id == "decision-r1"
    assert len(server.seen) == 3
    assert len({sent["body"]["request_id"] for sent in server.seen}) == 1


def test_retry_after_is_honoured(server, decide):
    server.script = [error(503, headers={"Retry-After": "1"}), {"body": response()}]
    decide(server)
    assert server.seen[1]["at"] - server.seen[0]["at"] >= 0.99


def test_a_server_that_asks_for_more_than_the_bound_is_left_alone(server, decide):
    server.script = [error(503, "full", headers={"Retry-After": "3600"}, type="ServiceUnavailable")]
    with pytest.raises(DecisionServerError, match=r"full \(HTTP 503") as caught:
        decide(server)
    assert (caught.value.retry_after_s, caught.value.attempts, caught.value.type) == (3600.0, 1, "ServiceUnavailable")
    assert len(server.seen) == 1


def test_it_gives_up_in_the_end(server, decide):
    server.script = [error(503, "busy")]
    with pytest.raises(DecisionServerError, match=r"busy \(HTTP 503, request mine, 3 attempts\)") as caught:
        decide(server, request_id="mine")
    assert (caught.value.status, caught.value.attempts) == (503, 3)
    assert len(server.seen) == 3


def test_no_retries_is_one_attempt(server, decide):
    server.script = ["hang up"]
    with pytest.raises(DecisionConnectionError, match="systemone") as caught:
        decide(server, client={"retries": 0})
    assert (caught.value.attempts, caught.value.status) == (1, None)


@pytest.mark.parametrize("status", [400, 401, 404, 413, 422])
def test_a_wrong_request_is_never_sent_again(server, decide, status):
    details = {"type": "BadRequestError", "param": "questions.team", "code": status}
    server.script = [error(status, "is wrong", headers={"X-Request-Id": "theirs"}, **details)]
    with pytest.raises(DecisionRequestError) as caught:
        decide(server)
    found = caught.value
    assert (found.message, found.type, found.param) == ("is wrong", "BadRequestError", "questions.team")
    assert (found.status, found.request_id, found.attempts) == (status, "theirs", 1)
    assert len(server.seen) == 1


@pytest.mark.parametrize("status", [500, 501, 502])
def test_a_failed_server_is_not_asked_again(server, decide, status):
    server.script = [error(status, "fell over", type="InternalServerError", param=None)]
    with pytest.raises(DecisionServerError, match="fell over") as caught:
        decide(server)
    assert (caught.value.status, caught.value.param) == (status, None)
    assert len(server.seen) == 1


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"error": "Unauthorized"}', "Unauthorized"),
        (b"<html>Bad gateway</html>", "<html>Bad gateway</html>"),
        (b'{"message": "plain", "type": "t"}', "plain"),
        (b"", "no reason given"),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b"[1]", "[1]"),
        (b'{"error": {}}', '{"error": {}}'),
    ],
)
def test_errors_of_any_shape_have_a_message(server, decide, body, message):
    server.script = [{"status": 502, "body": body}]
    with pytest.raises(DecisionServerError) as caught:
        decide(server)
    assert caught.value.message == message


@pytest.mark.parametrize("body", [b"", b"hello", b"[]", b'{"id": "x"}', b"null", b"[" * 100_000])
def test_a_good_status_with_nothing_usable_is_the_servers_fault(server, decide, body):
    server.script = [{"body": body}]
    with pytest.raises(DecisionServerError, match="can't be read") as caught:
        decide(server)
    assert caught.value.status == 200


def test_nobody_listens(decide):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with pytest.raises(DecisionConnectionError, match=f"127.0.0.1:{port}") as caught:
        decide(Server(url=f"http://127.0.0.1:{port}"))
    assert caught.value.attempts == 3


@pytest.mark.parametrize("url", ["localhost:8000", "ftp://127.0.0.1", "http://a:port", ""])
def test_an_address_that_is_none_is_not_tried_again(decide, url):
    with pytest.raises(DecisionConnectionError) as caught:
        decide(Server(url=url))
    assert caught.value.attempts == 1


def test_half_a_response_is_not_asked_for_again(server, decide):
    server.script = ["half"]
    with pytest.raises(DecisionConnectionError) as caught:
        decide(server)
    assert caught.value.attempts == 1
    assert len(server.seen) == 1


def test_a_slow_server_is_not_given_the_same_work_twice(server, decide):
    server.script = ["hang"]
    with pytest.raises(DecisionConnectionError, match="timeout") as caught:
        decide(server, client={"timeout": 0.2})
    assert caught.value.attempts == 1
    assert server.hung_up.wait(5)
    assert len(server.seen) == 1


@pytest.mark.parametrize("state", [float("nan"), {1, 2}, object()])
def test_what_is_no_json_is_never_sent(server, decide, state):
    with pytest.raises(DecisionRequestError, match="JSON") as caught:
        decide(server, state)
    assert (caught.value.status, caught.value.param) == (None, "body")
    assert server.seen == []


def test_half_a_surrogate_pair_reaches_the_server_which_names_it(server, decide):
    decide(server, "\ud83d")
    assert server.seen[0]["body"]["state"] == "\ud83d"


def test_cancelling_closes_the_connection(server):
    server.script = ["hang"]

    async def run():
        async with AsyncDecisionClient(server.url) as client:
            task = asyncio.ensure_future(client.decide("text", QUESTIONS))
            while not server.seen:
                await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await asyncio.to_thread(server.hung_up.wait, 5)
            server.script = [{"body": response()}]
            assert (await client.decide("text", QUESTIONS)).model == "m"

    asyncio.run(run())


def test_cancelling_ends_a_pause_at_once(server):
    server.script = [error(503, headers={"Retry-After": "1"})]

    async def run():
        async with AsyncDecisionClient(server.url, retries=QUICK) as client:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(client.decide("text", QUESTIONS), 0.3)

    started = time.monotonic()
    asyncio.run(run())
    assert time.monotonic() - started < 0.9
    assert len(server.seen) == 1


def test_stats_and_schema_are_objects(server):
    server.script = [{"body": {"a": 1}}, {"body": {"b": 2}}, {"body": {"c": 3}}, {"body": {"d": 4}}, {"body": [1]}]

    async def run():
        async with AsyncDecisionClient(server.url) as client:
            return await client.stats(), await client.schema()

    with DecisionClient(server.url) as client:
        assert (client.stats(), client.schema(), *asyncio.run(run())) == ({"a": 1}, {"b": 2}, {"c": 3}, {"d": 4})
        with pytest.raises(DecisionServerError, match="list"):
            client.stats()
    paths = ["/v1/radixflow/stats", "/v1/systemone/schema"]
    assert [sent["path"] for sent in server.seen] == [*paths, *paths, paths[0]]


def test_a_client_may_be_closed_twice(server):
    client = DecisionClient(server.url)
    client.close()
    client.close()


# Many


def collect(server, requests, **options):
    async def run():
        async with AsyncDecisionClient(server.url, retries=QUICK) as client:
            return [found async for found in client.decide_many(requests, **options)]

    return asyncio.run(run())


def echo(document):
    if document["state"] == "bad":
        return error(400, "bad state", param="state")
    time.sleep(0.03 if document["state"] == "slow" else 0.005)
    return {"body": response(document["state"])}


def call(state):
    return {"state": state, "questions": QUESTIONS}


def test_many_all_come_back_once_with_a_bound(server):
    server.script = [echo]
    found = collect(server, (call(str(number)) for number in range(60)), concurrency=5)
    assert sorted(index for index, _ in found) == list(range(60))
    assert all(answer.id == f"decision-{index}" for index, answer in found)
    assert 2 <= server.most_in_flight <= 5


def test_one_that_fails_is_its_own_result(server):
    server.script = [echo]
    requests = [call("bad"), call({1}), call("good"), {"state": "x"}, {**call("y"), "colour": 1}, call("slow")]
    found = dict(collect(server, requests, concurrency=3))
    assert isinstance(found[0], DecisionRequestError)
    assert found[0].param == "state"
    assert isinstance(found[1], DecisionRequestError)
    assert isinstance(found[3], TypeError)
    assert isinstance(found[4], TypeError)
    assert [found[place].id for place in (2, 5)] == ["decision-good", "decision-slow"]


def test_none_is_lost_where_the_source_fails(server):
    server.script = [echo]

    def source():
        yield call("slow")
        yield call("1")
        raise OSError("the file went")

    async def run(found):
        async with AsyncDecisionClient(server.url) as client:
            async for index, _ in client.decide_many(source(), concurrency=4):
                found.append(index)

    found = []
    with pytest.raises(OSError, match="the file went"):
        asyncio.run(run(found))
    assert sorted(found) == [0, 1]


def test_requests_are_taken_only_as_there_is_room(server):
    server.script = [echo]
    taken = []

    def source():
        for number in range(50):
            taken.append(number)
            yield call(str(number))

    async def run():
        async with AsyncDecisionClient(server.url) as client:
            many = client.decide_many(source(), concurrency=2)
            async for _ in many:
                break
            await many.aclose()

    asyncio.run(run())
    assert len(taken) <= 4


def test_leaving_early_cancels_those_in_flight(server):
    server.script = [echo, "hang"]

    async def run():
        async with AsyncDecisionClient(server.url) as client:
            many = client.decide_many([call("1"), call("2")], concurrency=2)
            assert (await anext(many))[0] in (0, 1)
            await many.aclose()
            assert await asyncio.to_thread(server.hung_up.wait, 5)
            assert len(asyncio.all_tasks()) == 1

    asyncio.run(run())


def test_a_bound_below_one_and_no_requests(server):
    with pytest.raises(ValueError, match="at least 1"):
        collect(server, [], concurrency=0)
    assert collect(server, []) == []


# Schedules and builders, without a server


def test_waits_by_hand():
    schedule = RetrySchedule(retries=6, first_s=0.5, longest_s=4.0, draw=lambda: 0.0)
    assert [schedule.wait_s(attempt) for attempt in range(1, 8)] == [0.25, 0.5, 1.0, 2.0, 2.0, 2.0, None]
    late = RetrySchedule(retries=6, first_s=0.5, longest_s=4.0, draw=lambda: 0.999999)
    assert late.wait_s(1) == pytest.approx(0.5)
    assert late.wait_s(6) == pytest.approx(4.0)
    assert schedule.wait_s(1, 3.0) == 3.0
    assert late.wait_s(1, 4.0) == 4.0
    assert schedule.wait_s(1, 4.1) is None
    assert schedule.wait_s(1, 0.0) == 0.0
    assert RetrySchedule(retries=10**9, draw=lambda: 1.0).wait_s(10**6) == 30.0
    with pytest.raises(ValueError, match="retries is -1"):
        RetrySchedule(-1)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        (None, None),
        ("7", 7.0),
        (" 7 ", 7.0),
        ("Thu, 01 Jan 1970 00:01:40 GMT", 90.0),
        ("Thu, 01 Jan 1970 00:00:01 GMT", 0.0),
        ("soon", None),
        ("-1", None),
        ("9" * 400, 999_999_999_999.0),
        ("", None),
    ],
)
def test_retry_after_by_hand(text, seconds):
    assert parse_retry_after(text, now=lambda: 10.0) == seconds


def test_builders_write_what_the_server_reads():
    questions = {
        **QUESTIONS,
        "names": choice(["a", "b"]),
        "bare": noul("Is it?"),
        "both": noul("", true="t", false="f"),
    }
    kinds = [type(question).type_name for question in parse_decision({"state": 1, "questions": questions}).questions]
    assert kinds == ["choice", "noul", "score", "choice", "noul", "noul"]
    assert questions["names"]["criteria"] == {"a": None, "b": None}
    assert questions["bare"]["criteria"] is None


def test_builders_refuse_what_would_be_lost():
    with pytest.raises(TypeError, match="'abc'"):
        choice("abc")
    with pytest.raises(TypeError, match="'abc'"):
        score("abc")
    with pytest.raises(ValueError, match="'a' more than once"):
        choice(["a", "b", "a"])
