"""Bytes in, bytes out: a body that is read up to a limit, and a client that may go away while it waits."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from fastapi import Request

from radixflow.decisions import DecisionError
from radixflow.serving.errors import BodyTooLargeError

_T = TypeVar("_T")
_MOST_DRAINED = 64 << 20


class ClientGoneError(Exception):
    """The client closed the connection; nobody reads the answer."""


async def read_body(request: Request, limit: int) -> bytes:
    """Read a JSON body of at most ``limit`` bytes.

    Raises:
        DecisionError: another content type.
        BodyTooLargeError: it is larger.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise DecisionError("body", f"has the content type {kind!r}", "send application/json")
    announced = request.headers.get("content-length", "")
    size = int(announced) if announced.isdecimal() else None
    parts: list[bytes] = []
    read = 0
    async for part in request.stream():
        read += len(part)
        if read <= limit:
            parts.append(part)
        elif read > _MOST_DRAINED:
            break
        # The rest is read and dropped: a client that is still sending would see a broken pipe, not our answer.
    if read > limit:
        raise BodyTooLargeError(limit, size)
    return b"".join(parts)


async def unless_gone(request: Request, work: Coroutine[Any, Any, _T]) -> _T:
    """Do the work, or cancel it when the client closes the connection.

    Args:
        request: its body was read to the end.
        work: what to do.

    Raises:
        ClientGoneError: the client went first.
    """
    job = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_wait_gone(request))
    try:
        await asyncio.wait((job, gone), return_when=asyncio.FIRST_COMPLETED)
        if job.done():
            return job.result()
        raise ClientGoneError
    finally:
        gone.cancel()
        if not job.done():
            job.cancel()
            # Its clean-up (aborting branches) ends before the request does.
            await asyncio.wait((job,))
            if not job.cancelled():
                job.exception()


async def _wait_gone(request: Request) -> None:
    """Return when the client has closed the connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
