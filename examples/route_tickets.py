#!/usr/bin/env python3
"""Route tickets: ask a running server which team, whether it is urgent and how angry the writer is, for each of them.

radixflow serve                                     # in another terminal
.venv/bin/python examples/route_tickets.py          # the tickets beside this file
.venv/bin/python examples/route_tickets.py tickets.csv --output routed.csv --concurrency 16
"""

from __future__ import annotations

import asyncio
import csv
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from radixflow.client import (
    AsyncDecisionClient,
    DecisionCall,
    DecisionClientError,
    DecisionConnectionError,
    DecisionResponse,
    choice,
    noul,
    score,
)

TEAMS: dict[str, str | None] = {
    "billing": "invoices, payments, prices that were charged",
    "shipping": "parcels, delivery, addresses",
    "outage": "the service is down or failing",
    "login": "passwords, accounts that can't be opened",
    "refund": "money back, returns",
    "hardware": "devices that are broken or behave oddly",
    "security": "stolen accounts, leaks, suspicious messages",
    "sales": "offers, contracts, larger orders",
}
LEVELS = ["calm", "annoyed", "angry", "furious"]
QUESTIONS = {
    "team": choice(TEAMS, "Which team should handle this ticket?"),
    "urgent": noul("Is it urgent?", true="somebody has to act today", false="it can wait"),
    "anger": score(LEVELS, "How angry is the writer?"),
}
TICKETS = Path(__file__).with_name("tickets.jsonl")
RESULTS = Path("routed.jsonl")
MOST_SHOWN = 10
FAILED, UNUSABLE = 1, 2
COLUMNS = (
    TextColumn("{task.description}"),
    BarColumn(),
    MofNCompleteColumn(),
    TextColumn("{task.fields[failed]} failed"),
    TimeRemainingColumn(),
)


@dataclass(frozen=True)
class Ticket:
    """One row of the input."""

    row: int
    id: str
    text: str


@dataclass
class Routed:
    """One row of the output; without an answer everything but ``error`` is empty."""

    row: int
    id: str
    team: str = ""
    team_probability: float | None = None
    urgent: float | None = None
    anger: float | None = None
    near_ties: list[str] = field(default_factory=list)
    error: str = ""


class InputError(Exception):
    """The input can't be used; the message says where and why."""


def read_tickets(path: Path, text_field: str, id_field: str) -> list[Ticket]:
    """Read a CSV file with a header, or JSON Lines.

    Raises:
        InputError: the file, or one of its rows.
    """
    tickets = []
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows: Iterator[Any] = csv.DictReader(file) if path.suffix.lower() == ".csv" else _json_rows(file, path)
            for number, row in enumerate(rows, 1):
                text = row.get(text_field) if isinstance(row, dict) else None
                if not isinstance(text, str) or not text.strip():
                    raise InputError(
                        f"{path}, row {number}: no text in field {text_field!r}; name it with --text-field"
                    )
                tickets.append(Ticket(number, str(row.get(id_field) or number), text))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path} can't be read: {error}") from None
    if not tickets:
        raise InputError(f"{path} has no rows")
    return tickets


def _json_rows(file: TextIO, path: Path) -> Iterator[Any]:
    for number, line in enumerate(file, 1):
        if line.strip():
            try:
                yield json.loads(line)
            except (ValueError, RecursionError) as error:
                raise InputError(f"{path}, line {number}: not JSON ({error})") from None


@contextmanager
def open_output(path: Path) -> Iterator[Callable[[Routed], None]]:
    """Open a CSV or JSON Lines file and yield what writes a row; rows are there as soon as they are written."""
    with path.open("w", encoding="utf-8", newline="") as file:
        if path.suffix.lower() == ".csv":
            table = csv.DictWriter(file, [column.name for column in fields(Routed)])
            table.writeheader()

            def write(row: Routed) -> None:
                table.writerow({**asdict(row), "near_ties": " ".join(row.near_ties)})
                file.flush()
        else:

            def write(row: Routed) -> None:
                file.write(json.dumps(asdict(row), ensure_ascii=False) + "\n")
                file.flush()

        yield write


def route(ticket: Ticket, found: DecisionResponse | Exception) -> Routed:
    """Return the row of a ticket."""
    if isinstance(found, Exception):
        return Routed(ticket.row, ticket.id, error=str(found) or type(found).__name__)
    answers: dict[str, Any] = found.answers
    team = answers["team"].choice
    return Routed(
        row=ticket.row,
        id=ticket.id,
        team=team,
        team_probability=round(answers["team"].probabilities[team], 4),
        urgent=round(answers["urgent"].noul, 4),
        anger=round(answers["anger"].score, 3),
        near_ties=[name for name, answer in answers.items() if answer.near_tie],
    )


async def ask_all(
    client: AsyncDecisionClient,
    tickets: list[Ticket],
    concurrency: int,
    done: Callable[[Routed], None],
) -> None:
    """Ask about every ticket.

    Raises:
        DecisionConnectionError: nobody answers any more.
    """
    silent = 0
    gone: DecisionConnectionError | None = None

    def calls() -> Iterator[DecisionCall]:
        for ticket in tickets:
            if gone is not None:
                # Those in flight still come back; nobody else is sent after them.
                return
            yield {"state": ticket.text, "questions": QUESTIONS}

    async for index, found in client.decide_many(calls(), concurrency=concurrency):
        done(route(tickets[index], found))
        silent = silent + 1 if isinstance(found, DecisionConnectionError) else 0
        if isinstance(found, DecisionConnectionError) and silent >= concurrency:
            gone = gone or found
    if gone is not None:
        raise gone


