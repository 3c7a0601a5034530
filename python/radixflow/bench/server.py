"""One `vllm serve` process of one arm: started on loopback, watched, and always ended."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import httpx

from radixflow.bench.errors import ServerError
from radixflow.bench.settings import STOCK
from radixflow.config import ENVIRONMENT_VARIABLE
from radixflow.models import ServeSettings

MODEL_NAME = "radixflow-bench"
HOST = "127.0.0.1"
_SCHEDULERS = {STOCK: "radixflow.engine.stock.CountingScheduler"}
_PRESET_SCHEDULER = "radixflow.Scheduler"
_LOG_LINES = 40


def free_port() -> int:
    """Return a TCP port on loopback that nothing listens on now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


@dataclass(frozen=True)
class ServerSpec:
    """Everything that tells one arm's server from another's."""

    arm: str
    command: tuple[str, ...]
    env: dict[str, str]
    port: int
    log_path: Path
    trace_path: Path

    @property
    def url(self) -> str:
        """Root of the server's HTTP interface."""
        return f"http://{HOST}:{self.port}"


def server_spec(
    arm: str, model: Path, serve: ServeSettings, folder: Path, policy: dict[str, Any] | None = None
) -> ServerSpec:
    """Return how to start the server of `arm`.

    Args:
        arm: `stock`, a preset, or `module:Class`.
        model: model folder.
        serve: environment and flags that the model needs.
        folder: existing folder for the server's log and trace.
        policy: further RadixFlow settings of a preset arm.
    """
    port = free_port()
    stem = "".join(letter if letter.isalnum() or letter in "-_" else "_" for letter in arm)
    trace = folder / f"{stem}.trace.jsonl"
    settings: dict[str, Any] = {"trace_path": str(trace)}
    if arm != STOCK:
        settings = {**(policy or {}), "policy": arm, **settings}
    command = (
        *(sys.executable, "-m", "vllm.entrypoints.cli.main", "serve", str(model)),
        *("--host", HOST, "--port", str(port), "--served-model-name", MODEL_NAME),
        *("--scheduler-cls", _SCHEDULERS.get(arm, _PRESET_SCHEDULER)),
        *serve.flags,
    )
    env = {**serve.env, ENVIRONMENT_VARIABLE: json.dumps(settings)}
    return ServerSpec(arm, command, env, port, folder / f"{stem}.log", trace)


def log_tail(path: Path, lines: int = _LOG_LINES) -> str:
    """Return the last lines of a log file, or say that there is none."""
    try:
        text = path.read_text(errors="replace")
    except OSError:
        return "(no log was written)"
    return "\n".join(text.splitlines()[-lines:]) or "(the log is empty)"


@dataclass
class Server:
    """A running server; use it as a context manager, or call `stop()`.

    The process runs on a leash (see `leash.py`): even if this process is killed, the server ends.  It has
    `interrupt_s` seconds to end after SIGINT and `terminate_s` after SIGTERM; then it is killed.
    """

    spec: ServerSpec
    interrupt_s: float = 12.0
    terminate_s: float = 8.0
    started_at: float = field(default=0.0, init=False)
    startup_s: float | None = field(default=None, init=False)
    _leash: subprocess.Popen[bytes] | None = field(default=None, init=False, repr=False)

    def start(self) -> Self:
        """Start the process; returns at once, `wait_healthy` tells when it serves.

        Raises:
            ServerError: when the process cannot be started at all.
        """
        leash = Path(__file__).with_name("leash.py")
        command = [
            *(sys.executable, "-I", "-S", str(leash), str(self.interrupt_s), str(self.terminate_s)),
            *self.spec.command,
        ]
        self.started_at = time.monotonic()
        try:
            with self.spec.log_path.open("wb") as log:
                self._leash = subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env={**os.environ, **self.spec.env},
                    # A terminal's Ctrl-C goes to the whole foreground group; the server must not be in it.
                    start_new_session=True,
                )
        except OSError as error:
            raise ServerError(f"arm {self.spec.arm!r}: cannot start {command[0]!r}: {error}") from error
        return self

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""
        return self._leash is not None and self._leash.poll() is None

    def check_alive(self) -> None:
        """Raise `ServerError`, with the last log lines, if the process has ended."""
        if not self.alive:
            status = None if self._leash is None else self._leash.returncode
            raise ServerError(
                f"arm {self.spec.arm!r}: vllm serve ended with status {status}; its last log lines:\n"
                f"{log_tail(self.spec.log_path)}"
            )

    def is_healthy(self, timeout_s: float = 2.0) -> bool:
        """Return whether the server answers `/health` with 200 within `timeout_s` seconds."""
        try:
            return httpx.get(f"{self.spec.url}/health", timeout=timeout_s, trust_env=False).status_code == 200
        except httpx.HTTPError:
            return False

    def stop(self) -> None:
        """End the server and everything it started; harmless when it is not running.

        Blocks until the last process is gone: at most about 25 s, usually 1 to 5 s.
        """
        leash, self._leash = self._leash, None
        if leash is None:
            return
        if leash.stdin is not None:
            leash.stdin.close()
        try:
            leash.wait(timeout=self.interrupt_s + self.terminate_s + 10.0)
        except subprocess.TimeoutExpired:
            leash.kill()
            leash.wait()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


def stop_all(servers: Sequence[Server]) -> None:
    """Stop servers together: let go of every leash first, then wait for each."""
    for server in servers:
        leash = server._leash
        if leash is not None and leash.stdin is not None:
            leash.stdin.close()
    for server in servers:
        server.stop()


def wait_healthy(
    servers: Sequence[Server], timeout_s: float, tick: Callable[[Server, bool], None], poll_s: float = 0.5
) -> None:
    """Wait until every server is healthy; `tick(server, healthy)` is called for each at every poll.

    Raises:
        ServerError: a server died, or was not healthy `timeout_s` seconds after its start.
    """
    waiting = list(servers)
    while waiting:
        for server in list(waiting):
            server.check_alive()
            healthy = server.is_healthy()
            elapsed = time.monotonic() - server.started_at
            tick(server, healthy)
            if healthy:
                server.startup_s = elapsed
                waiting.remove(server)
            elif elapsed > timeout_s:
                raise ServerError(
                    f"arm {server.spec.arm!r}: not healthy after {elapsed:.0f} s, the limit being "
                    f"startup_timeout_s={timeout_s:g}; its last log lines:\n{log_tail(server.spec.log_path)}"
                )
        if waiting:
            time.sleep(poll_s)
