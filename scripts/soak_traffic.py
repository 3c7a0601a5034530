"""Traffic of the live soak: crowds of decisions, a mix of everything a server gets, and clients that leave."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections import Counter
from typing import Any

import httpx

PATH = "/v1/systemone"
WORDS = ("the", "parcel", "never", "came", "nobody", "called", "since", "morning", "payment", "fails", "again", "today")


def decision(number: int, words: int = 12) -> dict[str, Any]:
    """Build a decision that no other answer fits: its options carry its number."""
    source = random.Random(number)
    names = [f"{name}{number}" for name in ("billing", "outage", "shipping")]
    state = " ".join(source.choice(WORDS) for _ in range(words))
    return {
        "state": f"Ticket {number}. {state}",
        "questions": {
            f"team{number}": {"type": "choice", "instructions": "Who?", "criteria": dict.fromkeys(names)},
            f"urgent{number}": {"type": "noul", "instructions": "Is it urgent?"},
        },
        "request_id": f"soak-{number}",
    }


def fault_of(number: int, reply: httpx.Response) -> str | None:
    """Say what is wrong with the answer to decision ``number``; None: it is its own."""
    if reply.status_code != 200:
        return f"decision {number}: HTTP {reply.status_code}: {reply.text[:200]}"
    document = reply.json()
    if document["id"] != f"decision-soak-{number}":
        return f"decision {number}: got the answer of {document['id']}"
    if set(document["answers"]) != {f"team{number}", f"urgent{number}"}:
        return f"decision {number}: answers {sorted(document['answers'])}"
    if not document["answers"][f"team{number}"]["choice"].endswith(str(number)):
        return f"decision {number}: chose {document['answers'][f'team{number}']['choice']}"
    return None


async def leave(url: str, path: str, body: dict[str, Any], seconds: float) -> bool:
    """Send a whole request, wait, and close the connection unread; returns whether it had not been answered."""
    host, port = url.removeprefix("http://").split(":")
    data = json.dumps(body).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
    )
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(head.encode() + data)
        await writer.drain()
        try:
            return await asyncio.wait_for(reader.read(1), seconds) == b""
        except TimeoutError:
            return True
    finally:
        writer.transport.abort()


async def crowd(url: str, first: int, size: int, every: int = 5) -> tuple[Counter[str], list[str]]:
    """Send ``size`` decisions at the same time; every fifth client leaves while it waits.

    Returns:
        Counts of ``answered``, ``left`` and ``too late to leave``, and faults, one line each.
    """
    counts: Counter[str] = Counter()
    faults: list[str] = []
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
    async with httpx.AsyncClient(base_url=url, timeout=600, limits=limits, trust_env=False) as client:

        async def one(number: int) -> None:
            try:
                if number % every == every - 1:
                    early = await leave(url, PATH, decision(number), 0.2 + 0.002 * (number % 997))
                    counts["left" if early else "too late to leave"] += 1
                    return
                fault = fault_of(number, await client.post(PATH, json=decision(number)))
            except (httpx.HTTPError, OSError) as error:
                fault = f"decision {number}: {type(error).__name__}: {error}"
            if fault is None:
                counts["answered"] += 1
            else:
                faults.append(fault)

        await asyncio.gather(*(one(number) for number in range(first, first + size)))
    return counts, faults


class Mix:
    """Clients that send a mix until a time is over: small and long decisions, generation, lists of prompts, rubbish."""

    def __init__(self, url: str, model: str, seed: int) -> None:
        """Prepare; ``url`` is the server's root, ``model`` its name for completions."""
        self.url = url
        self.model = model
        self.counts: Counter[str] = Counter()
        self.faults: list[str] = []
        self._source = random.Random(seed)
        self._number = 1_000_000

    async def run(self, until: float, clients: int) -> None:
        """Send until the monotonic time ``until``."""
        limits = httpx.Limits(max_keepalive_connections=0)
        async with httpx.AsyncClient(base_url=self.url, timeout=300, limits=limits, trust_env=False) as client:

            async def one() -> None:
                while time.monotonic() < until:
                    await self._send(client)

            await asyncio.gather(*(one() for _ in range(clients)))

    async def _send(self, client: httpx.AsyncClient) -> None:
        kinds = {
            "decision": 40,
            "long decision": 15,
            "decision, left": 12,
            "prompts": 12,
            "generation": 8,
            "generation, left": 6,
            "rubbish": 5,
            "reset": 1,
            "pause": 1,
        }
        kind = self._source.choices(list(kinds), list(kinds.values()))[0]
        self._number += 1
        number = self._number
        try:
            fault = await self._one(client, kind, number)
        except (httpx.HTTPError, OSError) as error:
            fault = f"{type(error).__name__}: {error}"
        self.counts[kind] += 1
        if fault is not None:
            self.faults.append(f"{kind} {number}: {fault}")

    async def _one(self, client: httpx.AsyncClient, kind: str, number: int) -> str | None:
        source = self._source
        text = " ".join(source.choice(WORDS) for _ in range(source.randint(5, 120)))
        generation = {"model": self.model, "prompt": text, "max_tokens": source.randint(2, 48), "ignore_eos": True}
        match kind:
            case "decision" | "long decision":
                body = decision(number, 12 if kind == "decision" else 150)
                if source.random() < 0.3:
                    body["cache_salt"] = f"tenant{number % 4}"
                return fault_of(number, await client.post(PATH, json=body))
            case "decision, left":
                await leave(self.url, PATH, decision(number, source.choice([12, 150])), source.random() * 0.3)
            case "generation, left":
                await leave(self.url, "/v1/completions", {**generation, "stream": True}, source.random() * 0.3)
            case "prompts":
                prompts = [f"{text} question {place}" for place in range(source.randint(2, 16))]
                body = {"model": self.model, "prompt": prompts, "max_tokens": 1}
                reply = await client.post("/v1/completions", json=body)
                if reply.status_code != 200 or len(reply.json()["choices"]) != len(prompts):
                    return f"HTTP {reply.status_code}: {reply.text[:200]}"
            case "generation":
                reply = await client.post("/v1/completions", json=generation)
                if reply.status_code != 200 or reply.json()["usage"]["completion_tokens"] != generation["max_tokens"]:
                    return f"HTTP {reply.status_code}: {reply.text[:200]}"
            case "rubbish":
                reply = await client.post(PATH, json={"state": text, "questions": {"q": {"type": "guess"}}})
                if not 400 <= reply.status_code < 500:
                    return f"HTTP {reply.status_code}: {reply.text[:200]}"
            case "reset":
                (await client.post("/reset_prefix_cache")).raise_for_status()
            case "pause":
                (await client.post("/pause", params={"mode": "keep"})).raise_for_status()
                await asyncio.sleep(0.05)
                (await client.post("/resume")).raise_for_status()
        return None
