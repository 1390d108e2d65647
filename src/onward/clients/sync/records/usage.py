# Generated from src/onward/clients/records/usage.py by tools/make_sync.py. Edit that file instead.
"""What runs have used and cost, and the budgets of orgs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from onward.clients.sync.binding import Binding
from onward.core.jobs.ids import JobId, normalise_id
from onward.operations.records import usage
from onward.operations.records.usage import Budget, Group, Period, UsageEvent, UsageTotal


class Usage:
    """Report what was metered, and hold an org's jobs when it has spent its budget."""

    def __init__(self, binding: Binding) -> None:
        self._run = binding.run

    def events(self, job_id: JobId | UUID) -> list[UsageEvent]:
        """Read what the runs of a job have used, oldest run first."""
        asked = normalise_id(job_id)
        return self._run(lambda: usage.events_of(asked), write=False)

    def report(
        self,
        by: Sequence[Group] = ("org", "job_type", "queue", "day", "unit"),
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        org_id: str | None = None,
        limit: int = 1000,
    ) -> list[UsageTotal]:
        """Sum what was used by the groups that are named, from `since` to before `until`; the dearest first.

        Amounts are summed only by unit. Days are those of UTC.
        """
        return self._run(
            lambda: usage.report(by, since=since, until=until, org_id=org_id, limit=limit), write=False
        )

    def prune(self, *, before: datetime, limit: int = 10_000) -> int:
        """Delete usage of before an instant, the oldest first; gives how many rows, at most `limit`."""
        return self._run(lambda: usage.prune(before=before, limit=limit))

    def set_budget(
        self, org_id: str, *, limit_micros: int, period: Period, reason: str | None = None
    ) -> Budget:
        """Hold an org's jobs once it has spent so much in a day or a month of UTC, or in total from now on.

        What a day or a month has cost already counts. Set anew for the same period, it keeps what was spent.
        """
        return self._run(
            lambda: usage.set_budget(org_id, limit_micros=limit_micros, period=period, reason=reason)
        )

    def remove_budget(self, org_id: str, *, reason: str | None = None) -> bool:
        """Let an org spend what it will; False if it had no budget."""
        return self._run(lambda: usage.remove_budget(org_id, reason=reason))

    def budgets(self, org_id: str | None = None, *, limit: int = 1000) -> list[Budget]:
        """Read the budgets by the order of their orgs, or that of one org."""
        return self._run(lambda: usage.budgets(org_id, limit=limit), write=False)
