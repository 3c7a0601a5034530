"""What a person reads: tokens and answers first, then the tables of `radixflow bench`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from radixflow.bench import report

Row = Mapping[str, Any]

_MEANINGS = (
    ("tokens", "tokens computed, all repeats"),
    ("(stock)", "the figure before it against stock's: median of the ratios of paired repeats"),
    ("least", "fewest tokens anybody could compute: a decision's shared blocks once, what is left once a branch"),
    ("rounds", "non-empty engine steps, all repeats"),
    ("same bits", "branches whose four log-probabilities are bit for bit those of stock's first repeat"),
    (
        "of others, past a block",
        "branches of other bits whose prompt ends one token after a block boundary: where a chunk stops there, vLLM "
        "computes the token that is left by the kernels of generated tokens, and by those of prompts otherwise",
    ),
    ("as uncached", "all branches of such prompts: how many have the bits that vLLM gives without a prefix cache"),
)


def _change(ratio: float) -> str:
    return f"{(ratio - 1) * 100:+.1f} %"


def _lines(rows: Sequence[Row]) -> list[str]:
    heads = ["family", "block", "arm", "tokens", "(stock)", "least", "rounds", "(stock)", "decisions/s", "(stock)"]
    heads += ["same bits", "of others, past a block", "as uncached", "= stock", "max |Δp|"]
    lines = [heads, ["---", "---:", "---"] + ["---:"] * (len(heads) - 3)]
    for row in rows:
        agreement = row["agreement"]
        others = row["branches"] - row["same_bits"]
        same, known = row["as_uncached"]
        lines.append(
            [
                row["family"],
                str(row["block_size"]),
                row["arm"],
                f"{row['tokens_computed']:,}",
                _change(row["tokens_vs_stock"]),
                f"{row['least_tokens']:,}",
                f"{row['worker_rounds']:,}",
                _change(row["rounds_vs_stock"]),
                f"{row['request_throughput']:.2f}",
                _change(row["versus_baseline"]["request_throughput_median"]),
                f"{row['same_bits']}/{row['branches']}",
                f"{row['other_bits_past_a_block']}/{others}" if others else "-",
                f"{same}/{known}" if known else "-",
                f"{agreement['equal']}/{agreement['compared']}" if agreement and agreement["compared"] else "-",
                f"{agreement['max_delta_p']:.4f}" if agreement and agreement["compared"] else "-",
            ]
        )
    return ["| " + " | ".join(text.replace("|", "\\|") for text in line) + " |" for line in lines]


def markdown(rows: Sequence[Row], errors: Mapping[str, str]) -> str:
    """Return all tables; `errors` says which families failed, and how."""
    lines = ["Tokens and answers:", "", *_lines(rows), ""]
    lines += [*(f"- {head}: {meaning}" for head, meaning in _MEANINGS), ""]
    lines += [f"- {family} failed: {error}" for family, error in errors.items()]
    failures = [f"- {row['family']} {name}: {count}" for row in rows for name, count in row["failures"].items()]
    if failures:
        lines += ["RadixFlow's own failures (the round was scheduled as vLLM does):", "", *failures, ""]
    return "\n".join(lines) + "\n" + report.markdown("stock", rows, random_weights=True)
