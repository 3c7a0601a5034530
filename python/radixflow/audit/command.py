"""`radixflow audit`: start the arms, play the decisions, compare, keep."""

from __future__ import annotations

import asyncio
import gzip
import json
import secrets
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from radixflow.audit import report
from radixflow.audit.compare import Change, Reference, by_margin, changes, reference_of, summarise
from radixflow.audit.play import ALONE, MODES, Played, play, waves
from radixflow.audit.plot import draw
from radixflow.audit.questions import Body, audit_decisions
from radixflow.audit.settings import ARMS, SERVED, AuditSettings
from radixflow.bench import environment, results
from radixflow.bench.command import check_memory, console_for
from radixflow.bench.progress import ProgressLine
from radixflow.bench.server import HOST, Server, ServerSpec, free_port, stop_all, wait_healthy
from radixflow.errors import RadixFlowError


@dataclass(frozen=True, slots=True)
class AuditOutcome:
    """What was found."""

    folder: Path
    failed: int
    """Requests that got no answer."""
    document: Mapping[str, Any]


def run_audit(settings: AuditSettings, *, json_output: bool = False) -> AuditOutcome:
    """Play, compare, print, and write `<result_dir>/<date>_<name>/`.

    Raises:
        BenchError: too little memory, a server did not start or died, or the folder can't be made.
        ConfigError: the decisions can't be read.
        RadixFlowError: the reference got no answer at all.
    """
    bodies = audit_decisions(settings)
    if settings.url is None:
        check_memory(settings.arms, environment.available_gib())
    errors = console_for(stderr=True)
    folder = results.create_folder(settings.result_dir, settings.name)
    began = time.monotonic()
    with ProgressLine(errors) as progress, _urls(settings, progress) as urls:
        played = {arm: _play_arm(arm, url, bodies, settings, progress) for arm, url in urls.items()}
    reference = reference_of(one for one in played[settings.arms[0]] if one.mode == ALONE)
    if not reference:
        failures = [one.error for one in played[settings.arms[0]] if one.error]
        raise RadixFlowError(f"no decision was answered one at a time; the first error: {failures[0]}")
    rows = _compare(played, reference, settings)
    outcome = _keep(folder, settings, played, rows, len(bodies), time.monotonic() - began)
    console = errors if json_output else console_for(stderr=False)
    report.show(console, outcome.document["groups"], outcome.document["by_margin"])
    if outcome.failed:
        console.print(f"{outcome.failed} requests failed; rows.jsonl.gz has their errors", highlight=False)
    console.print(f"Kept in {folder}", highlight=False, markup=False)
    if json_output:
        sys.stdout.write(json.dumps(results.plain(outcome.document), indent=2) + "\n")
    return outcome


@contextmanager
def _urls(settings: AuditSettings, progress: ProgressLine) -> Iterator[dict[str, str]]:
    """Start a server for each arm, or name the one that runs."""
    if settings.url is not None:
        yield {SERVED: settings.url}
        return
    logs = Path(tempfile.mkdtemp(prefix="radixflow-audit-"))
    servers = {arm: Server(_spec(arm, settings, logs)) for arm in settings.arms}
    try:
        progress.stage("starting radixflow serve")
        for server in servers.values():
            server.start()
        wait_healthy(list(servers.values()), settings.startup_timeout_s, lambda *_: progress.advance(0))
        yield {arm: server.spec.url for arm, server in servers.items()}
    finally:
        progress.stage("stopping servers")
        stop_all(list(servers.values()))
        shutil.rmtree(logs, ignore_errors=True)


def _spec(arm: str, settings: AuditSettings, logs: Path) -> ServerSpec:
    """Return how to start the server of an arm."""
    port, stem = free_port(), arm.replace(", ", "-").replace(" ", "-")
    command = (
        *(sys.executable, "-m", "radixflow.cli", "serve", *settings.serve_arguments),
        *("--host", HOST, "--port", str(port), *ARMS[arm]),
    )
    return ServerSpec(arm, command, {}, port, logs / f"{stem}.log", logs / f"{stem}.jsonl")


def _play_arm(
    arm: str, url: str, bodies: Sequence[Body], settings: AuditSettings, progress: ProgressLine
) -> list[Played]:
    """Play every mode on one arm."""
    # One salt for all, a new one each audit: whatever prefixes may be reused are, and none of an earlier one's.
    salt = secrets.token_hex(12)
    played: list[Played] = []
    for mode in MODES:
        total = sum(len(wave) for wave in waves(mode, len(bodies), settings))
        progress.stage(f"{arm}: {mode}", total)
        played += asyncio.run(play(url, mode, bodies, settings, salt=salt, advance=progress.advance))
    return played


def _compare(played: Mapping[str, Sequence[Played]], reference: Reference, settings: AuditSettings) -> list[Change]:
    """Compare everything but the reference with it."""
    rows: list[Change] = []
    for arm, mine in played.items():
        is_first = arm == settings.arms[0]
        rows += changes(arm, (one for one in mine if not (is_first and one.mode == ALONE)), reference)
    return rows


def _write_rows(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write one JSON object a line, compressed: a crowd under four arms is tens of thousands of answers."""
    text = "".join(json.dumps(results.plain(row), separators=(",", ":")) + "\n" for row in rows)
    # No time stamp: the same rows are the same bytes.
    path.write_bytes(gzip.compress(text.encode(), mtime=0))


def _keep(
    folder: Path,
    settings: AuditSettings,
    played: Mapping[str, Sequence[Played]],
    rows: Sequence[Change],
    decisions: int,
    seconds: float,
) -> AuditOutcome:
    """Write the result folder and seal it."""
    groups = [
        {"arm": arm, "mode": mode, **summarise([row for row in rows if (row.arm, row.mode) == (arm, mode)])}
        for arm in settings.arms
        for mode in MODES
        if (arm, mode) != (settings.arms[0], ALONE)
    ]
    failed = [{"arm": arm, "error": one.error} for arm, mine in played.items() for one in mine if one.error]
    document = {
        "reference": f"{settings.arms[0]}, {ALONE}",
        "decisions": decisions,
        "duration_s": seconds,
        "failed": len(failed),
        "settings": settings.model_dump(mode="json", exclude={"result_dir", "url", "decisions", "serve_arguments"}),
        "groups": groups,
        "by_margin": by_margin(rows),
    }
    bins = by_margin(rows)
    results.write_json(folder / "summary.json", document)
    _write_rows(folder / "rows.jsonl.gz", [*(asdict(row) for row in rows), *failed])
    results.write_json(folder / "environment.json", environment.machine())
    (folder / "table.md").write_text(report.markdown(groups, bins))
    if rows:
        draw(folder / "audit.png", rows, f"{settings.name}: {len(rows):,} answers")
    results.seal(folder)
    return AuditOutcome(folder, len(failed), document)
