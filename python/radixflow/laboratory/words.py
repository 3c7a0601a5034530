"""Lists on a command line."""

from __future__ import annotations

from radixflow.errors import ConfigError


def names(text: str | None) -> list[str] | None:
    """Split at commas; None stays None."""
    return None if text is None else [part.strip() for part in text.split(",") if part.strip()]


def numbers(field: str, text: str | None, least: int | None = None) -> list[int] | None:
    """Read whole numbers separated by commas.

    Args:
        field: what they are, for errors.
        text: of the command line; None stays None.
        least: the smallest that is allowed.

    Raises:
        ConfigError: one isn't a number, or below the least; the message names the field.
    """
    try:
        found = None if text is None else [int(part) for part in names(text) or []]
    except ValueError:
        raise ConfigError(f"{field}: {text!r} is not a list of whole numbers; give, say, 1,8,32") from None
    if least is not None and found and min(found) < least:
        raise ConfigError(f"{field}: {min(found)} is below {least}; give, say, 1,8,32")
    return found


def reals(field: str, text: str | None) -> list[float] | None:
    """Read numbers separated by commas.

    Raises:
        ConfigError: one isn't a number; the message names the field.
    """
    try:
        return None if text is None else [float(part) for part in names(text) or []]
    except ValueError:
        raise ConfigError(f"{field}: {text!r} is not a list of numbers; give, say, 5,10,20") from None


def limit_ms(field: str, text: str | None) -> float | None:
    """Read ``e2el:MS``, as `vllm bench serve --goodput` has it.

    Raises:
        ConfigError: it is something else; prefill-only work has no other latency.
    """
    if text is None:
        return None
    kind, _, limit = text.partition(":")
    try:
        if kind != "e2el":
            raise ValueError
        return float(limit)
    except ValueError:
        raise ConfigError(f"{field}: {text!r} is not e2el:MS; prefill-only work has no other latency") from None


def pairs(field: str, texts: list[str] | None) -> dict[str, str] | None:
    """Read ``key=value`` pairs.

    Raises:
        ConfigError: one has no ``=``.
    """
    if texts is None:
        return None
    found = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise ConfigError(f"{field}: {text!r} is not key=value")
        found[key] = value
    return found
