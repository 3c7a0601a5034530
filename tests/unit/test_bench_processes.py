"""Servers end, with all they started, however the benchmark does."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from radixflow.bench.errors import ServerError
from radixflow.bench.server import HOST, Server, ServerSpec, free_port, log_tail, stop_all, wait_healthy

FAKE = Path(__file__).with_name("bench_fake_server.py")

# A benchmark in small: starts a server, says so, and waits to be ended.
HOLDER = """
import sys, time
from pathlib import Path
from radixflow.bench.server import Server, ServerSpec, wait_healthy
fake, port, folder = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
spec = ServerSpec("stock", (sys.executable, fake, str(port), str(folder / "pids")), {}, port, folder / "log",
                  folder / "trace")
with Server(spec, interrupt_s=2.0, terminate_s=2.0) as server:
    wait_healthy([server], 30.0, lambda *_: None, poll_s=0.05)
    print("ready", flush=True)
    time.sleep(600)
"""


def spec(folder, *modes, arm="stock"):
    port = free_port()
    command = (sys.executable, str(FAKE), str(port), str(folder / f"{arm}.pids"), *modes)
    return ServerSpec(arm, command, {}, port, folder / f"{arm}.log", folder / f"{arm}.trace")


def pids(folder, arm="stock"):
    return [int(pid) for pid in (folder / f"{arm}.pids").read_text().split()]


def is_running(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def assert_gone(processes, port, within_s=10.0):
    deadline = time.monotonic() + within_s
    while any(is_running(pid) for pid in processes):
        assert time.monotonic() < deadline, f"still running: {[pid for pid in processes if is_running(pid)]}"
        time.sleep(0.05)
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((HOST, port))


def started(server):
    wait_healthy([server.start()], 30.0, lambda *_: None, poll_s=0.05)
    return server


def test_stop_ends_the_server_and_the_child_it_leaves_behind(tmp_path):
    server = started(Server(spec(tmp_path), interrupt_s=5.0, terminate_s=5.0))
    processes = pids(tmp_path)
    assert all(is_running(pid) for pid in processes)
    server.stop()
    assert_gone(processes, server.spec.port)
    assert not server.alive
    server.stop()


def test_a_server_that_ignores_signals_is_killed_with_its_child_in_another_session(tmp_path):
    server = started(Server(spec(tmp_path, "stubborn"), interrupt_s=0.3, terminate_s=0.3))
    processes = pids(tmp_path)
    begun = time.monotonic()
    server.stop()
    assert time.monotonic() - begun < 5.0
    assert_gone(processes, server.spec.port)


def test_several_servers_stop_together(tmp_path):
    servers = [
        started(Server(spec(tmp_path, "stubborn", arm=arm), interrupt_s=1.0, terminate_s=0.2)) for arm in ("a", "b")
    ]
    processes = pids(tmp_path, "a") + pids(tmp_path, "b")
    begun = time.monotonic()
    stop_all(servers)
    assert time.monotonic() - begun < 2.3
    for server in servers:
        assert_gone(processes, server.spec.port)


def test_an_exception_in_the_block_stops_the_server(tmp_path):
    server = Server(spec(tmp_path), interrupt_s=2.0, terminate_s=2.0)

    def fail_while_it_runs():
        with server:
            wait_healthy([server], 30.0, lambda *_: None, poll_s=0.05)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_while_it_runs()
    assert_gone(pids(tmp_path), server.spec.port)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_when_the_benchmark_itself_is_ended(tmp_path, number):
    port = free_port()
    command = [sys.executable, "-c", HOLDER, str(FAKE), str(port), str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"ready\n"
        processes = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
        os.kill(holder.pid, number)
        holder.wait(timeout=20)
    assert_gone(processes, port)


def test_a_server_that_dies_shows_its_last_log_lines(tmp_path):
    server = Server(spec(tmp_path, "die"))
    with pytest.raises(ServerError, match=r"(?s)arm 'stock'.*status 7.*the fake engine has no model"):
        started(server)
    server.stop()


def test_a_server_that_never_answers_names_the_limit(tmp_path):
    port = free_port()
    silent = ServerSpec("stock", ("sleep", "60"), {}, port, tmp_path / "log", tmp_path / "trace")
    with Server(silent) as server, pytest.raises(ServerError, match=r"startup_timeout_s=0\.2"):
        wait_healthy([server], 0.2, lambda *_: None, poll_s=0.05)


def test_a_command_that_does_not_exist_ends_with_its_name_in_the_log(tmp_path):
    missing = ServerSpec("stock", ("no-such-command",), {}, free_port(), tmp_path / "log", tmp_path / "trace")
    with Server(missing) as server, pytest.raises(ServerError, match="no-such-command"):
        wait_healthy([server], 30.0, lambda *_: None, poll_s=0.05)


def test_log_tail(tmp_path):
    path = tmp_path / "log"
    assert log_tail(path) == "(no log was written)"
    path.write_text("")
    assert log_tail(path) == "(the log is empty)"
    path.write_text("\n".join(str(line) for line in range(10)))
    assert log_tail(path, lines=3) == "7\n8\n9"
