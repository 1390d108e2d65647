"""What attempts have used and cost, and the budgets of orgs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from onward.clients.binding import AsyncBinding
from onward.core.jobs.ids import JobId, normalise_id
from onward.core.records.usage import Budget, Group, Period, UsageEvent, UsageTotal
from onward.operations.records import usage


class AsyncUsage:
    """Reports what was metered, and holds an org's jobs when it has spent its budget."""

    def __init__(self, binding: AsyncBinding) -> None:
        self._run = binding.run

    async def events(self, job_id: JobId | UUID) -> list[UsageEvent]:
        """Read what the attempts of a job have used, oldest attempt first."""
        asked = normalise_id(job_id)
        return await self._run(lambda: usage.events_of(asked), write=False)

    async def report(
        self,
        by: Sequence[Group] = ("org", "job_type", "queue", "day", "unit"),
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        org_id: str | None = None,
        limit: int = 1000,
    ) -> list[UsageTotal]:
        """Sum the usage by the groups in `by`, from `since` to before `until`; highest cost first.

        Amounts are summed only if `by` includes the unit. Days are days in UTC.
        """
        return await self._run(
            lambda: usage.report(by, since=since, until=until, org_id=org_id, limit=limit), write=False
        )

    async def prune(self, *, before: datetime, limit: int = 10_000) -> int:
        """Delete usage before an instant, oldest first; return how many rows, at most `limit`."""
        return await self._run(lambda: usage.prune(before=before, limit=limit))

    async def set_budget(
        self, org_id: str, *, limit_micros: int, period: Period, reason: str | None = None
    ) -> Budget:
        """Hold an org's jobs once it has spent `limit_micros` in a period.

        The period is a day or a month in UTC, or all time from now on. The cost of the current day or month
        so far counts. A budget that is set again for the same period keeps what was spent.
        """
        return await self._run(
            lambda: usage.set_budget(org_id, limit_micros=limit_micros, period=period, reason=reason)
        )

    async def remove_budget(self, org_id: str, *, reason: str | None = None) -> bool:
        """Remove the budget of an org; False if it had none."""
        return await self._run(lambda: usage.remove_budget(org_id, reason=reason))

    async def budgets(self, org_id: str | None = None, *, limit: int = 1000) -> list[Budget]:
        """Read the budgets, ordered by org, or the budget of one org."""
        return await self._run(lambda: usage.budgets(org_id, limit=limit), write=False)
