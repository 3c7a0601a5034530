"""The Rust prefix index; import it from `radixflow.index`."""

from typing import final

from radixflow.index import IndexStats, Tokens

__all__ = ["PrefixIndex"]

@final
class PrefixIndex:
    """A compressed radix tree over the token ids of waiting requests.

    A *key* is the token ids of one prompt, at least one, under a *namespace*. A *handle* stands for one
    inserted key: an int from 1 on, larger than every earlier one, and never used again, not even after
    `clear`. Two keys are *peers* when both are live, are in the same namespace, and share at least their
    first token; identical keys under two handles are peers too.

    Every method takes its arguments apart before it changes anything, so a call that raises has inserted or
    removed nothing. Calls may come from several threads. After an internal failure (a bug: `RuntimeError`),
    every method but `clear` raises `RuntimeError`.
    """

    def __new__(cls) -> PrefixIndex:
        """Make an empty index, which owns no heap memory."""

    def insert(self, tokens: Tokens, namespace: str = "") -> int:
        """Add a key and return its handle.

        `tokens` has shape (n,), n >= 1, and is copied: about the cost of comparing and copying n integers.
        Keys that are equal to a live key are fine and get handles of their own.

        Raises `TypeError` for something else than token ids (an int64 array, a str, a float item),
        `OverflowError` for an id outside 0..4294967295, `ValueError` for no tokens, more than one dimension
        or a strided view.
        """

    def remove(self, handle: int) -> None:
        """Take a key away; nodes that mark nothing any more are merged or freed.

        The cost grows with the nodes above the key, and with the logarithm of the number of its siblings,
        not with that number. Raises `KeyError` for a handle that is not live.
        """

    def retire(self, handle: int) -> None:
        """Stop counting a key as a peer of others, for good: its request runs and waits no more.

        `shared_with_peers` of any other key then counts it nowhere. Everything else stays: the key is live until
        `remove`, may be asked about, matches, and covers keys in `residual`. Retiring it again changes nothing.

        The cost grows with the nodes above the key. Raises `KeyError` for a handle that is not live.
        """

    def match_prefix(self, tokens: Tokens, namespace: str = "") -> int:
        """Return how many leading tokens of `tokens` some live key of the namespace shares.

        In tokens, 0..n; an empty `tokens` matches 0. Raises as `insert` does for anything else it cannot
        read.
        """

    def shared_with_peers(self, handle: int) -> list[tuple[int, int]]:
        """Return the junctions of a key: where its peers part from it.

        Pairs `(position, fan_out)`, ascending by position: at least one peer shares exactly `position`
        tokens with this key (1 <= position <= its length), and `fan_out` peers share at least that many.
        Peers that are retired are left out of both; this key itself may be retired. A
        peer that is identical to this key, or goes on where it ends, parts from it at its length; a peer
        that ends inside it parts at the peer's length. With A, B and C sharing 300 tokens, and A and B 350:
        `[(300, 2), (350, 1)]` for A. No peers: `[]`.

        The cost grows with the number of junctions, not of tokens. Raises `KeyError` for a handle that is
        not live.
        """

    def residual(self, handle: int, granularity: int = 1) -> int:
        """Return how many tokens of a key no peer ahead of it covers.

        A peer is ahead when its handle is smaller, that is, when it was inserted before. What is covered is
        the longest prefix shared with any one of them, in tokens, rounded down to a multiple of
        `granularity` (a block size, in tokens, at least 1). 0 when all of it is covered; the key's length
        when nothing is.

        Raises `KeyError` for a handle that is not live, `ValueError` for a granularity below 1.
        """

    def key_length(self, handle: int) -> int:
        """Return the number of tokens of a key. Raises `KeyError` for a handle that is not live."""

    def stats(self) -> IndexStats:
        """Return what the index holds and what it costs. One pass over the nodes."""

    def check_integrity(self) -> None:
        """Walk everything; raise `RuntimeError` with the first contradiction found. For tests."""

    def clear(self) -> None:
        """Remove every key, give the memory back, and recover from an internal failure."""

    def __len__(self) -> int:
        """Return the number of live handles."""

    def __contains__(self, handle: object, /) -> bool:
        """Return whether `handle` is the handle of a live key; False for anything else, of any type."""
