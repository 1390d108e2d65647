"""What attempts have used and cost, and the budgets of orgs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta

from onward.clients.binding import AsyncBinding
from onward.core.bulk import Bulk, Changed
from onward.core.inputs.wire_form import Instant
from onward.core.jobs.ids import AnyJobId, normalise_id
from onward.core.page import Cursor, Page, PageSize
from onward.core.records.usage import Budget, Group, Period, UsageEvent, UsageTotal
from onward.operations.records import usage


class AsyncUsage:
    """Reports what was metered, and holds an org's jobs when it has spent its budget.

    Only a client of all orgs changes budgets and deletes usage; for a client of one org that raises
    NotAllowed.
    """

    def __init__(self, binding: AsyncBinding) -> None:
        self._run = binding.run

    async def events(self, job_id: AnyJobId) -> Page[UsageEvent]:
        """Return what the attempts of a job have used, oldest attempt first; raises InvalidJob."""
        wanted = normalise_id(job_id)
        return await self._run(lambda: usage.events_of(wanted), write=False)

    async def report(
        self,
        by: Sequence[Group] = ("org", "job_type", "queue", "day", "unit"),
        *,
        since: Instant | None = None,
        until: Instant | None = None,
        limit: PageSize = 1000,
        cursor: Cursor | None = None,
    ) -> Page[UsageTotal]:
        """Sum the usage by the groups in `by`, from `since` to before `until`; highest cost first.

        Amounts are summed only if `by` includes the unit. Days are days in UTC. Raises InvalidSetting.
        """
        return await self._run(
            lambda: usage.report(by, since=since, until=until, limit=limit, cursor=cursor), write=False
        )

    async def prune(
        self,
        *,
        before: Instant,
        limit: Annotated[int, Meta(ge=1, le=usage.MOST_PRUNED)] = 10_000,
        cursor: Cursor | None = None,
    ) -> Bulk:
        """Delete at most `limit` rows of usage before an instant, oldest first; raises InvalidSetting."""
        return await self._run(lambda: usage.prune(before=before, limit=limit, cursor=cursor))

    async def set_budget(
        self,
        org_id: str,
        *,
        limit_micros: Annotated[int, Meta(ge=1, le=usage.MOST_MICROS)],
        period: Period,
        reason: str | None = None,
    ) -> Budget:
        """Hold an org's jobs once it has spent `limit_micros` in a period.

        The period is a day or a month in UTC, or all time from now on. The cost of the current day or month
        so far counts. A budget that is set again for the same period keeps what was spent. Raises
        InvalidSetting, and InvalidJob for a bad org or reason.
        """
        return await self._run(
            lambda: usage.set_budget(org_id, limit_micros=limit_micros, period=period, reason=reason)
        )

    async def remove_budget(self, org_id: str, *, reason: str | None = None) -> Changed:
        """Remove the budget of an org, if it has one; raises InvalidJob for a bad org or reason."""
        return await self._run(lambda: usage.remove_budget(org_id, reason=reason))

    async def budgets(
        self, org_id: str | None = None, *, limit: PageSize = 50, cursor: Cursor | None = None
    ) -> Page[Budget]:
        """Return a page of the budgets, ordered by org, or the budget of one org.

        Raises InvalidSetting, and InvalidJob for a bad org.
        """
        return await self._run(lambda: usage.budgets(org_id, limit=limit, cursor=cursor), write=False)