def show(console: Console, tickets: list[Ticket], routed: list[Routed]) -> None:
    """Print teams, near-ties and errors."""
    answered = [row for row in routed if not row.error]
    teams = Table("team", "tickets", "urgent", "mean anger", "near-ties", title=f"{len(answered)} tickets routed")
    for team in TEAMS:
        mine = [row for row in answered if row.team == team]
        anger = f"{sum(row.anger or 0.0 for row in mine) / len(mine):.1f}" if mine else "-"
        urgent = sum((row.urgent or 0.0) > 0.5 for row in mine)
        teams.add_row(team, str(len(mine)), str(urgent), anger, str(sum(bool(row.near_ties) for row in mine)))
    console.print(teams)
    texts = {ticket.row: " ".join(ticket.text.split()) for ticket in tickets}
    for title, rows, tell in (
        (
            "To be read by a person: near-ties",
            [row for row in answered if row.near_ties],
            lambda r: ", ".join(r.near_ties),
        ),
        ("Without an answer", [row for row in routed if row.error], lambda r: r.error),
    ):
        if rows:
            table = Table("ticket", "what", "text", title=title)
            for row in sorted(rows, key=lambda r: r.row)[:MOST_SHOWN]:
                table.add_row(*(escape(part) for part in (row.id, tell(row), texts[row.row][:60])))
            if len(rows) > MOST_SHOWN:
                table.caption = f"and {len(rows) - MOST_SHOWN} more, in the output"
            console.print(table)


def main(
    tickets_path: Annotated[
        Path, typer.Argument(metavar="TICKETS", help="JSON Lines, or CSV with a header (.csv)")
    ] = TICKETS,
    output: Annotated[Path, typer.Option(help="results: JSON Lines, or CSV (.csv); overwritten")] = RESULTS,
    url: Annotated[str, typer.Option(help="the server")] = "http://127.0.0.1:8000",
    api_key: Annotated[str | None, typer.Option(envvar="RADIXFLOW_API_KEY", help="if the server wants one")] = None,
    text_field: Annotated[str, typer.Option(help="field with a ticket's text")] = "text",
    id_field: Annotated[str, typer.Option(help="field with its id; the row's number where it has none")] = "id",
    concurrency: Annotated[int, typer.Option(min=1, help="tickets in flight")] = 8,
    timeout: Annotated[float, typer.Option(min=0.001, help="seconds without an answer")] = 60.0,
    retries: Annotated[int, typer.Option(min=0, help="after 503 and broken connections")] = 3,
    limit: Annotated[int | None, typer.Option(min=1, help="only the first so many")] = None,
) -> None:
    """Route tickets with a running `radixflow serve`.

    Asks three typed questions a ticket: which team, is it urgent, how angry is the writer. Answers that the model
    could as well have given the other way (near-ties) are listed for a person to read.

    Exit status: 0 all routed, 1 some tickets have no answer, 2 the server or the input can't be used.
    """
    console, errors = Console(), Console(stderr=True)
    routed: list[Routed] = []

    async def run(tickets: list[Ticket]) -> None:
        async with AsyncDecisionClient(url, api_key=api_key, timeout=timeout, retries=retries) as client:
            # A server that isn't there is one error, and not one a ticket; and it costs no earlier results.
            await client.schema()
            with open_output(output) as write, Progress(*COLUMNS, console=errors) as progress:
                task = progress.add_task("routing", total=len(tickets), failed=0)

                def done(row: Routed) -> None:
                    routed.append(row)
                    write(row)
                    progress.update(task, advance=1, failed=sum(bool(one.error) for one in routed))

                await ask_all(client, tickets, concurrency, done)

    try:
        tickets = read_tickets(tickets_path, text_field, id_field)[:limit]
        asyncio.run(run(tickets))
    except DecisionConnectionError as error:
        _stop(
            errors, f"{error}\nIs the server running? Start one with: radixflow serve; another address: --url", routed
        )
    except DecisionClientError as error:
        hints = {401: "Give the key with --api-key.", 404: "Does it serve decisions? Start it with: radixflow serve"}
        _stop(errors, f"{url}: {error}\n{hints.get(error.status or 0, 'See the log of the server.')}", routed)
    except (InputError, OSError) as error:
        _stop(errors, str(error), routed)
    show(console, tickets, routed)
    console.print(f"Results: {output}", highlight=False, soft_wrap=True)
    if any(row.error for row in routed):
        raise typer.Exit(FAILED)


def _stop(errors: Console, problem: str, routed: list[Routed]) -> None:
    """End with an error, and say how far it went."""
    errors.print(f"[red]error:[/red] {escape(problem)}", highlight=False, soft_wrap=True)
    if routed:
        errors.print(f"{sum(not row.error for row in routed)} tickets were routed before; they are in the output.")
    raise typer.Exit(UNUSABLE)


if __name__ == "__main__":
    typer.run(main)
