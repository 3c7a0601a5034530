"""What the scheduler is told of a branch: its decision, how many branches that has, how much they share."""

from __future__ import annotations

import hashlib

GROUP = "radixflow_group"
GROUP_SIZE = "radixflow_group_size"
SHARED_TOKENS = "radixflow_shared_tokens"

# The scheduler ignores what is longer or larger; these are its limits.
_LONGEST_NAME = 256
_LARGEST_GROUP = 4_096


def branch_hints(group: str, size: int, shared_tokens: int) -> dict[str, str | int]:
    """Return the hints that each branch of a decision carries, in its sampling or pooling parameters.

    Args:
        group: the decision's name, equal for its branches and unlike that of other decisions at the time.
        size: branches of the decision, all of which will be sent.
        shared_tokens: tokens that every one of them begins with.

    Returns:
        Flat keys and values. Without siblings, or with nothing shared, no length is given: there is nothing to
        plan for. A group too large for the scheduler gets no hints at all.
    """
    if not 1 <= size <= _LARGEST_GROUP:
        return {}
    # A client may choose the name; one that the scheduler would ignore is replaced by another, equally its own.
    if not 0 < len(group) <= _LONGEST_NAME:
        group = hashlib.sha256(group.encode("utf-8", "surrogatepass")).hexdigest()
    hints: dict[str, str | int] = {GROUP: group, GROUP_SIZE: size}
    if size > 1 and shared_tokens > 0:
        hints[SHARED_TOKENS] = shared_tokens
    return hints
