"""When a failed HTTP request is sent again: pure functions of what came back."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from agora_core.errors import InvalidArgumentError

_RETRIED: Final = frozenset((408, 409, 425, 429))


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """When to try again: `max_retries` more attempts, after `base_delay`, twice that, four times, ... seconds.

    `max_delay` (seconds) bounds one wait. A server that asks, by Retry-After, for a longer one is not tried again.
    """

    max_retries: int = 3
    base_delay: float = 0.5
    max_delay: float = 30.0

    def __post_init__(self) -> None:
        if type(self.max_retries) is not int or self.max_retries < 0:
            raise InvalidArgumentError(f"max_retries must be an int of 0 or more, got {self.max_retries!r}")


def is_transient(status: int | None) -> bool:
    """Say whether a failure may pass: no answer at all (None), 408, 409, 425, 429 or any 5xx."""
    return status is None or status in _RETRIED or 500 <= status <= 599


def retry_delay(
    policy: RetryPolicy, attempt: int, *, status: int | None, retry_after: float | None, jitter: float
) -> float | None:
    """Return the seconds to wait before trying again, or None where it is of no use.

    Args:
        policy: the bounds.
        attempt: how many attempts failed before this one; 0 after the first.
        status: the HTTP status; None where no whole answer came.
        retry_after: what the server asked for, in seconds; None where it did not.
        jitter: a random number in [0, 1); it spreads the wait over the upper half of the back-off, so that clients
            which failed together do not come back together.
    """
    if attempt >= policy.max_retries or not is_transient(status):
        return None
    backoff = min(policy.max_delay, policy.base_delay * 2.0 ** min(attempt, 30)) * (0.5 + 0.5 * jitter)
    if retry_after is None:
        return backoff
    return None if retry_after > policy.max_delay else max(backoff, retry_after)


def parse_retry_after(value: str | None, *, now: float) -> float | None:
    """Return the seconds a Retry-After header asks for, or None where it says nothing readable.

    Both forms of RFC 9110, 10.2.3 are read: seconds and an HTTP date. `now` is the time in seconds since the epoch; a
    date that has passed gives 0.
    """
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        from email.utils import parsedate_to_datetime

        try:
            seconds = parsedate_to_datetime(value).timestamp() - now
        except (ValueError, TypeError, OverflowError):
            return None
    return max(0.0, seconds) if math.isfinite(seconds) else None
