"""When a call is sent again, and after how long."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from email.utils import parsedate_to_datetime


@dataclass(frozen=True, slots=True)
class RetrySchedule:
    """Waits between attempts: ``first_s * 2**n``, each drawn from its upper half, none above ``longest_s``."""

    retries: int = 2
    """Attempts after the first one."""
    first_s: float = 0.25
    """Wait before the first retry, seconds."""
    longest_s: float = 30.0
    """Longest wait, seconds; a server that asks for more is not asked again."""
    draw: Callable[[], float] = random.random
    """Uniform in [0, 1): clients that failed together don't return together."""

    def __post_init__(self) -> None:
        """Refuse waits that are none.

        Raises:
            ValueError: a negative number.
        """
        if self.retries < 0 or self.first_s < 0.0 or self.longest_s < 0.0:
            raise ValueError(
                f"retries is {self.retries}, first_s {self.first_s}, longest_s {self.longest_s}; give none below 0"
            )

    def wait_s(self, attempts: int, retry_after_s: float | None = None) -> float | None:
        """Return seconds to wait after ``attempts`` attempts, None to give up.

        Args:
            attempts: made so far, at least 1.
            retry_after_s: what the server asked for; never less is waited.
        """
        if attempts > self.retries:
            return None
        # The exponent is bounded, or 2.0**1024 overflows on somebody who retries for ever.
        backoff = min(self.longest_s, self.first_s * 2.0 ** min(attempts - 1, 64))
        if retry_after_s is None:
            return backoff * (0.5 + 0.5 * self.draw())
        if retry_after_s > self.longest_s:
            return None
        return min(self.longest_s, retry_after_s + 0.5 * self.first_s * self.draw())


def parse_retry_after(value: str | None, now: Callable[[], float] = time.time) -> float | None:
    """Read a ``Retry-After`` header.

    Args:
        value: seconds or an HTTP date; None: there is no header.
        now: seconds since 1970.

    Returns:
        Seconds from now, not below 0; None where there is none or it can't be read.
    """
    if value is None:
        return None
    text = value.strip()
    if text.isascii() and text.isdigit():
        # Longer numbers are no float; nobody waits for years either.
        return float(text[:12])
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - now())
    except (ValueError, OverflowError):
        return None
