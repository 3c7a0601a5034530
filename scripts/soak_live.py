"""A real server for twenty minutes: crowds of decisions, mixed traffic, clients that leave; says what is lost or grows.

    python scripts/soak_live.py [--crowds 3] [--crowd 1200] [--minutes 20] [--clients 24] [--name soak-live]

One ``radixflow serve`` with the embedded model. First each crowd: that many decisions at the same time, of which every
fifth client leaves; then the mix of ``soak_traffic.py``, with resets of the prefix cache and pauses. After each the
server has to be idle, healthy and without a block in use. Exit status 1: an answer was lost or another's, a block or a
request is left, something of ours failed, or memory grew. ``--name`` keeps a sealed folder in ``bench/results``.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import psutil
from soak_traffic import PATH, Mix, crowd, decision

from radixflow.bench import environment, results
from radixflow.bench.server import HOST, Server, ServerSpec, free_port, wait_healthy
from radixflow.config import ENVIRONMENT_VARIABLE
from radixflow.serving.command import EMBEDDED_NAME

ROOT = Path(__file__).resolve().parents[1]
_GROWTH_MB = 48.0
"""Resident memory of all processes may wander by this much: allocators keep what they had."""


def say(text: str) -> None:
    """Tell the person who waits."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def server_spec(folder: Path) -> ServerSpec:
    """Return how the server is started: as users do, with vLLM's routes for resets and pauses."""
    port = free_port()
    command = (sys.executable, "-m", "radixflow.cli", "serve", "--host", HOST, "--port", str(port))
    settings = {"policy": "planned"}
    env = {ENVIRONMENT_VARIABLE: json.dumps(settings), "VLLM_SERVER_DEV_MODE": "1", "VLLM_LOGGING_LEVEL": "WARNING"}
    return ServerSpec("planned", command, env, port, folder / "server.log", folder / "unused.jsonl")


def resident_mb() -> float:
    """Sum the resident memory of the server's processes, in MiB."""
    total = 0
    for process in psutil.Process().children(recursive=True):
        try:
            total += process.memory_info().rss
        except psutil.NoSuchProcess:
            continue
    return total / 2**20


def gauges(text: str) -> dict[str, float]:
    """Return vLLM's gauges that have to come back to zero."""
    names = ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc")
    found = dict.fromkeys(names, 0.0)
    for line in text.splitlines():
        for name in names:
            if line.startswith(f"vllm:{name}{{"):
                found[name] += float(line.rsplit(" ", 1)[1])
    return found


def idle(url: str, seconds: float = 60.0) -> dict[str, Any]:
    """Wait until the server is idle; returns gauges, health and our counters.

    vLLM brings its gauges up to date when it works, so it gets a lone decision each time.
    """
    deadline = time.monotonic() + seconds
    with httpx.Client(base_url=url, timeout=120, trust_env=False) as client:
        while True:
            client.post(PATH, json=decision(0)).raise_for_status()
            time.sleep(0.7)
            found = gauges(client.get("/metrics").text)
            if not any(found.values()) or time.monotonic() > deadline:
                break
        stats = client.get("/v1/radixflow/stats").json()
        health = client.get("/health").status_code
    failed = {
        name: value
        for name, value in stats["scheduler"].items()
        if name.startswith(("radixflow_fallbacks_total", "radixflow_failures_total")) and value
    }
    return {"left": found, "health": health, "failed": failed, "decisions": stats["decisions"]}


def judge(phase: str, state: dict[str, Any], faults: list[str]) -> list[str]:
    """Say what is wrong after a phase."""
    found = [f"{phase}: {fault}" for fault in faults]
    found += [f"{phase}: {name} is {value} on an idle server" for name, value in state["left"].items() if value]
    found += [f"{phase}: {name} is {value}" for name, value in state["failed"].items()]
    if state["health"] != 200:
        found.append(f"{phase}: /health answered {state['health']}")
    return found


