"""Token ids of branches, with what they share tokenised once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from radixflow.decisions.labels import Decode, Encode

_SEAM_TOKENS = 32


@dataclass(frozen=True, slots=True)
class EncodedBranches:
    """The prompts of a decision as a model takes them."""

    prompts: tuple[tuple[int, ...], ...]
    """Token ids, in the order of the branches."""
    shared_tokens: int
    """Tokens that all of them begin with; of a lone one: those of the shared text that it kept."""


def encode_branches(shared: str, owns: Sequence[str], encode: Encode, decode: Decode) -> EncodedBranches:
    """Encode ``shared + own`` for every own part, without reading the shared part again each time.

    A tokenizer may merge across the place where the parts meet, so ids of the parts can't simply be joined. The
    last 32 tokens of the shared part (the seam) are encoded again with each own part. Where the first half of
    them comes out as before, nothing further left can depend on the own part in a tokenizer that splits text
    into words first; where it doesn't, that branch is encoded whole.

    Args:
        shared: text that every prompt begins with.
        owns: what follows, one a branch.
        encode: text to ids, adding no special tokens.
        decode: ids to text, special tokens kept.
    """
    whole = tuple(encode(shared)) if shared else ()
    cut = max(0, len(whole) - _SEAM_TOKENS)
    seam_ids = whole[cut:]
    seam = decode(seam_ids) if cut else ""
    # A short shared part isn't worth it; nor is a seam that cuts a character, or reads differently by itself.
    has_seam = bool(seam) and shared.endswith(seam) and tuple(encode(seam)) == seam_ids
    kept = _SEAM_TOKENS // 2
    prompts = []
    for own in owns:
        end = tuple(encode(seam + own)) if has_seam else ()
        is_joined = has_seam and end[:kept] == seam_ids[:kept]
        prompts.append(whole[:cut] + end if is_joined else tuple(encode(shared + own)))
    others = prompts[1:] or [whole]
    return EncodedBranches(tuple(prompts), min((common_length(prompts[0], other) for other in others), default=0))


def common_length(one: Sequence[object], other: Sequence[object]) -> int:
    """Count the tokens, or characters, that two prompts begin with."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (left, right) in pairs if left != right), min(len(one), len(other)))
