"""The queues that have a policy, and which of them have no job to claim now.

A full queue is left alone until one of its jobs has ended, or for a second.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping

from onward.core.limits.queue_policy import QueuePolicy
from onward.core.work.claim import PolicyClaim

# If other workers run all jobs that the policy allows, this worker does not learn that one has ended.
_ASK_AGAIN_SECONDS = 1.0


class QueuePolicies:
    """The queues that are claimed under a policy, and until when each is left alone."""

    def __init__(self, declared: Mapping[str, QueuePolicy]) -> None:
        self._declared = frozenset(name for name, policy in declared.items() if not policy.plain)
        self.names = self._declared
        self._full_until: dict[str, float] = {}
        self._rated_until: dict[str, float] = {}
        self._theirs: frozenset[str] = frozenset()
        self.ends = 0

    def update(self, names: Collection[str]) -> None:
        """Take over the queues that have a policy in the database."""
        self.names = self._declared | frozenset(names)

    def claimed(self, queue: str, claim: PolicyClaim, since: int, *, theirs: bool = False) -> None:
        """Record why a claim returned no more jobs; `since` is the value of `ends` when it began.

        A full queue is `theirs` if this worker held no job when the claim began.
        """
        now = time.monotonic()
        # A job that ended meanwhile may have made room that the claim did not see.
        if claim.full and since == self.ends:
            self._full_until[queue] = now + _ASK_AGAIN_SECONDS
            self._theirs = self._theirs | {queue} if theirs and not claim.jobs else self._theirs - {queue}
        if claim.wait is not None:
            self._rated_until[queue] = now + claim.wait.total_seconds()

    def ended(self, queues: Iterable[str]) -> set[str]:
        """Record that jobs of these queues have ended; return the queues that have room again."""
        self.ends += 1
        if not self._full_until:
            return set()
        return {queue for queue in queues if self._full_until.pop(queue, None) is not None}

    def held(self) -> set[str]:
        """Return the queues from which a claim would return nothing now."""
        if not self._full_until and not self._rated_until:
            return set()
        now = time.monotonic()
        self._full_until = {queue: at for queue, at in self._full_until.items() if at > now}
        self._rated_until = {queue: at for queue, at in self._rated_until.items() if at > now}
        return {*self._full_until, *self._rated_until}

    def held_longer(self, seconds: float) -> set[str]:
        """Return the queues that other workers fill, or whose rate starts no job within `seconds`.

        A queue that may be full only with jobs that this worker has just ended is not held any longer.
        """
        self._full_until = {queue: at for queue, at in self._full_until.items() if queue in self._theirs}
        until = time.monotonic() + seconds
        return {*self._full_until, *(queue for queue, at in self._rated_until.items() if at > until)}

    def next_in(self, longest: float) -> float:
        """Return the seconds until a queue may have jobs again, at most `longest`."""
        if not self._full_until and not self._rated_until:
            return longest
        first = min([*self._full_until.values(), *self._rated_until.values()])
        return min(longest, max(0.0, first - time.monotonic()))
