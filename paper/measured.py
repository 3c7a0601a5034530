"""Numbers and tables from real engines."""

from __future__ import annotations

from folders import Made, escape, tabular

from radixflow.report.load import Folder


def check(folder: Folder) -> Made:
    """Return numbers and files from the check against an engine."""
    found = folder.summary["rows"]
    rows = [
        [
            row["arm"],
            " = ".join(map(str, row["rounds"])) if row["rounds"][0] == row["rounds"][1] else str(row["rounds"]),
            " = ".join(map(str, row["tokens"])) if row["tokens"][0] == row["tokens"][1] else str(row["tokens"]),
            "yes" if row["equal_round_by_round"] else "no",
            ", ".join(f"{value:.0f}" for value in row["mean_ms"]),
            f"{100 * row['latency_error']:+.1f} %",
        ]
        for row in found
    ]
    head = ["arm", "rounds", "tokens", "every round", "mean processor ms", "error"]
    caption = "CPU engine, then simulated: rounds, tokens, mean latency."
    return {"CheckFamily": escape(found[0]["family"])}, {"check.tex": tabular(head, rows, caption, "tab:check")}


def engines(folder: Folder) -> Made:
    """Return numbers and files from servers side by side."""
    cells = folder.summary["cells"]
    stock = {(cell["workload"], cell["concurrency"]): cell for cell in cells if cell["arm"] == "stock"}
    rows = []
    for cell in cells:
        beside, versus, agreement = (
            stock[cell["workload"], cell["concurrency"]],
            cell["versus_baseline"],
            cell["agreement"],
        )
        if cell is not beside:
            low, high = versus["request_throughput_quartiles"]
            rows.append(
                [
                    f"{cell['workload']} C{cell['concurrency']}, {cell['arm']}",
                    f"{versus['request_throughput_median']:.2f} [{low:.2f}, {high:.2f}]",
                    f"{beside['worker_rounds']} > {cell['worker_rounds']}",
                    f"{beside['tokens_computed']:,} > {cell['tokens_computed']:,}",
                    f"{agreement['equal']}/{agreement['compared']}",
                ]
            )
    settings = folder.summary["settings"]
    numbers = {
        "EndCores": str(folder.environment["cores"]),
        "EndPairs": str(settings["repeats"]),
        "EndBranches": str(settings["branches"]),
        "EndMaxDelta": f"{max(cell['agreement']['max_delta_p'] for cell in cells):.4f}",
    }
    origin = folder.origin[0].upper() + folder.origin[1:]
    caption = f"{origin}: throughput over stock's; rounds and tokens, stock > arm; answers equal to stock's."
    head = ["cell, arm", "throughput x", "rounds", "tokens", "equal"]
    return numbers, {"engines.tex": tabular(head, rows, caption, "tab:engines")}


def short_states(folder: Folder) -> dict[str, str]:
    """Return numbers from states inside blocks, on servers."""
    found, settings = folder.summary, folder.environment["settings"]
    unit, numbers = settings["unit"], {}
    for arm, digits in (("stock", 1), ("planned", 3)):
        numbers[f"Short{arm.title()}Tokens"] = f"{found[arm]['computed_tokens']:,}"
        numbers[f"Short{arm.title()}"] = f"{found[arm]['of_different']:.{digits}f}"
        numbers[f"Short{arm.title()}Seconds"] = f"{found[arm]['median_ms'] / 1e3:.1f}"
    return numbers | {
        "ShortDecisions": str(settings["decisions"]),
        "ShortStateTokens": str(settings["state_tokens"]),
        "ShortQuestions": str(settings["questions"]),
        "ShortOptions": str(settings["options"]),
        "ShortBranches": str(settings["questions"] * settings["options"]),
        "ShortBlock": str(settings["block_size"]),
        "ShortUnit": f"{unit} tokens, set by hand" if unit else "the size that the check chose",
        "ShortDifferent": f"{found['different_tokens']:,}",
        "ShortFirst": f"{found['first_of_different']:.2f}",
        "ShortAnswers": str(settings["decisions"] * settings["questions"]),
        "ShortChanged": str(found["answers_changed"]),
        "ShortMaxDelta": f"{found['max_delta_p']:.4f}",
    }


def families(folder: Folder) -> Made:
    """Return numbers and a table from five hybrid families in one engine each."""
    cells = folder.summary["cells"]
    stock = {cell["family"]: cell for cell in cells if cell["arm"] == "stock"}
    rows: list[list[str]] = []
    ratios: dict[str, list[float]] = {}
    for cell in cells:
        if cell["arm"] == "stock":
            continue
        beside, agreement = stock[cell["family"]], cell["agreement"]
        ratio = cell["versus_baseline"]["request_throughput_median"]
        ratios.setdefault(cell["arm"], []).append(ratio)
        rows.append(
            [
                f"{cell['family']}, {cell['arm']}",
                f"{ratio:.2f}",
                f"{beside['worker_rounds']} > {cell['worker_rounds']}",
                f"{beside['tokens_computed']:,} > {cell['tokens_computed']:,}",
                f"{agreement['equal']}/{agreement['compared']}",
                f"{agreement['max_delta_p']:.4f}",
            ]
        )
    caption = (
        "CPU engine, five families, eight clients: throughput over stock's; rounds and tokens, stock > arm; answers."
    )
    head = ["family, arm", "throughput x", "rounds", "tokens", "equal", "max dp"]
    numbers = {
        "FamLeast": f"{min(ratios['planned']):.2f}",
        "FamMost": f"{max(ratios['planned']):.2f}",
        "FamOldLeast": f"{min(ratios['radixflow']):.2f}",
        "FamOldMost": f"{max(ratios['radixflow']):.2f}",
        "FamPairs": str(cells[0]["repeats"]),
    }
    return numbers, {"families.tex": tabular(head, rows, caption, "tab:families")}
