"""Leases: those of jobs, which of them a write still held, and what was promoted or taken back."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from onward.core.inputs.checks import whole_number
from onward.core.jobs.ids import JobId
from onward.errors import LeaseLost

MOST_LEASES = 2**63 - 1
MOST_ATTEMPTS = 2**31 - 1
"""The largest numbers of a lease and of an attempt that both databases store."""


class JobLease(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The lease under which a worker claimed a job, and the number of the attempt that it was claimed for."""

    job_id: JobId
    lease: Annotated[int, Meta(ge=0)]
    attempt: Annotated[int, Meta(ge=1)]


def check_lease(lease: int, attempt: int) -> None:
    """Raise InvalidSetting for numbers that no claim can have given."""
    whole_number("lease", lease, 0, MOST_LEASES)
    whole_number("attempt", attempt, 1, MOST_ATTEMPTS)


class Leases(msgspec.Struct, frozen=True):
    """Which of the leases in a write were still held; a refused lease changed nothing."""

    held: frozenset[JobId]
    lost: frozenset[JobId]
    cancel_requested: frozenset[JobId] = frozenset()
    spent_orgs: frozenset[str] = frozenset()
    """Orgs whose budget is spent, as far as these writes found out."""
    tied: frozenset[JobId] = frozenset()
    """Jobs that have ended with follow-up work pending, which `follow_up_ends` does."""
    permits: frozenset[str] = frozenset()
    """Keys of limits that may have a free permit, because a job ended or was released."""

    def joined(self, more: Leases) -> Leases:
        """Add the result of another write; a lease that either of them found held is not lost."""
        held = self.held | more.held
        return Leases(
            held,
            (self.lost | more.lost) - held,
            self.cancel_requested | more.cancel_requested,
            self.spent_orgs | more.spent_orgs,
            self.tied | more.tied,
            self.permits | more.permits,
        )

    def require(self) -> None:
        """Raise LeaseLost if any lease was lost."""
        if self.lost:
            raise LeaseLost(
                f"job {', '.join(sorted(self.lost))}: another worker holds it, or it has ended; "
                "its result was refused and must not be written elsewhere"
            )


class Promoted(msgspec.Struct, frozen=True):
    """How many jobs of each queue became ready, and when the next one is due.

    `permits` are the keys of limits for whose permits the other due jobs wait now.
    """

    queues: dict[str, int]
    next_due: datetime | None
    permits: frozenset[str] = frozenset()


class Swept(msgspec.Struct, frozen=True):
    """Whether this worker leads, and what it took back."""

    leader: bool
    leases: Leases
