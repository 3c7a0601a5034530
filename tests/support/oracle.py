"""What the state-checking worker answers, without a scheduler: a function of the tokens alone.

``test_life.py`` shows that vLLM's own scheduler with room for everybody gives the same.
"""

from __future__ import annotations

from collections.abc import Sequence

from radixflow.simulate.rig import _TINY_MODEL, END_TOKEN
from radixflow.simulate.state_worker import advance

_SAMPLES = _TINY_MODEL["vocab_size"] - END_TOKEN - 1
_GROUPS = {"hybrid": 2, "attention": 1, "recurrent": 1}


def _value(family: str, digest: int) -> int:
    value = 0
    for _ in range(_GROUPS[family]):
        value = advance(value, digest)
    return value


def expected_answer(
    family: str, chunks: Sequence[Sequence[int]], max_tokens: Sequence[int], pooling: bool
) -> list[int]:
    """Return the answer to a prompt, or to a session's pieces one after the other.

    Args:
        family: the cache's groups.
        chunks: token ids; one list, or a session's pieces.
        max_tokens: tokens to generate after each.
        pooling: whether one value is read instead.
    """
    digest, answer = 0, []
    last: int | None = None
    for chunk, count in zip(chunks, max_tokens, strict=True):
        # The last sampled token of a piece was never computed; the next piece takes its place.
        for token in chunk:
            digest = advance(digest, token)
        if pooling:
            return [_value(family, digest)]
        for number in range(count):
            if number:
                assert last is not None
                digest = advance(digest, last)
            last = END_TOKEN + 1 + _value(family, digest) % _SAMPLES
            answer.append(last)
    return answer
