"""When a call to a provider is made again within one attempt: after a rate limit, and after nothing else."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from onward.core.failures.verdict import Verdict
from onward.core.work.retry import RetryPolicy

_LONGEST = timedelta(seconds=30)


class Calls:
    """The calls of one request: counts them, and says how long to wait before the next.

    `judge` gives the verdict on an error; without a policy there is one call.
    """

    def __init__(self, policy: RetryPolicy | None, judge: Callable[[BaseException], Verdict]) -> None:
        self._policy = policy
        self._judge = judge
        self._made = 0

    def wait_after(self, error: BaseException, dice: float) -> timedelta | None:
        """Give the wait before the next call; None if the error is to be raised as it is.

        What a provider asks for replaces the back-off. If it asks for more than the policy would ever wait,
        the attempt had better end, and the job wait outside of its slot.
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
        return verdict.after if verdict.after <= (policy.cap or _LONGEST) else None
