"""What RadixFlow remembers about requests whose prefill has not ended. It keeps no request: vLLM's queues do."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from radixflow.engine.hints import Group, Groups, Hints
from radixflow.engine.promises import Promise
from radixflow.index import PrefixIndex

_LONELY_KEYS = 256
"""Keys in a row without a peer after which the index sleeps, until something is shared again."""


@dataclass(slots=True)
class Entry:
    """One request, from its arrival until its prefill ends or it leaves."""

    added_at: float
    """Seconds on the scheduler's clock."""
    stamp: float = 0.0
    """Seconds on the front end's clock, when that saw it; compared with other stamps only."""
    handle: int | None = None
    """Its key in the index, if it has one."""
    waits: bool = True
    """It has not been given a chunk since it was added, or since it was preempted."""
    cached_tokens: int | None = None
    """Prefix tokens found in the cache when the entry was last asked for; None: not looked up."""
    hit: int = 0
    """Prefix tokens it would start from, when the scan looked last."""
    overtook: bool = False
    """It was given its first chunk while others were passed over for want of a state."""
    gave_way: int = 0
    """Rounds in which its chunk was cut for those it overtook."""
    deferrals: int = 0
    first_deferred_at: float | None = None
    hints: Hints | None = None
    group_key: tuple[str, str] | None = None
    group: Group | None = None
    is_branch: bool = False
    """It was seen to share a prefix with others."""
    waiting_for_tail: int = 0
    """Peers, known or announced, that share it up to its last block boundary."""
    left_without: int = 0
    """Of those, who would compute it again because its state isn't worth a round."""
    is_counted: bool = False
    """What it computes again for want of a state was taken into account."""
    native_junction: int = 0
    """vLLM's own junction, as far as the junction policy kept it."""
    stored: int = 0
    """Position of the last state of it that others can start from, as far as it has come."""
    plan: tuple[int, ...] = ()
    """Positions its chunks are to end at."""
    promised: tuple[int, ...] = ()
    """Positions that others may wait for."""
    promise: Promise | None = None
    """What it waits for."""
    promises_seen: int = -1
    """Version of the promise table in which it found nothing to wait for."""
    is_dependent: bool | None = None
    """Whether it needs a state that a peer has to store first, or will store one; None: not asked."""


def cache_namespace(request: Any) -> str:  # noqa: ANN401
    """Name everything but token ids that enters vLLM's block hash: two names, no shared block.

    Multimodal inputs enter it by identity and place. Here all of a prompt's inputs together make one name,
    so prompts that share only the first of two images count as strangers: never wrong, sometimes cautious.
    """
    salt = request.cache_salt
    lora = request.lora_request
    features = request.mm_features
    if not salt and lora is None and not features:
        return ""
    inputs = tuple((feature.identifier, feature.mm_position.offset) for feature in features)
    return repr((salt or None, lora.lora_name if lora is not None else None, inputs))


def is_indexable(request: Any) -> bool:  # noqa: ANN401
    """Whether a request has token ids that decide its block hashes.

    Prompts given as embeddings are hashed by content we don't read, a streaming session's prompt grows, and
    one that doesn't read the cache shares nothing (prompt log-probabilities, pooling over all tokens).
    """
    if request.prompt_token_ids is None or request.prompt_embeds is not None:
        return False
    return not request.resumable and not request.skip_reading_prefix_cache


