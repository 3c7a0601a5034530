"""Real `vllm serve` processes with the embedded model, one per arm, started once for all end-to-end tests."""

import asyncio
import contextlib
import json
import secrets
import socket
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import psutil
import pytest

from radixflow.bench.cell import CellRun
from radixflow.bench.client import drive
from radixflow.bench.rounds import TraceReader, total_rounds
from radixflow.bench.server import (
    HOST,
    MODEL_NAME,
    Server,
    ServerSpec,
    free_port,
    server_spec,
    stop_all,
    wait_healthy,
)
from radixflow.bench.settings import Cell, checked_settings
from radixflow.config import ENVIRONMENT_VARIABLE
from radixflow.models import embedded_model, serve_settings

ARMS = ("stock", "radixflow", "planned")
BLOCK_SIZE = serve_settings(device="cpu").block_size


@dataclass
class Arms:
    """The servers, and how to send a workload to one of them."""

    servers: dict[str, Server]
    readers: dict[str, TraceReader] = field(init=False)

    def __post_init__(self):
        self.readers = {arm: TraceReader(server.spec.trace_path) for arm, server in self.servers.items()}

    def url(self, arm):
        return self.servers[arm].spec.url

    def send(self, arm, calls, *, concurrency=1, salt=None):
        """Send calls, one salt for all of them, and return the results."""
        salt = salt or secrets.token_hex(12)
        url = self.url(arm)
        return asyncio.run(
            drive(url, calls, concurrency, model=MODEL_NAME, salt=salt, timeout_s=120, advance=lambda _: None)
        )

    def run(self, arm, workload, decisions, *, concurrency=1, salt=None):
        """Warm up, send `decisions` decisions, and return them with the rounds they took."""
        chosen = checked_settings().workload(workload)
        self.send(arm, chosen.calls(chosen.decisions_per_call, BLOCK_SIZE, stream="warm-up"))
        calls = chosen.calls(decisions, BLOCK_SIZE)
        results = self.send(arm, calls, concurrency=concurrency, salt=salt)
        assert [result.error for result in results if result.error] == []
        start = min(result.started for result in results)
        end = max(result.ended for result in results)
        records = self.readers[arm].window(start, end, sum(len(call.prompts) for call in calls))
        cell = Cell(workload=workload, concurrency=concurrency)
        return CellRun(cell, arm, 0, tuple(calls), tuple(results), total_rounds(records))


def _family(servers):
    """Every process below the servers' leashes, as psutil sees them now."""
    found = []
    for server in servers:
        for child in psutil.Process().children(recursive=True):
            # A server that died is a zombie until it is waited for; it must not hide why it died.
            with contextlib.suppress(psutil.NoSuchProcess):
                if str(server.spec.port) in " ".join(child.cmdline()):
                    found += [child, *child.children(recursive=True)]
    return found


@pytest.fixture(scope="session")
def arms(tmp_path_factory):
    folder: Path = tmp_path_factory.mktemp("servers")
    model, serve = embedded_model(), serve_settings()
    specs = {arm: server_spec(arm, model, serve, folder) for arm in ARMS}
    # One of them has the decision endpoint as any `vllm serve` gets it: by the variable alone.
    specs["stock"].env["VLLM_PLUGINS"] = "radixflow"
    servers = {arm: Server(spec) for arm, spec in specs.items()}
    try:
        for server in servers.values():
            server.start()
        wait_healthy(list(servers.values()), 420.0, lambda *_: None)
        yield Arms(servers)
    finally:
        processes = _family(servers.values())
        stop_all(list(servers.values()))
    # The API server, the engine core and the worker of each: none may outlive the benchmark, nor keep a port.
    assert len(set(processes)) >= 3 * len(servers)
    _, alive = psutil.wait_procs(set(processes), timeout=10)
    assert not alive, f"still running after stop: {alive}"
    for server in servers.values():
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((HOST, server.spec.port))


STOCK_SCHEDULER = "radixflow.engine.stock.CountingScheduler"
API_KEY = "a key for tests"
# `radixflow serve` without a model, with what each of them adds.
DECISION_SERVERS = {
    "label": (),
    "stock": ("--scheduler-cls", STOCK_SCHEDULER),
    "branch": ("--runner", "pooling", "--api-key", API_KEY, "--enable-request-id-headers"),
}


def _decision_spec(name, flags, folder):
    port, trace = free_port(), folder / f"{name}.trace.jsonl"
    command = (sys.executable, "-m", "radixflow.cli", "serve", "--host", HOST, "--port", str(port), *flags)
    env = {ENVIRONMENT_VARIABLE: json.dumps({"trace_path": str(trace)})}
    return ServerSpec(name, command, env, port, folder / f"{name}.log", trace)


@dataclass
class Decisions:
    """The decision servers: one by labels, the same with vLLM's scheduler, one by branches."""

    servers: dict[str, Server]
    readers: dict[str, TraceReader] = field(init=False)
    processes: list = field(default_factory=list)

    def __post_init__(self):
        self.readers = {name: TraceReader(server.spec.trace_path) for name, server in self.servers.items()}

    def url(self, name):
        return self.servers[name].spec.url

    def client(self, name, **settings):
        """Return an HTTP client of a server, with the key that it wants."""
        headers = {"Authorization": f"Bearer {API_KEY}"} if name == "branch" else {}
        return httpx.Client(base_url=self.url(name), headers=headers, timeout=120, trust_env=False, **settings)

    def rounds_since(self, name, start, tokens_at_least=1):
        """Return the trace's records after a monotonic time, once they hold so many prompt tokens."""
        reader = self.readers[name]
        deadline = time.monotonic() + 20
        while True:
            reader.poll()
            found = [record for record in reader.records if record["t"] >= start]
            seen = sum(record["tokens"] + record["cached_tokens"] for record in found)
            if seen >= tokens_at_least or time.monotonic() > deadline:
                return found
            time.sleep(0.05)

    def start(self):
        for server in self.servers.values():
            server.start()
        wait_healthy(list(self.servers.values()), 420.0, lambda *_: None)
        self.processes = _family(self.servers.values())

    def stop(self):
        """Stop all servers; may be called twice."""
        processes, self.processes = {*self.processes, *_family(self.servers.values())}, []
        stop_all(list(self.servers.values()))
        _, alive = psutil.wait_procs(processes, timeout=10)
        assert not alive, f"still running after stop: {alive}"


STARTED = pytest.StashKey[Decisions]()


@pytest.fixture(scope="session")
def decisions(tmp_path_factory, request):
    folder = tmp_path_factory.mktemp("decisions")
    made = Decisions({name: Server(_decision_spec(name, flags, folder)) for name, flags in DECISION_SERVERS.items()})
    request.config.stash[STARTED] = made
    try:
        made.start()
        yield made
    finally:
        made.stop()


def pytest_runtest_teardown(item, nextitem):
    """Stop the decision servers after the last test of theirs: other servers need the memory next."""
    made = item.config.stash.get(STARTED, None)
    if made is not None and (nextitem is None or not nextitem.path.name.startswith("test_e2e_decisions")):
        del item.config.stash[STARTED]
        made.stop()
