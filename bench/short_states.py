#!/usr/bin/env python
"""A state below one block with many questions, over HTTP, on two real servers: stock vLLM, and states inside blocks.

    .venv/bin/python bench/short_states.py

`POST /v1/systemone` by branches: one state of 400 tokens, 16 questions of 4 options, on the embedded decision model
with blocks of 512 tokens, as a larger model would have. Printed are the tokens that were computed (the response's own
account: prompt tokens less cached ones) against the different ones there are, latencies, and how far the answers are
apart.
"""

from __future__ import annotations

import argparse
import json
import secrets
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from rich.console import Console
from rich.table import Table
from tokenizers import Tokenizer

from radixflow.bench import environment, results
from radixflow.bench.server import HOST, Server, ServerSpec, free_port, stop_all, wait_healthy
from radixflow.decisions import MANIFEST_FILE, Decision, encode_branches, load_manifest, parse_decision, plan_branches
from radixflow.models.decision_model import decision_model

HERE = Path(__file__).parent
TOPICS = (
    *("billing", "shipping", "outages", "logins", "refunds", "hardware", "security", "sales"),
    *("printing", "email", "payroll", "phones", "calendars", "reports", "backups", "search"),
)
OPTIONS = ("yes, fully", "mostly", "barely", "not at all", "unclear", "it was before", "it will be", "nobody says")
WORDS = (
    *("since", "the", "update", "on", "Monday", "office", "can", "not", "open", "invoices", "and", "two", "people"),
    *("wait", "for", "a", "new", "password", "while", "printer", "second", "floor", "prints", "blank", "pages"),
    *("parcel", "warehouse", "was", "sent", "to", "wrong", "address"),
)


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--state-tokens", type=int, default=400, help="tokens of a state (%(default)s)")
    parser.add_argument("--questions", type=int, default=16, help="of a decision, at most 16 (%(default)s)")
    parser.add_argument("--options", type=int, default=4, help="of a question, at most 8 (%(default)s)")
    parser.add_argument("--decisions", type=int, default=6, help="one after the other (%(default)s)")
    parser.add_argument("--warmup", type=int, default=4, help="decisions before those: what rounds take is learned")
    parser.add_argument("--block-size", type=int, default=512, help="tokens (%(default)s)")
    parser.add_argument("--unit", type=int, default=2, help="tokens; 0: what `radixflow serve` picks (%(default)s)")
    parser.add_argument("--name", default="short-states", help="end of the result folder's name (%(default)s)")
    parser.add_argument("--result-dir", type=Path, default=HERE / "results", help="folder of result folders")
    options = parser.parse_args()
    for name, most in (("questions", len(TOPICS)), ("options", len(OPTIONS)), ("decisions", 10_000)):
        value = getattr(options, name)
        if not 1 <= value <= most:
            parser.error(f"--{name}: {value} is not between 1 and {most}")
    return options


def body(number: int, options: argparse.Namespace, tokenizer: Tokenizer) -> dict[str, Any]:
    """Make up a decision whose state has as many tokens as asked for."""
    draw = np.random.default_rng(number)
    state = f"ticket {number}:"
    while len(tokenizer.encode(state).ids) < options.state_tokens:
        state += " " + WORDS[int(draw.integers(len(WORDS)))]
    criteria = dict.fromkeys(OPTIONS[: options.options])
    questions = {
        topic: {"type": "choice", "instructions": f"Is it about {topic}?", "criteria": criteria}
        for topic in TOPICS[: options.questions]
    }
    return {"state": state, "questions": questions, "cache_salt": secrets.token_hex(8)}


def different_tokens(decision: Decision, folder: Path, tokenizer: Tokenizer) -> int:
    """Count the tokens that anybody has to compute: each prefix once, whoever shares it."""
    plan = plan_branches(decision, load_manifest(folder / MANIFEST_FILE))
    encoded = encode_branches(
        plan.shared,
        [branch.own for branch in plan.branches],
        lambda text: tokenizer.encode(text, add_special_tokens=False).ids,
        lambda ids: tokenizer.decode(list(ids), skip_special_tokens=False),
    )
    seen: set[tuple[int, ...]] = set()
    for prompt in encoded.prompts:
        seen.update(prompt[:end] for end in range(1, len(prompt) + 1))
    return len(seen)


def server(
    name: str, extra: Sequence[str], settings: dict[str, Any], options: argparse.Namespace, folder: Path
) -> Server:
    """Describe one `radixflow serve` of the embedded model, read by branches."""
    port, trace = free_port(), folder / f"{name}.trace.jsonl"
    flags = ["--runner", "pooling", f"--block-size={options.block_size}", "--host", HOST, "--port", str(port), *extra]
    command = (sys.executable, "-m", "radixflow.cli", "serve", *flags)
    env = {"RADIXFLOW_CONFIG": json.dumps({**settings, "trace_path": str(trace)})}
    return Server(ServerSpec(name, command, env, port, folder / f"{name}.log", trace))