class WaitingBook:
    """Entries by request id, the candidates for a hold among them, and their keys in the index."""

    def __init__(self, use_index: bool, track_candidates: bool, block_size: int = 0) -> None:
        """Say which parts the policy needs; the others cost nothing.

        Args:
            use_index: keep keys.
            track_candidates: keep the list of those who may be held.
            block_size: tokens below which a prompt shares nothing and gets no key; 0: every prompt gets one.
        """
        self.index: PrefixIndex | None = PrefixIndex() if use_index else None
        self.track_candidates = track_candidates
        self.entries: dict[str, Entry] = {}
        self.candidates: dict[str, Entry] = {}
        """Requests that never ran and were not released yet, oldest first."""
        self.groups = Groups()
        self._block_size = block_size
        self._lonely = 0

    @property
    def asleep(self) -> bool:
        """Whether keys are not kept for now, because nothing was shared for long."""
        return self._block_size > 0 and self._lonely >= _LONELY_KEYS

    def wake(self) -> None:
        """Keep keys again: something is shared."""
        self._lonely = 0

    def add(self, request: Any, now: float, candidate: bool, hints: Hints | None = None) -> None:  # noqa: ANN401
        """Remember a request that starts to wait. One that is known already keeps its entry and its age."""
        request_id = request.request_id
        entry = self.entries.get(request_id)
        if entry is not None:
            if not entry.waits:
                # It was preempted: it counts as a peer again, and plans anew.
                entry.waits, entry.is_counted = True, False
                entry.plan, entry.promised, entry.cached_tokens = (), (), None
                self._unkey(entry)
                self._key(entry, request)
            return
        entry = Entry(now, request.arrival_time)
        self.entries[request_id] = entry
        if candidate and self.track_candidates:
            self.candidates[request_id] = entry
        if hints is not None:
            entry.hints = hints
            self.wake()
            joined = self.groups.join(cache_namespace(request), hints, request_id)
            if joined is not None:
                entry.group_key, entry.group = joined
        self._key(entry, request)

    def _key(self, entry: Entry, request: Any) -> None:  # noqa: ANN401
        index, block = self.index, self._block_size
        if index is None or (block and request.num_tokens <= block) or self.asleep or not is_indexable(request):
            return
        # A prompt that is no list of unsigned 32-bit ids goes without a key; the index is as it was.
        with contextlib.suppress(TypeError, ValueError, OverflowError):
            entry.handle = index.insert(request._all_token_ids, cache_namespace(request))
            if block:
                # A quarter of a prompt makes a branch, too, though no state of it can be shared.
                sizes = (block, max(1, request.num_tokens // 4))
                alone = all(index.residual(entry.handle, size) == request.num_tokens for size in sizes)
                self._lonely = self._lonely + 1 if alone else 0

    def _unkey(self, entry: Entry) -> None:
        if entry.handle is not None and self.index is not None:
            handle, entry.handle = entry.handle, None
            self.index.remove(handle)

    def discard(self, request_id: str) -> bool:
        """Forget a request: its prefill ended or it left. Returns whether it was known."""
        entry = self.entries.pop(request_id, None)
        if entry is None:
            return False
        self._forget(request_id, entry)
        return True

    def _forget(self, request_id: str, entry: Entry) -> None:
        if self.candidates:
            self.candidates.pop(request_id, None)
        if entry.group_key is not None:
            self.groups.leave(entry.group_key)
        self._unkey(entry)

    def scheduled(
        self, request_ids: dict[str, int], is_prefilling: Callable[[str], bool], ended: Callable[[str], None]
    ) -> None:
        """Take note of a round: who has run is no candidate, who has ended its prefill is forgotten.

        Args:
            request_ids: the round's requests (values: their tokens).
            is_prefilling: whether a request still has prompt left after this round.
            ended: called with each request that is forgotten.
        """
        entries = self.entries
        few, many = (entries, request_ids) if len(entries) < len(request_ids) else (request_ids, entries)
        for request_id in [name for name in few if name in many]:
            if not is_prefilling(request_id):
                self._forget(request_id, entries.pop(request_id))
                ended(request_id)
                continue
            self.candidates.pop(request_id, None)
            entry = entries[request_id]
            entry.deferrals, entry.first_deferred_at, entry.promise = 0, None, None
            if entry.waits:
                entry.waits = False
                if entry.handle is not None and self.index is not None:
                    self.index.retire(entry.handle)

    def release_candidates(self) -> int:
        """End a hold: nobody is a candidate any more. Returns how many were."""
        count = len(self.candidates)
        self.candidates.clear()
        return count

    def replace_index(self) -> None:
        """Start over with an empty index after it failed; who waits now goes without a key."""
        for entry in self.entries.values():
            entry.handle = None
        self.index = PrefixIndex()
