"""The table of ``docs/compatibility.md``: per file what passed with vLLM's class and with ours."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from compare_reports import by_file
from suite import DEFAULT_PRESET, GROUPS, PACKAGES, PRESETS, VERSION, Arm, Group

BEGIN, END = "<!-- conformance -->", "<!-- /conformance -->"
_ASKED = ("gate", "allocation", "zero")


def _outcomes(counts: Counter[str]) -> str:
    others = {kind: number for kind, number in counts.items() if kind != "passed"}
    text = str(counts.get("passed", 0))
    return text + "".join(f" + {number} {kind}" for kind, number in sorted(others.items()))


def _short(name: str) -> str:
    return name.removeprefix("tests/v1/")


def _hooks(report: dict[str, Any], name: str) -> str:
    counts = report["by_file"].get(name, {})
    asked = sum(counts.get(f"{site}.asked", 0) for site in _ASKED)
    yes = sum(counts.get(f"{site}.yes", 0) for site in _ASKED)
    return f"{asked} / {yes}"


def _group_table(group: Group, results: dict[Arm, dict[str, Any]]) -> list[str]:
    arms = {arm.preset: report for arm, report in results.items() if arm.group is group and arm.everywhere}
    shown = [preset for preset in ("stock", *PRESETS) if preset in arms]
    files = by_file(arms["stock"]["outcomes"])
    lines = [
        f"### {group.title[0].upper()}{group.title[1:]}",
        "",
        f"| file | {' | '.join(f'`{p}`' if p != 'stock' else 'vLLM' for p in shown)} | asked / yes |",
        f"|---|{'---:|' * (len(shown) + 1)}",
    ]
    for name in sorted(files):
        cells = [_outcomes(by_file(arms[preset]["outcomes"]).get(name, Counter())) for preset in shown]
        lines.append(f"| `{_short(name)}` | {' | '.join(cells)} | {_hooks(arms[DEFAULT_PRESET], name)} |")
    totals = [_outcomes(Counter(arms[preset]["outcomes"].values())) for preset in shown]
    asked = Counter(arms[DEFAULT_PRESET]["questions"])
    sums = f"{sum(asked[f'{s}.asked'] for s in _ASKED)} / {sum(asked[f'{s}.yes'] for s in _ASKED)}"
    lines += [f"| all | {' | '.join(f'**{total}**' for total in totals)} | {sums} |", ""]
    return lines


def _refusals(results: dict[Arm, dict[str, Any]]) -> list[str]:
    """List the tests whose engine a policy refuses; in the table they run as vLLM does."""
    reasons: dict[str, dict[str, set[str]]] = {}
    for arm, report in results.items():
        if arm.preset != DEFAULT_PRESET or not arm.everywhere:
            continue
        for test, found in report["refused"].items():
            cause = "; ".join(reason.partition(":")[0] for reason in found)
            cause = "a KV connector" if "kv_connector" in cause else cause
            file, _, name = test.partition("::")
            reasons.setdefault(cause, {}).setdefault(_short(file), set()).add(name)
    lines = [
        "### Tests that build an engine RadixFlow refuses",
        "",
        "| reason | file | tests | names, parameters left out |",
        "|---|---|---:|---|",
    ]
    for cause, files in sorted(reasons.items()):
        for file, names in sorted(files.items()):
            functions = sorted({name.partition("[")[0].rpartition("::")[2] for name in names})
            lines.append(f"| {cause} | `{file}` | {len(names)} | {', '.join(f'`{name}`' for name in functions)} |")
    return [*lines, ""]


def render(results: dict[Arm, dict[str, Any]]) -> str:
    """Write the block."""
    seconds = sum(report.get("seconds", 0.0) for report in results.values())
    shipped = [report for arm, report in results.items() if arm.preset == DEFAULT_PRESET and not arm.everywhere]
    lines = [
        f"vLLM {VERSION}'s own tests, unchanged, from its source distribution ({', '.join(PACKAGES[:3])}). "
        "`wait_ms` 0. Numbers are tests passed; whatever else happened stands beside them. *Asked / yes*: how "
        f"often the edited function asked a question while `{DEFAULT_PRESET}` ran, and how often the answer was "
        "to pass a request over.",
        "",
    ]
    for group in GROUPS:
        if any(arm.group is group for arm in results):
            lines += _group_table(group, results)
    for report in shipped:
        counts = Counter(report["outcomes"].values())
        lines += [
            f"As users get it (`{DEFAULT_PRESET}`, vLLM's own function where prefix caching is off), the first table's "
            f"tests: {_outcomes(counts)}; policies ran in {report['instances'].get(DEFAULT_PRESET, 0)} of "
            f"{sum(report['instances'].values())} schedulers.",
            "",
        ]
    lines += _refusals(results)
    lines.append(f"{seconds / 60:.0f} minutes of processes, two at a time.")
    return "\n".join(lines)


def write_between_markers(document: Path, block: str) -> None:
    """Replace what stands between the markers."""
    text = document.read_text()
    before, found, rest = text.partition(BEGIN)
    _, closed, after = rest.partition(END)
    if not found or not closed:
        raise SystemExit(f"{document} has no {BEGIN} ... {END}; put the two markers where the table goes")
    document.write_text(f"{before}{BEGIN}\n{block}\n{END}{after}")