def ask(url: str, decision: dict[str, Any]) -> dict[str, Any]:
    """Send one decision; returns its tokens, its latency and its probabilities by question."""
    start = time.monotonic()
    answer = httpx.post(f"{url}/v1/systemone", json=decision, timeout=300, trust_env=False)
    seconds = time.monotonic() - start
    answer.raise_for_status()
    document = answer.json()
    cached = sum(one["cached_tokens"] for one in document["diagnostics"].values())
    return {
        "ms": 1e3 * seconds,
        "prompt_tokens": document["usage"]["input_tokens"],
        "computed_tokens": document["usage"]["input_tokens"] - cached,
        "answers": {name: one["probabilities"] for name, one in document["answers"].items()},
    }


def apart(one: dict[str, Any], other: dict[str, Any]) -> tuple[float, int]:
    """Return the largest difference of a probability, and how many answers changed."""
    furthest, changed = 0.0, 0
    for name, first in one["answers"].items():
        second = other["answers"][name]
        furthest = max(furthest, *(abs(first[option] - second[option]) for option in first))
        changed += max(first, key=first.__getitem__) != max(second, key=second.__getitem__)
    return furthest, changed


def main() -> None:
    """Run both servers, ask them in turn, print a table and keep a result folder."""
    options = arguments()
    folder = decision_model("branch")
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    picked = ["--prefix-match-unit", str(options.unit)] if options.unit else []
    inside = {"policy": "planned", "partial_states": "on" if options.unit else "auto"}
    console = Console(stderr=True)
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="radixflow-short-") as scratch:
        stock = ["--scheduler-cls", "radixflow.engine.stock.CountingScheduler"]
        servers = {
            "stock": server("stock", stock, {}, options, Path(scratch)),
            "planned": server("planned", picked, inside, options, Path(scratch)),
        }
        try:
            console.print("starting two servers")
            for one in servers.values():
                one.start()
            wait_healthy(list(servers.values()), 600.0, lambda *_: None)
            for number in range(-options.warmup, options.decisions):
                decision = body(number % 1_000_000, options, tokenizer)
                least = different_tokens(parse_decision(decision), folder, tokenizer)
                answers = {name: ask(one.spec.url, decision) for name, one in servers.items()}
                delta, changed = apart(answers["stock"], answers["planned"])
                for name, answer in answers.items():
                    kept = {key: value for key, value in answer.items() if key != "answers"}
                    rows.append({"decision": number, "arm": name, **kept, "different_tokens": least})
                rows[-1] |= {"max_delta_p": delta, "answers_changed": changed}
        finally:
            stop_all(list(servers.values()))
    report(rows, options)


def report(rows: list[dict[str, Any]], options: argparse.Namespace) -> None:
    """Print the table and write the folder."""
    # Decisions below 0 are the warm-up: in the file, and the first of them in the last line.
    by_arm = {arm: [row for row in rows if row["arm"] == arm and row["decision"] >= 0] for arm in ("stock", "planned")}
    least = sum(row["different_tokens"] for row in by_arm["stock"])
    summary: dict[str, Any] = {"different_tokens": least}
    table = Table("arm", "tokens computed", "÷ different", "median ms", "max |Δp|", "answers changed")
    for arm, own in by_arm.items():
        computed = sum(row["computed_tokens"] for row in own)
        median = statistics.median(row["ms"] for row in own)
        delta = max((row.get("max_delta_p", 0.0) for row in own), default=0.0)
        changed = sum(row.get("answers_changed", 0) for row in own)
        table.add_row(arm, str(computed), f"{computed / least:.3f}", f"{median:.0f}", f"{delta:.4f}", str(changed))
        summary[arm] = {"computed_tokens": computed, "of_different": computed / least, "median_ms": median}
    summary["max_delta_p"], summary["answers_changed"] = delta, changed
    Console().print(table)
    first = next(row for row in rows if row["arm"] == "planned")
    summary["first_of_different"] = first["computed_tokens"] / first["different_tokens"]
    Console().print(f"planned, the very first decision: {summary['first_of_different']:.3f} times the different tokens")
    target = results.create_folder(options.result_dir, options.name)
    settings = {name: value for name, value in vars(options).items() if name not in ("result_dir", "name")}
    results.write_json(target / "environment.json", {"machine": environment.machine(), "settings": settings})
    results.write_rows(target / "rows.jsonl", rows)
    results.write_json(target / "summary.json", summary)
    results.seal(target)
    Console(stderr=True).print(f"results in {target.name}")


if __name__ == "__main__":
    main()
