"""Lists on a command line."""

from __future__ import annotations

from radixflow.errors import ConfigError


def names(text: str | None) -> list[str] | None:
    """Split at commas; None stays None."""
    return None if text is None else [part.strip() for part in text.split(",") if part.strip()]


def numbers(field: str, text: str | None) -> list[int] | None:
    """Read whole numbers separated by commas.

    Raises:
        ConfigError: one isn't a number; the message names the field.
    """
    try:
        return None if text is None else [int(part) for part in names(text) or []]
    except ValueError:
        raise ConfigError(f"{field}: {text!r} is not a list of whole numbers; give, say, 1,8,32") from None


def reals(field: str, text: str | None) -> list[float] | None:
    """Read numbers separated by commas.

    Raises:
        ConfigError: one isn't a number; the message names the field.
    """
    try:
        return None if text is None else [float(part) for part in names(text) or []]
    except ValueError:
        raise ConfigError(f"{field}: {text!r} is not a list of numbers; give, say, 5,10,20") from None
