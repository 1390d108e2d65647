"""Categories of applications: four ways to retry, and how long the keys of their jobs hold.

`Onward(categories=…)` or `app.category(…)` adds them to the presets.
"""

from __future__ import annotations

from datetime import timedelta

from onward import Category, RetryPolicy

__all__ = ["ATLAS", "BOOKING", "CATEGORIES", "HARMONYK", "HUBSPOT"]

MINUTE = timedelta(minutes=1)

BOOKING = Category(
    name="booking",
    retry=RetryPolicy(kind="fixed", base=MINUTE, jitter=False, max_attempts=3),
    key_lifetime="forever",
    unique_by="subject",
    on_conflict="reset",
)
"""A booking has one job of each type, and the next enqueue starts it again."""

ATLAS = Category(
    name="atlas",
    retry=RetryPolicy(kind="exponential", base=timedelta(seconds=10), cap=None, jitter=False, max_attempts=4),
)
"""A workflow engine: delays without a cap."""

HARMONYK = Category(
    name="harmonyk",
    retry=RetryPolicy(
        kind="exponential", base=timedelta(seconds=1), cap=MINUTE, jitter=False, max_attempts=5
    ),
    key_lifetime="active",
)
"""Short jobs that are due again soon."""

HUBSPOT = Category(
    name="hubspot",
    retry=RetryPolicy(
        kind="exponential",
        base=MINUTE,
        first_exponent=1,
        cap=60 * MINUTE,
        jitter=False,
        max_attempts=6,
        crash_delay=5 * MINUTE,
    ),
    key_lifetime="active",
    lease=10 * MINUTE,
    # For calls that the provider answers with 429: the first call, and five more within one attempt.
    inner_retry=RetryPolicy(
        kind="exponential",
        base=timedelta(seconds=1),
        cap=timedelta(seconds=30),
        jitter=False,
        max_attempts=6,
    ),
    rate_limit_burns_attempt=True,
    alert="integration_error",
)
"""A provider that is slow to recover: a rate limit counts as an attempt, a lost worker is waited for."""

CATEGORIES = (BOOKING, ATLAS, HARMONYK, HUBSPOT)
