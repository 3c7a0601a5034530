"""The three ways in which a set of decisions is sent: alone, in fixed batches, in a crowd of random company."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random

import httpx

from radixflow.audit.questions import Body
from radixflow.audit.settings import AuditSettings
from radixflow.client.calls import IDLE_S
from radixflow.decisions import DecisionResponse

ALONE, BATCHES, CROWD = "alone", "batches", "crowd"
MODES = (ALONE, BATCHES, CROWD)
_PATH = "/v1/systemone"
_TIMEOUT_S = 300.0


@dataclass(frozen=True, slots=True)
class Played:
    """One decision as it came back."""

    mode: str
    decision: int
    """Its place in the set."""
    repeat: int
    """How often it was sent before in this mode."""
    response: DecisionResponse | None
    error: str | None = None


def waves(mode: str, decisions: int, settings: AuditSettings) -> Iterator[list[int]]:
    """Yield the decisions that are sent together; of the crowd, all: its concurrency is another matter.

    Args:
        mode: one of :data:`MODES`.
        decisions: how many there are.
        settings: batch size, requests of the crowd, seed.
    """
    if mode == ALONE:
        yield from ([index] for index in range(decisions))
    elif mode == BATCHES:
        for start in range(0, decisions, settings.batch):
            yield list(range(start, min(start + settings.batch, decisions)))
    else:
        order: list[int] = []
        rng = Random(f"crowd {settings.seed}")
        while len(order) < settings.requests:
            turn = list(range(decisions))
            rng.shuffle(turn)
            order += turn
        yield order[: settings.requests]


async def play(
    url: str,
    mode: str,
    bodies: Sequence[Body],
    settings: AuditSettings,
    *,
    salt: str | None,
    advance: Callable[[], None],
) -> list[Played]:
    """Send a set of decisions in one way.

    Args:
        url: root of the server.
        mode: one of :data:`MODES`.
        bodies: the decisions.
        settings: how large, how many at once.
        salt: the same for all, so that whatever may be reused is; None: the requests' own, or none.
        advance: called after each answer.

    Returns:
        Every request that was sent, once; a failure is one with ``error``.
    """
    played: list[Played] = []
    sent = [0] * len(bodies)
    key = {"Authorization": f"Bearer {settings.api_key}"} if settings.api_key else {}
    limits = httpx.Limits(max_connections=settings.concurrency + 1, keepalive_expiry=IDLE_S)

    async with httpx.AsyncClient(
        base_url=url, timeout=_TIMEOUT_S, limits=limits, headers=key, trust_env=False
    ) as client:

        async def ask(index: int) -> None:
            repeat, sent[index] = sent[index], sent[index] + 1
            body = bodies[index] if salt is None else {**bodies[index], "cache_salt": salt}
            response, error = None, None
            try:
                reply = await client.post(_PATH, json=body)
                if reply.status_code == 200:
                    response = DecisionResponse.model_validate_json(reply.content)
                else:
                    error = f"HTTP {reply.status_code}: {reply.text[:300]}"
            except (httpx.HTTPError, ValueError) as problem:
                error = f"{type(problem).__name__}: {problem}"
            played.append(Played(mode, index, repeat, response, error))
            advance()

        async def worker(queue: Iterator[int]) -> None:
            for index in queue:
                await ask(index)

        for wave in waves(mode, len(bodies), settings):
            width = settings.concurrency if mode == CROWD else len(wave)
            queue = iter(wave)
            await asyncio.gather(*(worker(queue) for _ in range(min(width, len(wave)))))
    return played
