"""When a failed request is sent again, and after how long."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agora_core.errors import InvalidArgumentError
from agora_core.http_retry import RetryPolicy, asked_wait, is_transient, parse_retry_after, retry_delay

POLICY = RetryPolicy(max_retries=3, base_delay=0.5, max_delay=30.0)
NOW = 1_700_000_000.0


@pytest.mark.parametrize("status", [None, 408, 409, 425, 429, 500, 502, 503, 504, 529, 599])
def test_a_failure_that_may_pass_is_retried(status: int | None) -> None:
    assert is_transient(status)
    assert retry_delay(POLICY, 0, status=status, retry_after=None, jitter=0.0) == 0.25


@pytest.mark.parametrize("status", [301, 307, 400, 401, 403, 404, 405, 413, 422, 600])
def test_a_refusal_for_good_is_not(status: int) -> None:
    assert not is_transient(status)
    assert retry_delay(POLICY, 0, status=status, retry_after=1.0, jitter=0.0) is None


def test_waits_double_and_end_after_max_retries() -> None:
    waits = [retry_delay(POLICY, n, status=503, retry_after=None, jitter=1.0) for n in range(4)]
    assert waits == [0.5, 1.0, 2.0, None]


def test_no_retries_at_all_where_none_are_allowed() -> None:
    assert retry_delay(RetryPolicy(max_retries=0), 0, status=503, retry_after=0.0, jitter=0.0) is None


def test_retry_after_is_obeyed_and_never_undercut() -> None:
    assert retry_delay(POLICY, 0, status=429, retry_after=7.0, jitter=0.0) == 7.0
    assert retry_delay(POLICY, 2, status=429, retry_after=0.1, jitter=1.0) == 2.0


def test_a_server_that_asks_for_too_long_a_wait_is_given_up() -> None:
    assert retry_delay(POLICY, 0, status=429, retry_after=30.1, jitter=0.0) is None


@given(
    attempt=st.integers(0, 10_000),
    jitter=st.floats(0, 1, exclude_max=True),
    asked=st.none() | st.floats(0, 1e6),
)
def test_a_wait_stays_within_its_bounds(attempt: int, jitter: float, asked: float | None) -> None:
    policy = RetryPolicy(max_retries=20_000)
    wait = retry_delay(policy, attempt, status=503, retry_after=asked, jitter=jitter)
    if asked is not None and asked > policy.max_delay:
        assert wait is None
    else:
        assert wait is not None
        assert max(asked or 0.0, 0.25) <= wait <= policy.max_delay


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, None),
        ("0", 0.0),
        ("120", 120.0),
        ("1.5", 1.5),
        (" 3 ", 3.0),
        ("-5", 0.0),
        ("nan", None),
        ("inf", None),
        ("soon", None),
        ("", None),
        ("Tue, 14 Nov 2023 22:13:30 GMT", 10.0),
        ("Tue, 14 Nov 2023 22:13:10 GMT", 0.0),
        ("Tue, 99 Nov 2023 22:13:10 GMT", None),
    ],
)
def test_both_forms_of_retry_after_are_read(value: str | None, seconds: float | None) -> None:
    assert parse_retry_after(value, now=NOW) == seconds


@pytest.mark.parametrize("value", [-1, 1.5, True, "3", None])
def test_a_wrong_number_of_retries_is_refused(value: object) -> None:
    with pytest.raises(InvalidArgumentError, match="max_retries must be an int of 0 or more"):
        RetryPolicy(max_retries=value)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"Retry-After": "7", "x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "90s"}, 7.0),
        ({"retry-after-ms": "250", "Retry-After": "7"}, 0.25),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "6m0.5s"}, 360.5),
        ({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "20ms"}, 0.02),
        ({"x-ratelimit-remaining-tokens": "5", "x-ratelimit-reset-tokens": "20s"}, None),
        ({"ratelimit-remaining": "0", "ratelimit-reset": "12"}, 12.0),
        ({"ratelimit-remaining": "0", "ratelimit-reset": "soon"}, None),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "1.2.3s"}, None),
        ({"retry-after-ms": "nan"}, None),
        ({"retry-after-ms": "-1"}, None),
    ],
)
def test_what_a_server_tells_of_its_limits_is_the_wait(headers: dict[str, str], seconds: float | None) -> None:
    assert asked_wait(headers, now=0.0) == (None if seconds is None else pytest.approx(seconds))
