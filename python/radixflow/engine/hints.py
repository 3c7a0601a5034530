"""What a client may say about a request: which group it is of, how large that is, how much the group shares.

Hints come from ``SamplingParams.extra_args`` (over HTTP: ``vllm_xargs``) or ``PoolingParams.extra_kwargs``. They
are never trusted with an answer: a group ends within its cache namespace, a shared length only places a chunk's
end, and neither starts nor lengthens a hold.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

GROUP = "radixflow_group"
GROUP_SIZE = "radixflow_group_size"
SHARED_TOKENS = "radixflow_shared_tokens"

LARGEST_GROUP = 4_096
_LONGEST_NAME = 256
_MOST_GROUPS = 65_536


@dataclass(frozen=True, slots=True)
class Hints:
    """What of a request's hints was usable."""

    group: str | None = None
    group_size: int = 0
    """0: not said."""
    shared_tokens: int = 0
    """0: not said."""
    ignored: int = 0
    """Hints that were nonsense."""


@dataclass(slots=True)
class Group:
    """Requests that a client called one group, within one cache namespace."""

    size: int
    """The smallest size that any member named: a wrong one may end a hold early, never late."""
    seen: set[str] = field(default_factory=set)
    """Every member that ever arrived, while one of them is live."""
    live: int = 0

    @property
    def to_come(self) -> int:
        """Members that were announced and have not arrived."""
        return max(0, self.size - len(self.seen))

    @property
    def is_complete(self) -> bool:
        """Whether everybody has arrived."""
        return len(self.seen) >= self.size


def _count(value: Any, most: int) -> int | None:  # noqa: ANN401
    """Read a positive whole number; JSON clients may send 4.0."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        return None
    if isinstance(value, float) and not value.is_integer():
        return None
    return int(value) if 1 <= value <= most else None


def read_hints(request: Any) -> Hints | None:  # noqa: ANN401
    """Read a request's hints; None where it has none at all."""
    sampling = request.sampling_params
    parameters = request.pooling_params
    given = sampling.extra_args if sampling is not None else getattr(parameters, "extra_kwargs", None)
    if not given or not (GROUP in given or GROUP_SIZE in given or SHARED_TOKENS in given):
        return None
    ignored = 0
    group = given.get(GROUP)
    if isinstance(group, int) and not isinstance(group, bool):
        group = str(group) if group.bit_length() <= 64 else None
    if GROUP in given and not (isinstance(group, str) and 0 < len(group) <= _LONGEST_NAME):
        group, ignored = None, ignored + 1
    size = _count(given[GROUP_SIZE], LARGEST_GROUP) if GROUP_SIZE in given else 0
    if size is None:
        size, ignored = 0, ignored + 1
    shared = _count(given[SHARED_TOKENS], request.num_prompt_tokens) if SHARED_TOKENS in given else 0
    if shared is None:
        shared, ignored = 0, ignored + 1
    return Hints(group, size, shared, ignored)


class Groups:
    """The groups of the requests that wait or prefill."""

    def __init__(self) -> None:
        """Start without any."""
        self._groups: dict[tuple[str, str], Group] = {}

    def __len__(self) -> int:
        """Count the groups with a live member."""
        return len(self._groups)

    def join(self, namespace: str, hints: Hints, request_id: str) -> tuple[tuple[str, str], Group] | None:
        """Add a request to its group; None where it names no group or no size, or there are too many groups."""
        if hints.group is None or not hints.group_size:
            return None
        key = (namespace, hints.group)
        group = self._groups.get(key)
        if group is None:
            if len(self._groups) >= _MOST_GROUPS:
                return None
            group = self._groups[key] = Group(hints.group_size)
        group.size = min(group.size, hints.group_size)
        if len(group.seen) < group.size:
            group.seen.add(request_id)
        group.live += 1
        return key, group

    def leave(self, key: tuple[str, str]) -> None:
        """Take a member away; the last one takes the group with it."""
        group = self._groups.get(key)
        if group is not None:
            group.live -= 1
            if group.live <= 0:
                del self._groups[key]
