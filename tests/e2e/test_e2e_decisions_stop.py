"""Servers that end in the middle of traffic: by SIGTERM, and as their engine died. Last of their servers' tests."""

import asyncio
import signal
from pathlib import Path

import httpx
import psutil
import pytest

import radixflow
from radixflow.bench.server import log_tail

PATH = "/v1/systemone"
PACKAGE = Path(radixflow.__file__).parent


def decision(number):
    return {
        "state": f"Ticket {number}. The parcel never came.",
        "questions": {
            f"team{number}": {"type": "choice", "instructions": "Who?", "criteria": {"billing": None, "outage": None}},
            f"urgent{number}": {"type": "noul", "instructions": "Is it urgent?"},
        },
    }


async def traffic(url, headers, end, clients=8):
    """Send decisions until the server is gone; returns answers by status, 0 for a connection that broke."""
    seen = []

    async def one(number):
        # A new connection each: who waits behind a closed one would tell nothing.
        async with httpx.AsyncClient(base_url=url, headers=headers, timeout=30, trust_env=False) as client:
            while True:
                try:
                    seen.append((await client.post(PATH, json=decision(number))).status_code)
                except httpx.TimeoutException:
                    seen.append(-1)
                    return
                except httpx.TransportError:
                    seen.append(0)
                    return
                if seen[-1] != 200:
                    return

    async def stop():
        # Others are on their way whenever one is answered.
        while seen.count(200) < 2 * clients:
            await asyncio.sleep(0.02)
        end()

    # The limit is there to fail instead of hanging.
    await asyncio.wait_for(asyncio.gather(stop(), *(one(number) for number in range(clients))), 150)
    return seen


def processes(server):
    """Return the server's process and everything below it."""
    (top,) = psutil.Process(server._leash.pid).children()
    return top, top.children(recursive=True)


@pytest.mark.parametrize("how", ["SIGTERM", "the engine dies"])
def test_a_server_that_ends_under_traffic_ends_whole(decisions, how):
    name = "label" if how == "SIGTERM" else "branch"
    server = decisions.servers[name]
    headers = dict(decisions.client(name).headers)
    top, below = processes(server)

    def end():
        if how == "SIGTERM":
            top.send_signal(signal.SIGTERM)
            return
        (engine,) = [one for one in below if "EngineCore" in one.name() or "EngineCore" in " ".join(one.cmdline())]
        engine.kill()

    seen = asyncio.run(traffic(decisions.url(name), headers, end))
    # Eight clients, and each of them saw the end.
    assert sum(status != 200 for status in seen) == 8
    # An answer, an error that says so, or a closed connection. vLLM forgets what it gets while it shuts down: those
    # wait until they give up.
    forgotten = {-1} if how == "SIGTERM" else set()
    assert [status for status in seen if status not in {0, 200} | forgotten and status < 500] == []
    _, alive = psutil.wait_procs([top, *below], timeout=30)
    assert not alive
    log = server.spec.log_path.read_text()
    ours = [line for line in log.splitlines() if f'File "{PACKAGE}' in line]
    assert ours == [], log_tail(server.spec.log_path)