def crowds(url: str, count: int, size: int) -> tuple[list[dict[str, Any]], list[str]]:
    """Run the crowds one after another; returns a row each and what is wrong."""
    rows, wrong = [], []
    for number in range(count):
        start = time.monotonic()
        counts, faults = asyncio.run(crowd(url, number * size, size))
        seconds = time.monotonic() - start
        state = idle(url)
        if sum(counts.values()) + len(faults) != size:
            faults.append(f"{size - sum(counts.values()) - len(faults)} clients heard nothing")
        wrong += judge(f"crowd {number + 1}", state, faults)
        rows.append({"phase": f"crowd {number + 1}", "seconds": seconds, **counts, "resident_mb": resident_mb()})
        say(f"{rows[-1]}")
    return rows, wrong


async def mixed(url: str, seconds: float, clients: int) -> tuple[list[dict[str, Any]], Mix]:
    """Send the mix; returns a row every half minute."""
    mix = Mix(url, EMBEDDED_NAME, seed=0)
    start = time.monotonic()
    work = asyncio.create_task(mix.run(start + seconds, clients))
    rows = []
    while not work.done():
        await asyncio.wait({work}, timeout=30)
        row = {"phase": "mix", "seconds": time.monotonic() - start, "requests": sum(mix.counts.values())}
        rows.append({**row, "resident_mb": resident_mb()})
        say(f"{rows[-1]}")
    work.result()
    return rows, mix


def growth(rows: list[dict[str, Any]]) -> float:
    """Return how much resident memory grew from the second quarter's mean to the last quarter's, in MiB."""
    values = [row["resident_mb"] for row in rows]
    quarter = max(1, len(values) // 4)
    return sum(values[-quarter:]) / quarter - sum(values[quarter : 2 * quarter]) / len(values[quarter : 2 * quarter])


def main() -> int:
    """Start, load, judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--crowds", type=int, default=3)
    parser.add_argument("--crowd", type=int, default=1_200)
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--clients", type=int, default=24)
    parser.add_argument("--name", help="keep a result folder")
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="radixflow-soak-") as temporary,
        Server(server_spec(Path(temporary))) as server,
    ):
        wait_healthy([server], 420.0, lambda *_: None)
        url = server.spec.url
        # Caches of the process fill before the first row.
        asyncio.run(crowd(url, 10_000_000, 200, every=1_000_000_000))
        rows, wrong = crowds(url, options.crowds, options.crowd)
        counts: Counter[str] = Counter()
        if options.minutes > 0:
            mix_rows, mix = asyncio.run(mixed(url, 60 * options.minutes, options.clients))
            counts = mix.counts
            wrong += judge("mix", idle(url), mix.faults)
            rows += mix_rows
            if len(mix_rows) >= 8 and (grown := growth(mix_rows)) > _GROWTH_MB:
                wrong.append(f"mix: resident memory grew by {grown:.0f} MB")
        crowd_rows = [row["resident_mb"] for row in rows if row["phase"].startswith("crowd")]
        if len(crowd_rows) >= 3 and crowd_rows[-1] - crowd_rows[1] > _GROWTH_MB:
            wrong.append(f"crowds: resident memory grew by {crowd_rows[-1] - crowd_rows[1]:.0f} MB after the second")
        server.check_alive()
    say(f"mix: {dict(counts)}")
    for line in wrong[:50]:
        say(f"WRONG {line}")
    say(f"{len(wrong)} things wrong")
    if options.name:
        summary = {"kind": "soak", "status": "ok" if not wrong else "failed", "mix": dict(counts), "wrong": wrong}
        folder = results.create_folder(ROOT / "bench" / "results", options.name)
        results.write_json(folder / "environment.json", environment.machine())
        results.write_rows(folder / "rows.jsonl", rows)
        results.write_json(folder / "summary.json", {**summary, "options": vars(options)})
        results.seal(folder)
        say(str(folder.relative_to(ROOT)))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
