"""When a failed HTTP request is sent again: pure functions of what came back."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from agora_core.errors import InvalidArgumentError

_NUMBER: Final = r"([0-9]+(?:\.[0-9]*)?)"
_DURATION: Final = re.compile("".join(f"(?:{_NUMBER}{unit})?" for unit in ("h", "m", "s", "ms")))
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


def asked_wait(headers: Mapping[str, str], *, now: float) -> float | None:
    """Return the seconds that a server asks to wait, or None where its headers do not say.

    Read are `retry-after-ms` and `Retry-After`; where neither stands, of the limits that have nothing remaining
    (`x-ratelimit-remaining-requests` and `-tokens`, `ratelimit-remaining`) the longest time to the reset.
    """
    milliseconds = _seconds(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    told = parse_retry_after(headers.get("Retry-After"), now=now)
    if told is not None:
        return told
    waits = [
        _seconds(headers.get(f"{prefix}-reset{kind}"))
        for prefix in ("x-ratelimit", "ratelimit")
        for kind in ("", "-requests", "-tokens")
        if _seconds(headers.get(f"{prefix}-remaining{kind}")) == 0
    ]
    return max((wait for wait in waits if wait is not None), default=None)


def _seconds(value: str | None) -> float | None:
    """Return a number of seconds, or a duration as `6m0.5s` or `20ms`, in seconds; None for anything else."""
    if value is None or not value.strip():
        return None
    text = value.strip()
    parts = _DURATION.fullmatch(text)
    if parts is not None and any(parts.groups()):
        amounts = [float(part or 0) for part in parts.groups()]
        return sum(amount * unit for amount, unit in zip(amounts, (3600, 60, 1, 0.001), strict=True))
    try:
        seconds = float(text)
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


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
