"""Many decisions at once, clients that leave, and a state that sixteen questions share."""

import asyncio
import json
import secrets
import time
from collections import Counter

import httpx
import pytest

PATH = "/v1/systemone"
DECISIONS, CONCURRENCY, LEAVES_EVERY = 1_200, 64, 5
SIXTEEN = 16


def numbered(number):
    """Build a decision that no other answer fits: its options carry its number."""
    names = [f"{name}{number}" for name in ("billing", "outage", "shipping")]
    return {
        "state": f"Ticket {number}. The parcel never came, and the door code is {number * 7919}.",
        "questions": {
            f"team{number}": {"type": "choice", "instructions": "Who?", "criteria": dict.fromkeys(names)},
            f"urgent{number}": {"type": "noul", "instructions": "Is it urgent?"},
        },
        "request_id": f"load-{number}",
    }


async def send_and_leave(url, body, seconds):
    """Send a whole request, wait a moment, and close the connection without reading an answer."""
    host, port = url.removeprefix("http://").split(":")
    data = json.dumps(body).encode()
    head = (
        f"POST {PATH} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
    )
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(head.encode() + data)
    await writer.drain()
    await asyncio.sleep(seconds)
    early = not reader._buffer
    writer.close()
    return early


async def crowd(url):
    """Send every decision once, `CONCURRENCY` at a time; every fifth client leaves in the middle."""
    replies, left = {}, 0
    source = iter(range(DECISIONS))
    # A connection each: on a busy machine this client takes seconds from choosing an idle one to sending, and the
    # server has closed it by then.
    limits = httpx.Limits(max_connections=CONCURRENCY, max_keepalive_connections=0)
    async with httpx.AsyncClient(base_url=url, timeout=300, limits=limits, trust_env=False) as client:

        async def worker():
            nonlocal left
            for number in source:
                if number % LEAVES_EVERY == LEAVES_EVERY - 1:
                    left += await send_and_leave(url, numbered(number), 0.005 * (number % 16))
                else:
                    replies.setdefault(number, []).append(await client.post(PATH, json=numbered(number)))

        await asyncio.gather(*(worker() for _ in range(CONCURRENCY)))
    return replies, left


def gauge(text, name):
    values = [float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(name + "{")]
    assert values, f"{name} is not on /metrics"
    return sum(values)


def test_no_decision_is_lost_or_mixed_up_and_clients_that_leave_leave_nothing(decisions):
    url = decisions.url("label")
    replies, left = asyncio.run(crowd(url))
    assert len(replies) == DECISIONS - DECISIONS // LEAVES_EVERY
    assert {len(found) for found in replies.values()} == {1}
    ids = Counter()
    for number, (reply,) in replies.items():
        assert reply.status_code == 200, reply.text[:300]
        document = reply.json()
        ids[document["id"]] += 1
        assert document["id"] == f"decision-load-{number}"
        assert set(document["answers"]) == {f"team{number}", f"urgent{number}"}
        assert document["answers"][f"team{number}"]["choice"].endswith(str(number))
    assert max(ids.values()) == 1
    # Most of them left before there was anything to read; the rest were as fast as the server.
    assert left > DECISIONS // LEAVES_EVERY // 4

    deadline = time.monotonic() + 30
    while True:
        # vLLM refreshes its gauges when it works, so it gets something to do.
        with decisions.client("label") as client:
            client.post(PATH, json=numbered(0)).raise_for_status()
            time.sleep(0.2)
            text = client.get("/metrics").text
            gone = client.get("/v1/radixflow/stats").json()["decisions"]["disconnected"]
        busy = [gauge(text, f"vllm:{name}") for name in ("num_requests_running", "num_requests_waiting")]
        blocks = gauge(text, "vllm:kv_cache_usage_perc")
        if (not any(busy) and blocks == 0) or time.monotonic() > deadline:
            break
    assert busy == [0, 0]
    assert blocks == 0
    assert gone >= left // 2
    last = decisions.rounds_since("label", 0)[-1]
    # The index knows who waits or computes: after that lone decision's last round, its own two branches at most.
    assert last["waiting"] == 0
    assert last["indexed"] <= 2


def sixteen():
    state = " ".join(
        f"On day {day} the parcel number {day * 37} was not there and nobody called back." for day in range(40)
    )
    asked = ("urgent", "about money", "a complaint", "a question", "about a parcel", "angry", "long", "short")
    questions = {}
    for place in range(SIXTEEN):
        questions[f"q{place}"] = {"type": "noul", "instructions": f"Is it {asked[place % len(asked)]}, part {place}?"}
    return {"state": state, "questions": questions}


@pytest.fixture(scope="module")
def shared_state(decisions):
    """Ask the sixteen on both servers; return reply, rounds and computed tokens of each."""
    found = {}
    for name in ("stock", "label"):
        with decisions.client(name) as client:
            # What a round costs is learned from rounds; a first decision is no decision like the others.
            for _ in range(6):
                client.post(PATH, json=sixteen()).raise_for_status()
            time.sleep(0.5)
            start = time.monotonic()
            salt = secrets.token_hex(8)
            reply = client.post(PATH, json={**sixteen(), "cache_salt": salt}).raise_for_status().json()
        rounds = decisions.rounds_since(name, start, reply["usage"]["input_tokens"])
        found[name] = reply, rounds
    return found


def test_a_state_that_sixteen_questions_share_is_computed_once(shared_state):
    reply, rounds = shared_state["label"]
    total = reply["usage"]["input_tokens"]
    cached = [entry["cached_tokens"] for entry in reply["diagnostics"].values()]
    computed = sum(record["tokens"] for record in rounds)
    assert computed == total - sum(cached)
    each = total / SIXTEEN
    # One branch computes the state. The others have it, but for less than a block and the question itself.
    assert cached.count(0) == 1
    assert sorted(cached)[1] > 0.9 * (each - 100)
    assert computed < each + (SIXTEEN - 1) * 100


def test_it_takes_fewer_rounds_and_tokens_than_stock(shared_state):
    counts = {
        name: (len(rounds), sum(record["tokens"] for record in rounds)) for name, (_, rounds) in shared_state.items()
    }
    assert counts["label"][0] < counts["stock"][0], counts
    assert counts["label"][1] < counts["stock"][1], counts
    answers = [reply["answers"] for reply, _ in shared_state.values()]
    for name, answer in answers[0].items():
        assert answer["noul"] == pytest.approx(answers[1][name]["noul"], abs=0.02)
