"""Repeated calls to a provider within one attempt: only a rate limit causes another call."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import cast

from onward.core.failures.verdict import Verdict
from onward.core.work.retry import RetryPolicy

_LONGEST = timedelta(seconds=30)


class Calls:
    """Counts the calls of one request, and decides how long to wait before the next.

    `judge` returns the verdict on an error; without a policy there is one call.
    """

    def __init__(self, policy: RetryPolicy | None, judge: Callable[[BaseException], Verdict]) -> None:
        self._policy = policy
        self._judge = judge
        self._made = 0

    def wait_after(self, error: BaseException, dice: float) -> timedelta | None:
        """Return the wait before the next call; None if the caller should raise the error.

        The wait that a provider asks for replaces the back-off. If it exceeds the longest wait of the policy,
        the attempt ends, and the job waits without occupying a slot.
        """
        self._made += 1
        policy = self._policy
        if policy is None or self._made >= policy.max_attempts:
            return None
        verdict = self._judge(error)
        if verdict.kind != "rate_limited":
            return None
        if verdict.after is None or verdict.after <= timedelta():
            return policy.wait(self._made, dice)
        longest = cast("timedelta", policy.cap or _LONGEST)
        return verdict.after if verdict.after <= longest else None
