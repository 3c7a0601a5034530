"""States inside a block: registered where branches part, copied before they are written over, never read too early.

With ``--prefix-match-unit`` below the block size vLLM can start a request inside a block: it copies the block that
holds the state into one of the request's own (copy-on-write). By itself it registers such a state only at the last
unit of a prompt, which is no branch's junction. Here the managers of *one* scheduler are told to register it where
the planner stops a chunk, too. What vLLM itself does for a prompt's last unit is used for that, unchanged.

Three things of vLLM 0.29.0 are put right on the way, whoever registered the state; see ``docs/upstream.md``:

* A hit that ends inside a block copies the block of attention at the start of the round, also where the block is
  written in this very round. Such a request waits for the next round.
* In an asynchronous engine a prompt that ends on a unit is registered again one round later, when its block already
  holds the state one token further on. A state is registered only by the chunk that ends there.
* A producer's state moves into a block of its own in the round after, and who needs it had to wait for yet another
  round. The copy's source still holds the state when that round starts, so who needs it copies from there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class PartialStates:
    """Hooks on the cache managers of one scheduler; nothing is replaced on a class."""

    def __init__(self, scheduler: Any) -> None:  # noqa: ANN401
        """Bind to a vLLM scheduler whose own ``__init__`` has run and whose hits may end inside a block."""
        self.unit = int(scheduler.hash_block_size)
        self._asked: dict[str, set[int]] = {}
        self._refused: set[str] = set()
        manager = scheduler.kv_cache_manager
        for one in manager.coordinator.single_type_managers:
            if hasattr(one, "cached_blocks_this_step"):
                _Recurrent(one, self)
            elif one.block_size > self.unit:
                _Attention(one, self)
        self._take_copies = manager.take_kv_cache_block_copies
        manager.take_kv_cache_block_copies = self._from_first_sources

    def ask(self, request_id: str, position: int) -> None:
        """Register the state of a request's prefix at ``position`` tokens, if a chunk of it ends there."""
        self._asked.setdefault(request_id, set()).add(position)

    def asked(self, request_id: str) -> set[int]:
        """Return the positions a request is asked to register, tokens."""
        return self._asked.get(request_id, set())

    def forget(self, request_id: str) -> None:
        """Ask nothing more of a request: it left, or lost its blocks. What is registered stays."""
        self._asked.pop(request_id, None)

    def begin(self) -> None:
        """Start a call of ``schedule()``."""
        self._refused.clear()

    def refuse(self, request_id: str) -> None:
        """Note a request whose hit ends in a block that is written in this round."""
        self._refused.add(request_id)

    def is_refused(self, request_id: str) -> bool:
        """Whether that is why the request got no blocks in this call."""
        return request_id in self._refused

    def _from_first_sources(self) -> tuple[list[Any], list[Any]]:
        """Let every copy of a round read a block that no other copy of the round fills: workers read first."""
        copies, retained = self._take_copies()
        if len(copies) > 1:
            sources = {copy.dst_block_id: copy.src_block_id for copy in copies}
            copies = [copy._replace(src_block_id=_first(copy.src_block_id, sources)) for copy in copies]
        return copies, retained


def _first(block: int, sources: dict[int, int]) -> int:
    while block in sources:
        block = sources[block]
    return block


class _Until:
    """A request as vLLM would see it if its prompt ended at a position: what the last unit's rule is asked about."""

    def __init__(self, request: Any, position: int) -> None:  # noqa: ANN401
        self._request = request
        self.num_prompt_tokens = position

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return getattr(self._request, name)


class _Recurrent:
    """Hooks on one manager of recurrent states."""

    def __init__(self, manager: Any, partial: PartialStates) -> None:  # noqa: ANN401
        self._manager = manager
        self._partial = partial
        self._register: Callable[..., Any] = manager._cache_partial_tail_block
        self._allocate: Callable[..., Any] = manager.allocate_new_blocks
        manager._cache_partial_tail_block = self.register
        manager.allocate_new_blocks = self.allocate

    def register(self, request: Any, num_tokens: int) -> Any | None:  # noqa: ANN401
        if request.num_computed_tokens >= num_tokens:
            return None
        if num_tokens in self._partial.asked(request.request_id):
            return self._register(_Until(request, num_tokens), num_tokens)
        return self._register(request, num_tokens)

    def allocate(self, request_id: str, *arguments: Any, **keywords: Any) -> Any:  # noqa: ANN401
        manager = self._manager
        held = manager._partial_hit_reqs.get(request_id)
        moved = None
        if held is not None and request_id in manager._allocated_block_reqs:
            moved = held[1].block_hash
        written = manager.cached_blocks_this_step
        known = moved is None or moved in written
        blocks = self._allocate(request_id, *arguments, **keywords)
        if not known:
            # The copy is redirected to the block that holds the state. Who registers the state anew adds it again.
            written.discard(moved)
        return blocks


class _Attention:
    """Hooks on one manager of full attention."""

    def __init__(self, manager: Any, partial: PartialStates) -> None:  # noqa: ANN401
        self._manager = manager
        self._partial = partial
        self._written: dict[int, int] = {}
        """Blocks written in this round: the first token that is."""
        self._cache: Callable[..., None] = manager.cache_blocks
        self._count: Callable[..., int] = manager.get_num_blocks_to_allocate
        self._start: Callable[[], None] = manager.new_step_starts
        manager.cache_blocks = self.cache
        manager.get_num_blocks_to_allocate = self.count
        manager.new_step_starts = self.start

    def start(self) -> None:
        self._written.clear()
        self._start()

    def cache(self, request: Any, num_tokens: int, *arguments: Any, **keywords: Any) -> None:  # noqa: ANN401
        manager, name = self._manager, request.request_id
        size = int(manager.block_size)
        start = max(int(request.num_computed_tokens), manager.num_cached_block.get(name, 0) * size)
        self._cache(request, num_tokens, *arguments, **keywords)
        blocks = manager.req_to_blocks[name]
        for block in blocks[start // size : -(-num_tokens // size)]:
            self._written[block.block_id] = min(start, self._written.get(block.block_id, start))
        # After vLLM's own, and the longest first: a prefix registered in a block takes the place of shorter ones.
        for position in sorted(self._partial.asked(name), reverse=True):
            if position <= num_tokens and position % size and position // size < len(blocks):
                manager.block_pool.cache_partial_block(
                    request=request,
                    block=blocks[position // size],
                    num_tokens=position,
                    kv_cache_group_id=manager.kv_cache_group_id,
                    block_size=size,
                )

    def count(
        self,
        request_id: str,
        num_tokens: int,
        new_computed_blocks: Any,  # noqa: ANN401
        total_computed_tokens: int,
        num_local_computed_tokens: int,
        *arguments: Any,  # noqa: ANN401
        **keywords: Any,  # noqa: ANN401
    ) -> int:
        manager = self._manager
        if new_computed_blocks and num_local_computed_tokens % manager.block_size:
            start = self._written.get(new_computed_blocks[-1].block_id)
            if start is not None and start < num_local_computed_tokens:
                self._partial.refuse(request_id)
                # vLLM's own way to say "not in this round".
                return int(manager.block_pool.num_gpu_blocks) + 1
        return self._count(
            request_id,
            num_tokens,
            new_computed_blocks,
            total_computed_tokens,
            num_local_computed_tokens,
            *arguments,
            **keywords,
        )
