"""Many decisions with a bound on how many are in flight."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from typing import Any, NotRequired, TypedDict

from radixflow.client.calls import Questions
from radixflow.decisions import DecisionResponse


class DecisionCall(TypedDict):
    """Arguments of ``decide``."""

    state: Any
    questions: Questions
    instructions: NotRequired[str | None]
    cache_salt: NotRequired[str | None]
    priority: NotRequired[int]
    request_id: NotRequired[str | None]
    strategy: NotRequired[str | None]
    model: NotRequired[str | None]
    chat_template_kwargs: NotRequired[Mapping[str, Any] | None]


async def run_many(
    decide: Callable[..., Awaitable[DecisionResponse]], requests: Iterable[DecisionCall], concurrency: int
) -> AsyncGenerator[tuple[int, DecisionResponse | Exception], None]:
    """Run ``decide`` for each request; see ``AsyncDecisionClient.decide_many``."""
    source = enumerate(requests)
    failure: Exception | None = None
    is_open = True
    running: dict[asyncio.Task[DecisionResponse | Exception], int] = {}
    try:
        while True:
            while is_open and len(running) < concurrency:
                try:
                    index, request = next(source)
                except StopIteration:
                    is_open = False
                except Exception as error:  # noqa: BLE001 - raised below, once those in flight are back
                    failure, is_open = error, False
                else:
                    running[asyncio.ensure_future(_ask(decide, request))] = index
            if not running:
                break
            done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            # Those that ended together come in their order.
            for task in sorted(done, key=running.__getitem__):
                yield running.pop(task), task.result()
    finally:
        for task in running:
            task.cancel()
        # Waited for, so that no connection is closed behind the back of a loop that has ended.
        await asyncio.gather(*running, return_exceptions=True)
    if failure is not None:
        raise failure


async def _ask(
    decide: Callable[..., Awaitable[DecisionResponse]], request: DecisionCall
) -> DecisionResponse | Exception:
    """Return a response, or what was raised instead of one."""
    try:
        return await decide(**request)
    except Exception as error:  # noqa: BLE001 - it is the result of this one, and no business of the others
        return error
