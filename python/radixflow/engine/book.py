"""What RadixFlow remembers about requests whose prefill has not ended. It keeps no request: vLLM's queues do."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from radixflow.index import PrefixIndex


@dataclass(slots=True)
class Entry:
    """One request, from its arrival until its prefill ends or it leaves."""

    added_at: float
    """Seconds on the scheduler's clock."""
    handle: int | None = None
    """Its key in the index, if it has one."""
    cached_tokens: int | None = None
    """Prefix tokens found in the cache when the entry was last asked for; None: not looked up."""
    deferrals: int = 0
    first_deferred_at: float | None = None


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

    def __init__(self, use_index: bool, track_candidates: bool) -> None:
        """Say which parts the policy needs; the others cost nothing."""
        self.index: PrefixIndex | None = PrefixIndex() if use_index else None
        self.track_candidates = track_candidates
        self.entries: dict[str, Entry] = {}
        self.candidates: dict[str, Entry] = {}
        """Requests that never ran and were not released yet, oldest first."""

    def add(self, request: Any, now: float, candidate: bool) -> None:  # noqa: ANN401
        """Remember a request that starts to wait. One that is known already keeps its entry and its age."""
        request_id = request.request_id
        if request_id in self.entries:
            return
        entry = Entry(now)
        self.entries[request_id] = entry
        if candidate and self.track_candidates:
            self.candidates[request_id] = entry
        if self.index is not None and is_indexable(request):
            # A prompt that is no list of unsigned 32-bit ids goes without a key; the index is as it was.
            with contextlib.suppress(TypeError, ValueError, OverflowError):
                entry.handle = self.index.insert(request._all_token_ids, cache_namespace(request))

    def discard(self, request_id: str) -> None:
        """Forget a request: its prefill ended or it left. Unknown ids are fine."""
        entry = self.entries.pop(request_id, None)
        if entry is None:
            return
        self.candidates.pop(request_id, None)
        if entry.handle is not None and self.index is not None:
            self.index.remove(entry.handle)

    def scheduled(self, request_ids: dict[str, int], is_prefilling: Callable[[str], bool]) -> None:
        """Take note of a round: who has run is no candidate, who has ended its prefill is forgotten.

        Args:
            request_ids: the round's requests (values: their tokens).
            is_prefilling: whether a request still has prompt left after this round.
        """
        entries = self.entries
        few, many = (entries, request_ids) if len(entries) < len(request_ids) else (request_ids, entries)
        for request_id in [name for name in few if name in many]:
            if not is_prefilling(request_id):
                self.discard(request_id)
                continue
            self.candidates.pop(request_id, None)
            entry = entries[request_id]
            entry.deferrals, entry.first_deferred_at = 0, None

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
